"""Jobs that go by age while people act on them: one of both wins, and what the other would have done is not there."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from bulksigner.contract.errors import RaceLost
from bulksigner.jobs.model import Job, JobSource
from bulksigner.jobs.names import Names
from bulksigner.jobs.pruning import prune
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.removal import Removal
from bulksigner.jobs.store import Jobs
from bulksigner.records.events import Event
from bulksigner.retention.job_rows import JobRows
from bulksigner.statistics.figures import read_figures
from bulksigner.statistics.timings import Spans
from bulksigner.testing.rows import new_birth

ROUNDS = 20
SPANS = Spans("Local", queue_wait_ms=7, signing_ms=400, verification_ms=None, output_ms=0)


def both(one: Any, other: Any) -> tuple[bool, bool]:
    """Do two things at the same moment; tell of each whether it was done."""
    start = threading.Barrier(2)

    def attempt(act: Any) -> bool:
        start.wait()
        try:
            act()
        except RaceLost:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(attempt, one), pool.submit(attempt, other)
        return first.result(), second.result()


def remove(ground: Any, *jobs: Job) -> None:
    prune(ground.store, jobs, holds_names=True, around=lambda act: act())


def test_a_retry_and_a_removal_by_age(ground: Any) -> None:
    """STA-65, PIPE-99: a job that was retried stays with its child; one that went has no child."""
    for _ in range(ROUNDS):
        job = ground.fail(100, is_kept=False)
        child = new_birth(
            f"retry-{job.id}", parent_job_id=job.id, parent_row_version=job.row_version, source=JobSource.RETRY
        )
        is_gone, is_retried = both(partial(remove, ground, job), partial(Queue(ground.store).enqueue, [child]))
        assert is_gone != is_retried
        born = Jobs(ground.store).active_for(child.original_path)
        assert (Jobs(ground.store).get(job.id) is None, born is not None) == (is_gone, is_retried)
        if born is not None:
            assert born.parent_job_id == job.id


def test_a_deletion_and_a_removal_by_age(ground: Any) -> None:
    """STA-68, PIPE-52, PIPE-101: a job that a person deleted leaves its name free, one that went by age holds it."""
    removal = Removal(ground.store)
    for _ in range(ROUNDS):
        job = ground.collect(100)
        delete = partial(removal.remove, job, Event("JobDeleted", "x"))
        is_gone, is_deleted = both(partial(remove, ground, job), delete)
        assert is_gone != is_deleted
        assert (Names(ground.store).holder_of(job.file_name) is not None) == is_gone
        assert ground.events().count("JobDeleted") == (1 if is_deleted else 0)
        ground.store.write(lambda: ground.store.database.execute_sql("DELETE FROM operational_event"))


@pytest.mark.parametrize("others", ["readers", "completions"])
def test_the_figures_never_jump_while_jobs_go(ground: Any, others: str) -> None:
    """STA-77: whoever looks while rows become sums sees each job once; completions beside it are all counted."""
    jobs = [ground.collect(100, spans=SPANS) for _ in range(40)]
    rows = JobRows(ground.store, None, str)  # type: ignore[arg-type]
    ended, seen = threading.Event(), set[tuple[int, int]]()

    def look() -> None:
        while not ended.is_set():
            figures = read_figures(ground.store, ground.clock)
            seen.add((figures.total.count, figures.total.sum_ms))

    def complete() -> None:
        for _ in range(20):
            ground.collect(1, spans=SPANS)

    with ThreadPoolExecutor(2) as pool:
        beside = pool.submit(look if others == "readers" else complete)
        try:
            for start in range(0, len(jobs), 5):
                rows._remove(jobs[start : start + 5])
        finally:
            ended.set()
        beside.result()
    final = read_figures(ground.store, ground.clock)
    if others == "readers":
        assert seen <= {(40, 40 * 407)}
    else:
        assert (final.total.count, final.total.sum_ms) == (60, 60 * 407)
    assert (final.shortest_ms, final.longest_ms, final.window_start) == (407, 407, jobs[0].completed_at)
