"""Clients of the load line, in processes of their own, so that they do not slow down what they measure.

`python -m bench.clients upload|health` reads its orders as JSON from the first line of standard input, runs until the
input ends, and prints what it saw as JSON.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from bulksigner.testing.served import API_KEY

__all__ = ["Crowd"]

ANSWER_LIMIT_SECONDS = 60.0
HEALTH_PAUSE_SECONDS = 0.01
_BOUNDARY = "bench-boundary-7MA4YWxk"


@attrs.frozen
class Crowd:
    """One process of clients, begun when it is made."""

    process: subprocess.Popen[str]

    @classmethod
    def begin(cls, kind: str, **orders: object) -> Crowd:
        """Start a process of `upload` or `health` clients."""
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.clients", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if process.stdin is not None:
            process.stdin.write(f"{json.dumps(orders)}\n")
            process.stdin.flush()
        return cls(process)

    def end(self) -> dict[str, Any]:
        """Have every client finish what it is about, and return what they saw."""
        out, _ = self.process.communicate(timeout=2 * ANSWER_LIMIT_SECONDS)
        seen: dict[str, Any] = json.loads(out)
        return seen


class _Clients:
    """Threads that ask until they are told to stop."""

    def __init__(self, url: str) -> None:
        self.place = urlsplit(url).netloc
        self.stopping = threading.Event()
        self.seconds: list[float] = []
        self.failures: list[str] = []
        self.job_ids: list[str] = []

    def ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes = b"") -> bytes | None:
        """Ask once and note how long it took; a refusal or a broken connection is noted as a failure."""
        began = time.perf_counter()
        try:
            head = {"X-API-Key": API_KEY}
            if body:
                head["Content-Type"] = f"multipart/form-data; boundary={_BOUNDARY}"
            connection.request(method, path, body or None, head)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self.failures.append(f"{type(error).__name__}: {error}")
            return None
        self.seconds.append(time.perf_counter() - began)
        if answer.status >= 400:
            self.failures.append(f"{answer.status} {content[:200]!r}")
            return None
        return content

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.place, timeout=ANSWER_LIMIT_SECONDS)

    def upload(self, name: str, content: bytes, suffix: str) -> None:
        connection, number = self.connect(), 0
        while not self.stopping.is_set():
            number += 1
            head = (
                f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; '
                f'filename="{name}-{number:05}{suffix}"\r\n\r\n'
            )
            body = head.encode() + content + f"\r\n--{_BOUNDARY}--\r\n".encode()
            answer = self.ask(connection, "POST", "/api/files", body)
            if answer is not None:
                self.job_ids.append(json.loads(answer)["jobId"])

    def look(self) -> None:
        connection = self.connect()
        while not self.stopping.is_set():
            self.ask(connection, "GET", "/api/health")
            time.sleep(HEALTH_PAUSE_SECONDS)


def _main(kind: str) -> None:
    orders = json.loads(sys.stdin.readline())
    clients = _Clients(orders["url"])
    if kind == "health":
        threads = [threading.Thread(target=clients.look)]
    else:
        content = Path(orders["file"]).read_bytes()
        names = [f"{orders['name']}-{number:02}" for number in range(orders["clients"])]
        threads = [
            threading.Thread(target=clients.upload, args=(name, content, Path(orders["file"]).suffix)) for name in names
        ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    clients.stopping.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"seconds": clients.seconds, "failures": clients.failures, "jobs": clients.job_ids}))


if __name__ == "__main__":
    _main(sys.argv[1])
