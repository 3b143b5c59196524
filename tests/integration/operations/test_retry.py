"""Retry on a real database: one transaction, two histories, and every refusal."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import NotAllowed, NotFound, RaceLost, Refusal
from bulksigner.jobs.model import JobSource, Owner
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.operations.people import Person

OPERATOR = Person("operator", "ApiKey")


def retry(desk: Any, job: Any) -> Any:
    return desk.operations.operator.retry(job.id, OPERATOR).job


def test_a_retry_is_written_on_both_jobs(desk: Any) -> None:
    """PIPE-99: the new job is queued and names its parent; both timelines say so; the old job stays as it was."""
    parent = desk.failed()
    child = retry(desk, parent)
    assert desk.read(child) == child
    assert (child.status, child.source, child.parent_job_id) == (JobStatus.QUEUED, JobSource.RETRY, parent.id)
    assert (child.original_path, child.input_folder, child.profile_name) == (parent.original_path, "in", "default")
    assert (child.file_name, child.format) == (parent.file_name, parent.format)
    # Only the count of its changes moves on, so that a deletion under way notices.
    assert desk.read(parent) == attrs.evolve(parent, row_version=parent.row_version + 1)
    assert desk.messages(parent)[-1] == f"Retried as job {child.id}"
    assert desk.messages(child) == [f"Queued from retry of job {parent.id}"]
    assert [one.job.id for one in desk.announced] == [child.id]
    assert desk.queue.wake.take()


def test_the_second_of_two_retries_loses_and_writes_nothing(desk: Any) -> None:
    """PIPE-99, PIPE-02: the path has an active job by then."""
    parent = desk.failed()
    retry(desk, parent)
    before = desk.messages(parent)
    with pytest.raises(RaceLost) as caught:
        retry(desk, parent)
    assert caught.value.code == "job.race-lost"
    assert desk.messages(parent) == before
    assert desk.job_count == 2


def test_the_profile_is_the_recorded_one(desk: Any) -> None:
    """PIPE-99: not the one that the folder has today; one that is gone refuses with `profile.disabled`."""
    job = desk.enqueue(desk.drop(), profile_name="gone")
    [taken] = desk.queue.claim(1, Owner("here", "this-life"))
    desk.jobs.transition(taken.job, "fail", by=Actor.WORKER, message="no such profile")
    with pytest.raises(NotAllowed) as caught:
        retry(desk, job)
    assert caught.value.code == "profile.disabled"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("approval.rejected", "job.rejected-not-retriable"),
        ("file.already-processed", "file.already-processed"),
    ],
)
def test_a_decision_is_not_undone_by_a_retry(desk: Any, code: str, expected: str) -> None:
    """PIPE-50, PIPE-96, PIPE-99: a rejected file and one with a name that is taken are refused, whatever lies there."""
    parent = desk.failed(error_code=code)
    with pytest.raises(NotAllowed) as caught:
        retry(desk, parent)
    assert caught.value.code == expected
    assert desk.job_count == 1


def test_a_retry_needs_the_input(desk: Any) -> None:
    """PIPE-99: `job.input-missing` once it is gone."""
    parent = desk.failed()
    (desk.inbox / "folha.rem").unlink()
    with pytest.raises(NotAllowed) as caught:
        retry(desk, parent)
    assert caught.value.code == "job.input-missing"


@pytest.mark.parametrize("stage", ["queued", "claimed", "completed"])
def test_only_a_failed_job_is_retried(desk: Any, stage: str) -> None:
    """PIPE-31, PIPE-99: `job.not-failed` for every other status."""
    job = getattr(desk, stage)()
    with pytest.raises(NotAllowed) as caught:
        retry(desk, job)
    assert caught.value.code == "job.not-failed"


def test_an_unknown_job_is_not_found(desk: Any) -> None:
    """API-29: `job.not-found`."""
    with pytest.raises(NotFound):
        desk.operations.operator.retry("0f8fad5b-d9cb-469f-a165-70867728950e", OPERATOR)


def test_a_canceled_job_is_not_retried(desk: Any) -> None:
    """PIPE-99: a file job only from `Failed`; its file is rescanned or sent again."""
    job = desk.queued()
    desk.operations.operator.cancel(job.id, OPERATOR)
    with pytest.raises(Refusal) as caught:
        retry(desk, job)
    assert caught.value.code == "job.not-failed"
