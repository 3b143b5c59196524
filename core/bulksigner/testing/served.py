"""A real `bulksigner serve` in a process of its own, for tests, the demo and the benchmark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import httpx

from bulksigner.contract.errors import BulkSignerError

__all__ = ["API_KEY", "ServedService", "ServiceFailed", "await_ready", "free_port"]

API_KEY = "a-key-for-tests-and-benchmarks"
SECRETS_KEY = "a-sealing-key-for-tests-and-benchmarks-only"
READY_LIMIT_SECONDS = 60.0
_LAST_LINES = 15


class ServiceFailed(BulkSignerError):
    """Report that the service did not do what was waited for, with the last lines of its log."""


def free_port() -> int:
    """Return a loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_ready(process: subprocess.Popen[bytes], url: str, limit_seconds: float) -> bool:
    """Wait until the service at `url` says that it is ready; False when its process ends. Raises `TimeoutError`."""
    deadline = time.monotonic() + limit_seconds
    with httpx.Client(trust_env=False, timeout=5) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return False
            try:
                if client.get(f"{url}/api/ready").status_code == httpx.codes.OK:
                    return True
            except httpx.TransportError:
                pass
            time.sleep(0.05)
    raise TimeoutError(f"The service was not ready within {limit_seconds:.0f} s.")


@attrs.define
class ServedService:
    """One service below `root`; `settings` maps keys such as `Pipeline:MaxConcurrency` to values.

    The settings travel as environment variables, so no file is written. A second `start` is a restart on the same data.
    """

    root: Path
    settings: Mapping[str, object]
    environment: Mapping[str, str] = attrs.field(factory=dict)
    port: int = attrs.field(factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the address of the service."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """Return the storage root."""
        return self.root / "data"

    @property
    def output(self) -> Path:
        """Return the folder of signed files."""
        return self.data / "output"

    @property
    def log(self) -> Path:
        """Return the file that takes what the service prints."""
        return self.root / "service.log"

    def start(self, *, wait: bool = True) -> None:
        """Start the service and wait until it is ready; raises `ServiceFailed` when it is not in time."""
        self.root.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bulksigner", "serve"],
                cwd=self.root,
                env=self._variables(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if wait:
            self.wait_ready()

    def wait_ready(self, limit_seconds: float = READY_LIMIT_SECONDS) -> None:
        """Wait until the service answers that it is ready."""
        if self.process is None:
            raise ServiceFailed("The service was not started.")
        try:
            is_ready = await_ready(self.process, self.url, limit_seconds)
        except TimeoutError as error:
            raise ServiceFailed(f"{error}\n{self.last_lines()}") from error
        if not is_ready:
            raise ServiceFailed(f"The service ended with code {self.process.returncode}.\n{self.last_lines()}")

    def stop(self, limit_seconds: float = 60.0) -> int:
        """Stop it as a service manager does, and return its exit code."""
        return self._end(signal.SIGTERM, limit_seconds)

    def kill(self) -> int:
        """Kill it at once, as a crash does."""
        return self._end(signal.SIGKILL, 10.0)

    def run(self, *arguments: str, limit_seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run another command of the product under the same variables, and return how it ended and what it printed."""
        return subprocess.run(
            [sys.executable, "-m", "bulksigner", *arguments],
            cwd=self.root,
            env=self._variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_seconds,
            check=False,
        )

    def client(self, **options: Any) -> httpx.Client:
        """Return an HTTP client that sends the API key."""
        return httpx.Client(base_url=self.url, headers={"X-API-Key": API_KEY}, timeout=60, **options)

    def jobs(self, status: str | None = None) -> list[dict[str, Any]]:
        """Return every job, newest first, as the REST list shows them."""
        found: list[dict[str, Any]] = []
        with self.client() as client:
            while True:
                query: dict[str, str | int] = {"page": len(found) // 200 + 1, "pageSize": 200}
                if status is not None:
                    query["status"] = status
                page = client.get("/api/jobs", params=query).raise_for_status().json()
                found += page["items"]
                if not page["items"] or len(found) >= page["totalCount"]:
                    return found

    def count(self, status: str) -> int:
        """Return how many jobs have a status."""
        with self.client() as client:
            page = client.get("/api/jobs", params={"status": status, "pageSize": 1}).raise_for_status().json()
            return int(page["totalCount"])

    def last_lines(self) -> str:
        """Return the last lines of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-_LAST_LINES:])

    def _variables(self) -> dict[str, str]:
        keys = {
            "Auth:ApiKey": API_KEY,
            # One address asks for all of them.
            "RateLimiting:Enabled": "false",
            "Storage:Root": self.data,
            "ConnectionStrings:Default": self.data / "db" / "bulksigner.db",
            "Signing:ProfileSecretsKey": SECRETS_KEY,
            **self.settings,
        }
        inherited = {name: value for name, value in os.environ.items() if "__" not in name}
        return {
            **inherited,
            "BULK_SIGNER_ALLOW_ROOT": "1",
            "BULK_SIGNER_URLS": self.url,
            "BULK_SIGNER_CONTENT_ROOT": str(self.root),
            **{key.replace(":", "__"): str(value) for key, value in keys.items()},
            **self.environment,
        }

    def _end(self, number: signal.Signals, limit_seconds: float) -> int:
        process = self.process
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(limit_seconds)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise ServiceFailed(
                f"The service did not end within {limit_seconds:.0f} s.\n{self.last_lines()}"
            ) from error
        finally:
            self.process = None
