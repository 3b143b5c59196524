"""The lines of the benchmark by name. A line is a function from a wish for repetitions to results.

A further line is a function `run_<name>(count: int | None) -> list[Result]` in a module of its own, measured beside the
loops of `bench.floors` where others do the same, and a row here. An end-to-end line states `MaxConcurrency` and engine
in `Result.note`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.costs import run_costs
from bench.end_to_end import run_cades, run_pades, run_scale, run_xades
from bench.envelopes import run_envelopes
from bench.finished import run_finished
from bench.floors import run_floors
from bench.journal import run_journal
from bench.latency import run_latency
from bench.load import run_load
from bench.measure import Result
from bench.tasks import run_tasks
from bench.uploads import run_api

__all__ = ["LINES", "Line"]

Line = Callable[[int | None], list[Result]]

LINES: Mapping[str, Line] = {
    "floors": run_floors,
    "costs": run_costs,
    "pades": run_pades,
    "cades": run_cades,
    "xades": run_xades,
    "scale": run_scale,
    "latency": run_latency,
    "journal": run_journal,
    "tasks": run_tasks,
    "finished": run_finished,
    "api": run_api,
    "envelopes": run_envelopes,
    "load": run_load,
}
