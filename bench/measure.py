"""How a line is measured: rounds of a warm loop, the best and the median of them."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import attrs

__all__ = ["Loop", "Result", "peak_memory_mib", "run_interleaved"]


@attrs.frozen
class Loop:
    """One thing to repeat: `act` does it once, `bytes_each` is the size of its input (0: none)."""

    name: str
    act: Callable[[], object]
    bytes_each: int = 0
    note: str = ""


@attrs.frozen
class Result:
    """What one line measured.

    `per_second` is the median of the rounds; `best_per_second` the quickest round; `cpu_milliseconds` the CPU time of
    this process for one repetition.
    """

    line: str
    name: str
    per_second: float
    best_per_second: float
    milliseconds: float
    cpu_milliseconds: float
    repetitions: int
    note: str = ""


def peak_memory_mib() -> float:
    """Return the most memory that this process has held, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if sys.platform != "darwin" else peak / 1024 / 1024


def _repetitions(loop: Loop, round_seconds: float) -> int:
    began = time.perf_counter()
    loop.act()
    once = time.perf_counter() - began
    return max(1, round(round_seconds / max(once, 1e-6)))


def run_interleaved(
    line: str, loops: Sequence[Loop], *, rounds: int = 5, round_seconds: float = 0.6, count: int | None = None
) -> list[Result]:
    """Measure several loops in turns, so that drift of the host touches all alike.

    Each is run once to warm it, then `rounds` times for about `round_seconds`, or for `count` repetitions a round.
    """
    for loop in loops:
        loop.act()
    repetitions = [count or _repetitions(loop, round_seconds) for loop in loops]
    walls: list[list[float]] = [[] for _ in loops]
    cpus: list[list[float]] = [[] for _ in loops]
    for _ in range(rounds):
        for at, loop in enumerate(loops):
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(repetitions[at]):
                loop.act()
            walls[at].append((time.perf_counter() - wall) / repetitions[at])
            cpus[at].append((time.process_time() - cpu) / repetitions[at])
    return [
        Result(
            line=line,
            name=loop.name,
            per_second=1 / statistics.median(walls[at]),
            best_per_second=1 / min(walls[at]),
            milliseconds=1000 * statistics.median(walls[at]),
            cpu_milliseconds=1000 * statistics.median(cpus[at]),
            repetitions=rounds * repetitions[at],
            note=loop.note,
        )
        for at, loop in enumerate(loops)
    ]
