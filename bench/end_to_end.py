"""From drop to verified output, durable: the whole product against the bare loops of others (PERF-20)."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path

from bench.floors import cades_floors, pades_floors, primitives_of, xades_floors
from bench.inputs import Input, named_input
from bench.measure import Loop, Result, run_interleaved
from bench.service import Usage, running_service, usage_of
from bulksigner.testing.served import ServedService, ServiceFailed

__all__ = ["run_cades", "run_pades", "run_scale", "run_xades"]

WARM_FILES = 48
LIMIT_SECONDS = 300.0
WINDOW_SECONDS = 0.5
LOOK_SECONDS = 0.03
"""Between two looks at the output folder, so that looking costs the service nothing worth naming."""
_SETTINGS = (("InProcess", 1), ("InProcess", 8), ("Processes", 8), ("Processes", 32))
_FILES = 1500
"""Enough that the first look at a folder of new files and the last jobs, when a core is idle, count for little."""


def run_pades(count: int | None) -> list[Result]:
    """Measure PDFs of three sizes, classic and packed, and one of 10,000 objects."""
    results = _against(pades_floors(), named_input("pdf-300k"), count or _FILES)
    for name, files in (("pdf-30k", _FILES), ("pdf-300k-packed", _FILES), ("pdf-5m", 100), ("pdf-10000-objects", 100)):
        results += _measured(named_input(name), count or files, _SETTINGS[-1:])
    return results


def run_cades(count: int | None) -> list[Result]:
    """Measure payment files of 200 KB, attached."""
    return _against(cades_floors(), named_input("payment-200k"), count or _FILES)


def run_xades(count: int | None) -> list[Result]:
    """Measure invoices of 10 KB."""
    return _against(xades_floors(), named_input("xml-10k"), count or _FILES)


def run_scale(count: int | None) -> list[Result]:
    """Measure one and two workers, and one core against two (PERF-25, PERF-36).

    The service's own process works beside its workers: with one worker it has a core for itself where there are two.
    """
    results = []
    for name in ("pdf-300k", "payment-200k", "xml-10k"):
        given, files = named_input(name), count or _FILES
        alone, both = (_drop_and_wait(given, files, *_SETTINGS[-1], workers=workers) for workers in (1, 2))
        results += [alone, both, _efficiency(f"{name} two workers ÷ one", both, alone)]
        if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
            cores = sorted(os.sched_getaffinity(0))
            one, two = (
                _drop_and_wait(given, files, *_SETTINGS[-1], workers=used, cores=set(cores[:used])) for used in (1, 2)
            )
            results += [one, two, _efficiency(f"{name} two cores ÷ one", two, one)]
    return results


def _efficiency(name: str, twice: Result, once: Result) -> Result:
    share = twice.per_second / once.per_second / 2
    return Result("scale", f"{name} ÷ 2", share, share, 0, 0, 1, "PERF-36")


def _against(floors: list[Loop], given: Input, files: int) -> list[Result]:
    """Measure the loops of others before and after, so that both saw the same host."""
    floors = [*floors, primitives_of(given)]
    before = run_interleaved("bare loop", floors, rounds=2)
    ours = _measured(given, files, _SETTINGS)
    after = run_interleaved("bare loop", floors, rounds=2)
    best = max(ours, key=lambda result: result.per_second)
    *compared, primitives = zip(before, after, strict=True)
    ratios = [
        _ratio(f"{given.name} ÷ {one.name}", best.per_second / statistics.mean((one.per_second, two.per_second)), best)
        for one, two in compared
    ]
    floor = statistics.mean(loop.cpu_milliseconds for loop in primitives)
    ratios.append(_ratio(f"CPU of {given.name} ÷ {primitives[0].name}", best.cpu_milliseconds / floor, best))
    return [*before, *ours, *after, *ratios]


def _ratio(name: str, value: float, best: Result) -> Result:
    return Result("ratio", name, value, 0, 0, 0, 1, best.note)


def _measured(given: Input, files: int, settings: tuple[tuple[str, int], ...]) -> list[Result]:
    return [_drop_and_wait(given, files, engine, concurrency) for engine, concurrency in settings]


def _drop_and_wait(
    given: Input,
    files: int,
    engine: str,
    concurrency: int,
    *,
    workers: int | None = None,
    cores: Set[int] | None = None,
) -> Result:
    more: dict[str, object] = {} if workers is None else {"Signing:EngineWorkers": workers}
    with (
        _heirs_on(cores),
        running_service(
            concurrency=concurrency, engine=engine, window_seconds=WINDOW_SECONDS, settings=more
        ) as service,
    ):
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
    if cores is not None:
        shown += f", cores {len(cores)}"
    note = (
        f"MaxConcurrency {concurrency}, {shown}; peak {after.main_peak_mib:.0f} MiB"
        f" + {after.worker_peak_mib:.0f} MiB a worker"
    )
    rate = files / elapsed
    cpu = 1000 * (after.cpu_seconds - before.cpu_seconds) / files
    return Result("end to end", given.name, rate, rate, 1000 / rate, cpu, files, note)


@contextmanager
def _heirs_on(cores: Set[int] | None) -> Iterator[None]:
    """Have processes that are started meanwhile run on these cores only; this one may keep to them, too."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


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
    return sum(1 for _ in folder.iterdir())


def _usage(service: ServedService) -> Usage:
    if service.process is None:
        raise ServiceFailed("The service does not run.")
    return usage_of(service.process.pid)
