"""Whole lives of a service in processes of their own: each runs until idle, or dies at the moment its plan names.

The processes are forked from one warm, single-threaded parent (`multiprocessing`'s fork server), so that a life costs
the start of a service and not that of an interpreter. POSIX only.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import attrs

from bulksigner.contract.errors import StartRefused
from bulksigner.jobs.states import JobStatus
from bulksigner.testing.harness import Harness
from bulksigner.testing.kill import DIED, Plan, child_environment, follow

__all__ = ["Ended", "Life", "live"]

LIMIT_SECONDS = 90.0
_IN_USE = 75
_LOCK_WAIT_SECONDS = 10.0
_PRELOADED = ["bulksigner.testing.warm", "bulksigner_local_pfx.plugin", "psycopg"]
_collecting = threading.Lock()
_FOLDERS = ("inbox", "data/processing", "data/output", "data/error", "data/landing", "data/refusals")


@attrs.frozen
class Life:
    """One life of the service on `folder`, which `harness.prepare` made.

    After its start the service gets `upload` (name and content), or a retry of its failed job, and runs until idle;
    then it is restarted and runs again as often as `restarts` says. `plan` is followed by this process, or with
    `plans_workers` by the signing workers alone.
    """

    folder: Path
    upload: tuple[str, bytes] | None = None
    retries: bool = False
    restarts: int = 0
    plan: Plan | None = None
    plans_workers: bool = False


@attrs.frozen
class Ended:
    """How a life ended: exit code (negative: the signal), what it printed, and what it saw after each run."""

    code: int
    printed: str
    runs: tuple[Mapping[str, Any], ...]


def live(life: Life) -> Ended:
    """Run one life to its end; raises `TimeoutError` for one that takes longer than `LIMIT_SECONDS`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    report, printed = life.folder / "report", life.folder / "printed"
    for path in (report, printed, life.folder / DIED):
        path.unlink(missing_ok=True)
    process = context.Process(target=_run, args=(life, report, printed))
    # A start also collects the processes that ended, of other threads too; two that read one exit code lose it.
    with _collecting:
        process.start()
    is_over = wait([process.sentinel], LIMIT_SECONDS)
    with _collecting:
        if not is_over:
            process.kill()
            process.join()
            raise TimeoutError(f"A life did not end within {LIMIT_SECONDS} s:\n{_read(printed)}")
        code = process.exitcode
    assert code is not None
    runs = json.loads(report.read_bytes()) if report.exists() else []
    return Ended(code, _read(printed), tuple(runs))


def look(harness: Harness) -> dict[str, Any]:
    """Return all that outlives a process: every job as JSON, and the files by folder, with their SHA-256."""
    jobs = [
        {name: value if isinstance(value, int | None) else str(getattr(value, "value", value)) for name, value in row}
        for row in (attrs.asdict(job, recurse=False).items() for job in harness.jobs())
    ]
    files = {
        place: {
            str(path.relative_to(harness.folder / place)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((harness.folder / place).rglob("*"))
            if path.is_file()
        }
        for place in _FOLDERS
    }
    swept = harness.service.swept
    return {"jobs": jobs, "files": files, "unexplained": swept.unexplained, "interrupted": len(swept.interrupted)}


def _run(life: Life, report: Path, printed: Path) -> None:
    _print_to(printed)
    if life.plan is not None and life.plans_workers:
        os.environ.update(child_environment(life.plan))
    elif life.plan is not None:
        follow(life.plan)
    harness = Harness(life.folder)
    _start(harness)
    if life.upload is not None:
        harness.upload(*life.upload)
    if life.retries:
        harness.retry(next(job for job in harness.jobs() if job.status is JobStatus.FAILED))
    harness.run_until_idle()
    seen = [look(harness)]
    for _ in range(life.restarts):
        harness.restart()
        harness.run_until_idle()
        seen.append(look(harness))
    harness.close()
    report.write_text(json.dumps(seen), encoding="utf-8")


def _start(harness: Harness) -> None:
    """Start as a service manager does: again, while the server has not noticed that the earlier life is dead."""
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            harness.service  # noqa: B018 - building it is the start
            return
        except StartRefused as error:
            if error.exit_code != _IN_USE or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _print_to(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(descriptor, standard)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
