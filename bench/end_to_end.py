"""From drop to verified output, durable: the whole product against the bare loops of others (PERF-20)."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from bench.floors import cades_floors, pades_floors, xades_floors
from bench.inputs import Input, named_input
from bench.measure import Loop, Result, run_interleaved
from bench.service import Usage, running_service, usage_of
from bulksigner.testing.served import ServedService, ServiceFailed

__all__ = ["run_cades", "run_pades", "run_scale", "run_xades"]

WARM_FILES = 24
LIMIT_SECONDS = 300.0
WINDOW_SECONDS = 0.5
LOOK_SECONDS = 0.02
"""Between two looks at the output folder, so that looking costs the service nothing worth naming."""
_SETTINGS = (("InProcess", 1), ("InProcess", 8), ("Processes", 8))


def run_pades(count: int | None) -> list[Result]:
    """Measure PDFs of three sizes, classic and packed, and one of 10,000 objects."""
    results = _against(pades_floors(), named_input("pdf-300k"), count or 400)
    for name, files in (("pdf-30k", 400), ("pdf-300k-packed", 400), ("pdf-5m", 60), ("pdf-10000-objects", 60)):
        results += _measured(named_input(name), count or files, _SETTINGS[-1:])
    return results


def run_cades(count: int | None) -> list[Result]:
    """Measure payment files of 200 KB, attached."""
    return _against(cades_floors(), named_input("payment-200k"), count or 600)


def run_xades(count: int | None) -> list[Result]:
    """Measure invoices of 10 KB."""
    return _against(xades_floors(), named_input("xml-10k"), count or 600)


def run_scale(count: int | None) -> list[Result]:
    """Measure one and two workers (PERF-25)."""
    results = []
    for name in ("pdf-300k", "payment-200k", "xml-10k"):
        alone, both = (
            _drop_and_wait(named_input(name), count or 400, "Processes", 8, workers=workers) for workers in (1, 2)
        )
        efficiency = both.per_second / alone.per_second / 2
        results += [alone, both, Result("scale", f"{name} efficiency", efficiency, efficiency, 0, 0, 1, "PERF-36")]
    return results


def _against(floors: list[Loop], given: Input, files: int) -> list[Result]:
    """Measure the loops of others before and after, so that both saw the same host."""
    before = run_interleaved("bare loop", floors, rounds=2)
    ours = _measured(given, files, _SETTINGS)
    after = run_interleaved("bare loop", floors, rounds=2)
    best = max(ours, key=lambda result: result.per_second)
    ratios = [
        Result(
            "ratio",
            f"{given.name} ÷ {one.name}",
            best.per_second / statistics.mean((one.per_second, two.per_second)),
            0,
            0,
            0,
            1,
            best.note,
        )
        for one, two in zip(before, after, strict=True)
    ]
    return [*before, *ours, *after, *ratios]


def _measured(given: Input, files: int, settings: tuple[tuple[str, int], ...]) -> list[Result]:
    return [_drop_and_wait(given, files, engine, concurrency) for engine, concurrency in settings]


def _drop_and_wait(given: Input, files: int, engine: str, concurrency: int, *, workers: int | None = None) -> Result:
    more: dict[str, object] = {} if workers is None else {"Signing:EngineWorkers": workers}
    with running_service(
        concurrency=concurrency, engine=engine, window_seconds=WINDOW_SECONDS, settings=more
    ) as service:
        _drop(service, _write(service, given, "warm", WARM_FILES))
        _wait(service, WARM_FILES)
        written = _write(service, given, "file", files)
        before = _usage(service)
        began = time.perf_counter()
        _drop(service, written)
        _wait(service, WARM_FILES + files)
        # The window is a wish of the settings, not work.
        elapsed = time.perf_counter() - began - WINDOW_SECONDS
        after = _usage(service)
    shown = f"engine {engine}" + ("" if workers is None else f" × {workers}")
    note = (
        f"MaxConcurrency {concurrency}, {shown}; peak {after.main_peak_mib:.0f} MiB"
        f" + {after.worker_peak_mib:.0f} MiB a worker"
    )
    rate = files / elapsed
    cpu = 1000 * (after.cpu_seconds - before.cpu_seconds) / files
    return Result("end to end", given.name, rate, rate, 1000 / rate, cpu, files, note)


def _write(service: ServedService, given: Input, label: str, files: int) -> list[Path]:
    ready = service.root / f"ready-{label}"
    ready.mkdir()
    written = [ready / f"{label}-{number:05}{given.suffix}" for number in range(files)]
    for path in written:
        path.write_bytes(given.content)
    os.sync()
    return written


def _drop(service: ServedService, written: list[Path]) -> None:
    """Rename finished files into the folder, as a producer that is quicker than the service."""
    for path in written:
        path.rename(service.root / "inbox" / path.name)


def _wait(service: ServedService, files: int) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while _count(service.output) < files:
        if time.monotonic() > deadline or (service.process is not None and service.process.poll() is not None):
            raise ServiceFailed(f"{_count(service.output)} of {files} files came out.\n{service.last_lines()}")
        time.sleep(LOOK_SECONDS)
    # The last outputs lie there a moment before their jobs are recorded as done.
    while service.count("Completed") < files and time.monotonic() < deadline:
        time.sleep(0.005)


def _count(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(1 for _ in entries)


def _usage(service: ServedService) -> Usage:
    if service.process is None:
        raise ServiceFailed("The service does not run.")
    return usage_of(service.process.pid)
