"""Retry on a real database: one transaction, two histories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bulksigner.contract.errors import RaceLost
from bulksigner.contract.signing import Format
from bulksigner.jobs import listing
from bulksigner.jobs.model import Birth, Job, JobSource, Owner
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.operations.operator import Operator
from bulksigner.records.engines import Store, open_sqlite
from bulksigner.records.migrate import migrate


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Open an empty database."""
    opened = open_sqlite(tmp_path / "bulksigner.db")
    migrate(opened)
    yield opened
    opened.close()


def failed_job(store: Store) -> Job:
    queue, jobs = Queue(store), Jobs(store)
    birth = Birth(
        file_name="a.pdf",
        original_path="/in/a.pdf",
        input_folder="payments",
        profile_name="Folha",
        format=Format.PADES,
        source=JobSource.WATCHER,
        message="Queued from folder payments",
    )
    queue.enqueue([birth])
    (claimed,) = queue.claim(1, Owner("host", "life"))
    return jobs.transition(claimed.job, "fail", by=Actor.WORKER, message="no token", error_code="sign.failed").job


def operator(store: Store) -> Operator:
    profiles = {"Folha": SimpleNamespace(enabled=True)}
    return Operator(Jobs(store), Queue(store), profiles, lambda _: True)


def test_a_retry_is_written_on_both_jobs(store: Store) -> None:
    """PIPE-99: the new job is queued and names its parent; both timelines say so; the old job stays as it was."""
    parent = failed_job(store)
    child = operator(store).retry(parent.id).job
    assert Jobs(store).get(child.id) == child
    assert (child.status, child.source, child.parent_job_id) == (JobStatus.QUEUED, JobSource.RETRY, parent.id)
    assert (child.original_path, child.input_folder, child.profile_name) == ("/in/a.pdf", "payments", "Folha")
    assert Jobs(store).get(parent.id) == parent
    last = listing.history(store, parent.id)[-1]
    assert (last.status, last.message) == (JobStatus.FAILED, f"Retried as job {child.id}")
    assert [line.message for line in listing.history(store, child.id)] == [f"Queued from retry of job {parent.id}"]


def test_the_second_of_two_retries_loses_and_writes_nothing(store: Store) -> None:
    """PIPE-99, PIPE-02: the path has an active job by then."""
    parent = failed_job(store)
    operator(store).retry(parent.id)
    before = listing.history(store, parent.id)
    with pytest.raises(RaceLost):
        operator(store).retry(parent.id)
    assert listing.history(store, parent.id) == before
    assert listing.page(store).total_count == 2
