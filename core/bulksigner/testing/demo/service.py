"""The real service as a process of its own: started on a free loopback port, waited for, stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from types import TracebackType

from bulksigner.contract.errors import BulkSignerError
from bulksigner.testing.demo.ground import Ground
from bulksigner.testing.served import await_ready, free_port

__all__ = ["DemoService", "ServiceLost"]

READY_SECONDS = 90.0
STOP_SECONDS = 30.0
_LOG_LINES = 15
_ADDRESS_TAKEN = 71
_TRIES = 3
_OWN_VARIABLES = ("BULK_SIGNER_", "ASPNETCORE_", "WEBSITE_INSTANCE_ID", "NOTIFY_SOCKET")


class ServiceLost(BulkSignerError):
    """Report that the service ended or gave no answer in time, with the last lines of its log."""


class DemoService:
    """Runs `bulksigner serve` for one demonstration; a context manager that stops it unless `detach` was called."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._process: subprocess.Popen[bytes] | None = None
        self._is_detached = False
        self.url = ""

    def __enter__(self) -> DemoService:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not self._is_detached or kind is not None:
            self.stop()

    @property
    def process_id(self) -> int:
        """Return the id of the process."""
        return self._started.pid

    def start(self) -> None:
        """Start the service and wait until it is ready. Raises `ServiceLost`."""
        for attempt in range(1, _TRIES + 1):
            self._launch(free_port())
            if self._wait_ready():
                return
            if self._started.returncode != _ADDRESS_TAKEN or attempt == _TRIES:
                raise self.lost(f"The service ended with exit code {self._started.returncode} before it was ready.")

    def stop(self) -> None:
        """Ask the service to stop and wait for its end; end it by force when it does not."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"The service did not stop within {STOP_SECONDS:.0f} s; it was ended by force.", flush=True)
            process.kill()
            process.wait()
        except BaseException:
            # A second Ctrl+C: nobody wants to wait any longer, and nothing may be left running.
            process.kill()
            process.wait()
            raise

    def detach(self) -> None:
        """Leave the service running when the demonstration ends."""
        self._is_detached = True

    def check_alive(self) -> None:
        """Raise `ServiceLost` when the process has ended."""
        if self._started.poll() is not None:
            raise self.lost(f"The service ended unasked with exit code {self._started.returncode}.")

    def lost(self, what: str) -> ServiceLost:
        """Make the error that says `what`, with the last lines of the log."""
        with self._ground.log.open(encoding="utf-8", errors="replace") as log:
            lines = "".join(f"    {line}" for line in deque(log, _LOG_LINES))
        return ServiceLost(f"{what} Its last lines, from {self._ground.log}:\n{lines.rstrip()}")

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the service was not started")
        return self._process

    def _launch(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        with self._ground.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bulksigner", "serve"],
                env=_environment(self._ground, self.url),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl+C in the terminal is for the demonstration, which then stops the service itself.
                start_new_session=True,
            )

    def _wait_ready(self) -> bool:
        try:
            return await_ready(self._started, self.url, READY_SECONDS)
        except TimeoutError as error:
            raise self.lost(str(error)) from error


def _environment(ground: Ground, url: str) -> dict[str, str]:
    """Hand on the environment without what would change the settings of the demonstration."""
    inherited = {
        name: value for name, value in os.environ.items() if "__" not in name and not name.startswith(_OWN_VARIABLES)
    }
    return inherited | {
        "BULK_SIGNER_ALLOW_ROOT": "1",
        "BULK_SIGNER_CONTENT_ROOT": str(ground.folder),
        "BULK_SIGNER_ENVIRONMENT": "Demo",
        "BULK_SIGNER_URLS": url,
        "PYTHONUNBUFFERED": "1",
    }
