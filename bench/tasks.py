"""What a worker process spends on one job, task by task (PERF-21, PERF-33): as the pipe hands them in, durable.

Signed is what a profile signs that says nothing of policies.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.inputs import Input, default_spec, named_input, signing_leaf
from bench.measure import Result
from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.model import Expectation
from bulksigner.jobs.model import utc_now
from bulksigner.pipeline.tasks import (
    CheckTask,
    DeliverTask,
    DiscardTask,
    NearInput,
    SignTask,
    StageTask,
    Task,
    carry_out,
)
from bulksigner.plugin_system.manager import discover
from bulksigner.testing.fakes import MemoryKey

__all__ = ["run_tasks"]

_FORMATS = (
    ("xml-10k", Format.XADES),
    ("payment-200k", Format.CADES),
    ("pdf-300k", Format.PADES),
    ("pdf-300k-packed", Format.PADES),
)
_JOBS = 400
_WARM_JOBS = 20
_PIPE = "from the pipe"


def run_tasks(count: int | None) -> list[Result]:
    """Measure stage, sign, check, deliver and discard of each format, in `BENCH_FOLDER` or the temporary folder."""
    results = []
    for name, kind in _FORMATS:
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
            walk = _Walk(named_input(name), kind, Path(folder))
            walk.run(range(_WARM_JOBS))
            results += walk.measure(range(_WARM_JOBS, _WARM_JOBS + (count or _JOBS)))
    return results


class _Walk:
    """Takes jobs of one input through their tasks, one after the other."""

    def __init__(self, given: Input, kind: Format, root: Path) -> None:
        self._given, self._format, self._root = given, kind, root
        self._registry = discover(only=frozenset({"builtin"})).signing_providers({})  # type: ignore[arg-type] # they ask for none
        self._keys = {"bench": MemoryKey(signing_leaf())}
        self._spec = default_spec(kind, self._keys["bench"])
        self._spent: dict[str, tuple[float, float]] = {}
        for name in ("inbox", "processing", "output"):
            (root / name).mkdir()
        self._folder = LocalFolder(root / "inbox")

    def run(self, jobs: Sequence[int]) -> None:
        for number in jobs:
            (self._root / "inbox" / self._name(number)).write_bytes(self._given.content)
        os.sync()
        for number in jobs:
            self._walk(number)

    def measure(self, jobs: Sequence[int]) -> list[Result]:
        self._spent.clear()
        # As workers do, which collect between calls.
        gc.collect()
        gc.disable()
        try:
            self.run(jobs)
        finally:
            gc.enable()
        total = (sum(wall for wall, _ in self._spent.values()), sum(cpu for _, cpu in self._spent.values()))
        return [
            Result(
                line="tasks",
                name=f"{self._given.name} {step}",
                per_second=len(jobs) / wall,
                best_per_second=0,
                milliseconds=1000 * wall / len(jobs),
                cpu_milliseconds=1000 * cpu / len(jobs),
                repetitions=len(jobs),
            )
            for step, (wall, cpu) in (*self._spent.items(), ("in all", total))
        ]

    def _name(self, number: int) -> str:
        return f"file-{number:05}{self._given.suffix}"

    def _walk(self, number: int) -> None:
        name, place = self._name(number), self._root / "processing" / f"{number:032x}"
        staged, signed = place / name, place / f"signed-{name}"
        seen = self._do(StageTask(self._folder, name, name, staged))
        measured = Measured(seen.length, seen.sha256)
        signing = SignTask(
            job_id=place.name,
            method="Local",
            profile="bench",
            file_name=name,
            format=self._format,
            staged=staged,
            measured=measured,
            target=signed,
            signed_at=utc_now(),
            options={},
            spec=self._spec,
        )
        written = self._do(signing)
        expectation = Expectation(self._format, self._keys["bench"].certificate, measured, self._spec)
        if self._do(CheckTask(signed, expectation, pem=False)).measured != written:
            raise ValueError("what was read back is not what was written")
        self._do(DeliverTask(signed, self._root / "output" / signed.name, NearInput(self._folder, name, seen)))
        self._do(DiscardTask((place,)))

    def _do(self, task: Task[Any]) -> Any:
        sent = pickle.dumps(task, pickle.HIGHEST_PROTOCOL)
        began = _clocks()
        received = pickle.loads(sent)
        got = _clocks()
        answer = carry_out(received, self._registry, self._keys)
        ended = _clocks()
        self._add(_PIPE, began, got)
        self._add(type(task).__name__, got, ended)
        return answer

    def _add(self, step: str, began: tuple[float, float], ended: tuple[float, float]) -> None:
        wall, cpu = self._spent.get(step, (0.0, 0.0))
        self._spent[step] = (wall + ended[0] - began[0], cpu + ended[1] - began[1])


def _clocks() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime
