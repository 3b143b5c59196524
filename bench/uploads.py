"""Uploads over REST with one and with fifty clients, while files are being signed (PERF-24)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from bench.inputs import named_input
from bench.measure import Result
from bench.service import running_service
from bulksigner.testing.served import ServedService

__all__ = ["run_api"]

FILES = 300


def run_api(count: int | None) -> list[Result]:
    """Send payment files of 200 KB; what health does meanwhile is measured by the line `load`."""
    files = count or FILES
    given = named_input("payment-200k")
    results = []
    for clients in (1, 50):
        with running_service(concurrency=8, engine="Auto") as service:
            began = time.perf_counter()
            _share(files, clients, partial(_upload, service, given.content))
            elapsed = time.perf_counter() - began
        rate = files / elapsed
        note = f"{rate * len(given.content) / 1e6:.1f} MB/s; MaxConcurrency 8, engine Auto"
        results.append(Result("upload", f"{clients} client(s)", rate, rate, 1000 / rate, 0, files, note))
    return results


def _share(files: int, clients: int, send: Callable[[range], None]) -> None:
    threads = [threading.Thread(target=send, args=(range(first, files, clients),)) for first in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _upload(service: ServedService, content: bytes, numbers: range) -> None:
    with service.client() as client:
        for number in numbers:
            answer = client.post("/api/files", files={"file": (f"upload-{number:05}.rem", content)})
            answer.raise_for_status()
