"""The lines of the benchmark by name. A line is a function from a wish for repetitions to results.

A line of the product is added in three steps: write `run_<name>(count: int | None) -> list[Result]` in a module of its
own, measure the loops of `bench.floors` that it stands beside in the same run, and add a row to `LINES`. PERF-20 to
PERF-25 say what each has to print; an end-to-end line states `MaxConcurrency` and engine in `Result.note`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.floors import run_floors
from bench.measure import Result

__all__ = ["LINES", "Line"]

Line = Callable[[int | None], list[Result]]

LINES: Mapping[str, Line] = {
    "floors": run_floors,
}
