"""Fifty clients upload while 2,000 files of a folder are signed: how health answers, what is lost, what memory does."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

from bench.clients import Crowd
from bench.inputs import Input, named_input
from bench.measure import Result
from bench.service import resident_mib, running_service
from bulksigner.testing.served import ServedService, ServiceFailed

__all__ = ["run_load"]

FILES = 2000
CLIENTS = 50
CROWDS = 2
"""Processes that the clients are spread over."""
WARM_FILES = 200
LIMIT_SECONDS = 600.0
LOOK_SECONDS = 0.1


def run_load(count: int | None) -> list[Result]:
    """Sign payment files of 200 KB from a folder, and let every client upload without a pause until that is done."""
    files = count or FILES
    given = named_input("payment-200k")
    with running_service(concurrency=8, engine="Auto") as service:
        if service.process is None:
            raise ServiceFailed("The service does not run.")
        pid = service.process.pid
        sample = service.root / f"sample{given.suffix}"
        sample.write_bytes(given.content)
        _drop(service, given, "warm", min(WARM_FILES, files))
        _wait_for(service, "warm", min(WARM_FILES, files))
        before = resident_mib(pid)
        crowds = [
            Crowd.begin("upload", url=service.url, clients=CLIENTS // CROWDS, name=f"crowd-{number}", file=str(sample))
            for number in range(CROWDS)
        ]
        health = Crowd.begin("health", url=service.url)
        began = time.perf_counter()
        _drop(service, given, "file", files)
        _wait_for(service, "file", files)
        elapsed = time.perf_counter() - began
        seen, probed = [crowd.end() for crowd in crowds], health.end()
        during = resident_mib(pid)
        lost = _count_lost(service, seen)
        after = resident_mib(pid)
        total = service.count("Completed")
    sent = [second for one in seen for second in one["seconds"]]
    failures = [failure for one in [*seen, probed] for failure in one["failures"]]
    what = f"{CLIENTS} clients and {files} files; MaxConcurrency 8, engine Auto"
    return [
        *_quantiles("health", probed["seconds"], what),
        *_quantiles("upload", sent, f"{len(sent) / elapsed:.1f} a second; {len(failures)} refused or broken"),
        Result("load", "jobs", total / elapsed, 0, 0, 0, total, f"{lost} acknowledged uploads lost"),
        *(
            Result(
                "memory", name, 0, 0, 0, 0, 1, f"MiB: {before[at]:.0f} before, {during[at]:.0f}, {after[at]:.0f} after"
            )
            for at, name in enumerate(("main process", "a worker"))
        ),
    ]


def _drop(service: ServedService, given: Input, label: str, files: int) -> None:
    ready = service.root / f"ready-{label}"
    ready.mkdir()
    for number in range(files):
        path = ready / f"{label}-{number:05}{given.suffix}"
        path.write_bytes(given.content)
        path.rename(service.root / "inbox" / path.name)


def _wait_for(service: ServedService, label: str, files: int) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while (found := sum(1 for _ in service.output.glob(f"{label}-*"))) < files:
        if time.monotonic() > deadline or (service.process is not None and service.process.poll() is not None):
            raise ServiceFailed(f"{found} of {files} files came out.\n{service.last_lines()}")
        time.sleep(LOOK_SECONDS)


def _count_lost(service: ServedService, seen: Sequence[dict[str, Any]]) -> int:
    """Wait until nothing is under way, and count the acknowledged uploads without a signed file."""
    acknowledged = {job for one in seen for job in one["jobs"]}
    deadline = time.monotonic() + LIMIT_SECONDS
    while any(service.count(status) for status in ("Queued", "Processing", "Verifying")):
        if time.monotonic() > deadline:
            raise ServiceFailed(f"Jobs do not end.\n{service.last_lines()}")
        time.sleep(LOOK_SECONDS)
    signed = {path.name for path in service.output.iterdir()}
    done = {job["id"] for job in service.jobs("Completed") if f"{job['fileName']}.p7m" in signed}
    return len(acknowledged - done)


def _quantiles(line: str, seconds: Sequence[float], note: str) -> list[Result]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return [
        Result(line, label, 1 / value, 0, 1000 * value, 0, len(seconds), note)
        for label, value in (("p50", cuts[49]), ("p99", cuts[98]), ("worst", max(seconds)))
    ]
