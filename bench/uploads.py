"""Uploads over REST with one and with fifty clients, while files are being signed (PERF-24)."""

from __future__ import annotations

import statistics
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
HEALTH_PAUSE_SECONDS = 0.01


def run_api(count: int | None) -> list[Result]:
    """Send payment files of 200 KB; health is asked meanwhile."""
    files = count or FILES
    given = named_input("payment-200k")
    results = []
    for clients in (1, 50):
        with running_service(concurrency=8, engine="Auto") as service:
            health: list[float] = []
            stopping = threading.Event()
            prober = threading.Thread(target=_ask_health, args=(service, health, stopping))
            prober.start()
            began = time.perf_counter()
            _share(files, clients, partial(_upload, service, given.content))
            elapsed = time.perf_counter() - began
            stopping.set()
            prober.join()
        rate = files / elapsed
        note = f"{rate * len(given.content) / 1e6:.1f} MB/s; MaxConcurrency 8, engine Auto"
        results.append(Result("upload", f"{clients} client(s)", rate, rate, 1000 / rate, 0, files, note))
        results += _health(clients, health)
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


def _ask_health(service: ServedService, seconds: list[float], stopping: threading.Event) -> None:
    with service.client() as client:
        while not stopping.is_set():
            began = time.perf_counter()
            client.get("/api/health").raise_for_status()
            seconds.append(time.perf_counter() - began)
            time.sleep(HEALTH_PAUSE_SECONDS)


def _health(clients: int, seconds: list[float]) -> list[Result]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return [
        Result("health", f"{label} beside {clients} client(s)", 1 / value, 0, 1000 * value, 0, len(seconds))
        for label, value in (("p50", cuts[49]), ("p99", cuts[98]))
    ]
