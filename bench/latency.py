"""How long a file takes through an idle service, from its last byte to its output (PERF-22, PERF-34)."""

from __future__ import annotations

import statistics
import time

from bench.inputs import named_input
from bench.measure import Result
from bench.service import STABILITY_SECONDS, running_service
from bulksigner.testing.served import ServiceFailed

__all__ = ["run_latency"]

LIMIT_SECONDS = 30.0
PAUSE_SECONDS = 0.05


def run_latency(count: int | None) -> list[Result]:
    """Send 200 files one after the other, each when the service is idle again."""
    files = count or 200
    results = []
    for name, output in (("payment-200k", "{}.p7m"), ("pdf-300k", "{}.signed.pdf"), ("xml-10k", "{}.signed.xml")):
        given = named_input(name)
        with running_service(concurrency=1, engine="InProcess") as service:
            seconds = []
            for number in range(files + 5):
                stem = f"file-{number:05}"
                beside = service.root / f"{stem}{given.suffix}"
                beside.write_bytes(given.content)
                target = service.output / output.format(beside.name if output == "{}.p7m" else stem)
                began = time.perf_counter()
                beside.rename(service.root / "inbox" / beside.name)
                while not target.exists():
                    if time.perf_counter() - began > LIMIT_SECONDS:
                        raise ServiceFailed(f"{beside.name} did not come out.\n{service.last_lines()}")
                    time.sleep(0.0005)
                seconds.append(time.perf_counter() - began - STABILITY_SECONDS)
                time.sleep(PAUSE_SECONDS)
        # The first few warm the service.
        results += _percentiles(name, seconds[5:])
    return results


def _percentiles(name: str, seconds: list[float]) -> list[Result]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    note = f"MaxConcurrency 1, engine InProcess; without the stability window of {1000 * STABILITY_SECONDS:.0f} ms"
    return [
        Result("latency", f"{name} {label}", 1 / value, 0, 1000 * value, 0, len(seconds), note)
        for label, value in (("p50", cuts[49]), ("p99", cuts[98]), ("most", max(seconds)))
    ]
