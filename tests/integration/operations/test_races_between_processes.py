"""Two processes on one database: what no lock of one covers, the conditional update of the row does (PIPE-110)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bulksigner.contract.errors import NotFound, RaceLost, Refusal
from bulksigner.jobs.model import Changed, Job, Owner
from bulksigner.jobs.states import JobStatus
from bulksigner.operations.people import Person

OPERATOR = Person("operator", "ApiKey")
OWNER = Owner("here", "this-life")
ROUNDS = pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.soak)])
AHEAD_SECONDS = 0.004
STEP_SECONDS = 0.0004


def race(neighbour: Any, act: str, job: Job, here: Callable[[], Any], number: int) -> tuple[str, Any]:
    """Have both act at one moment, this process a little earlier or later in each round."""
    at = time.monotonic() + AHEAD_SECONDS
    neighbour.ask(act, job, at)
    while time.monotonic() < at + (number % 9 - 4) * STEP_SECONDS:
        pass
    try:
        mine = here()
    except Refusal as refusal:
        mine = refusal
    return neighbour.answer(), mine


@ROUNDS
def test_a_cancel_there_or_a_claim_here(desk: Any, neighbour: Any, rounds: int) -> None:
    """PIPE-98, PIPE-110: the job is canceled or a worker has it, and its history has that one line only."""
    for number in range(rounds):
        job = desk.queued(f"{number}.rem")
        told, claimed = race(neighbour, "cancel", job, partial(desk.queue.claim, 1, OWNER), number)
        after, last = desk.read(job), desk.messages(job)[1:]
        if told == "canceled":
            assert (claimed, after.status, last) == ([], JobStatus.CANCELED, ["Operator canceled."])
        else:
            assert told in ("job.race-lost", "job.not-queued")
            assert [one.job.id for one in claimed] == [job.id]
            assert (after.status, last) == (JobStatus.PROCESSING, ["Processing started"])


@ROUNDS
def test_a_claim_there_or_a_cancel_here(desk: Any, neighbour: Any, rounds: int) -> None:
    """PIPE-98, PIPE-110: the same with the worker in the other process."""
    for number in range(rounds):
        job = desk.queued(f"{number}.rem")
        told, canceled = race(
            neighbour, "claim", job, partial(desk.operations.operator.cancel, job.id, OPERATOR), number
        )
        after, last = desk.read(job), desk.messages(job)[1:]
        if isinstance(canceled, Changed):
            assert (told, after.status, last) == ("nothing", JobStatus.CANCELED, ["Operator canceled."])
        else:
            assert canceled.code in ("job.race-lost", "job.not-queued")
            assert (told, after.status, last) == ("claimed", JobStatus.PROCESSING, ["Processing started"])
            assert after.owner_identity == "there"


@ROUNDS
def test_a_deletion_there_or_a_claim_here(desk: Any, neighbour: Any, rounds: int) -> None:
    """PIPE-101, PIPE-110: a worker that wins keeps the job whole; one that loses finds nothing to claim."""
    for number in range(rounds):
        job = desk.queued(f"{number}.rem")
        told, claimed = race(neighbour, "delete", job, partial(desk.queue.claim, 1, OWNER), number)
        if told == "deleted":
            assert (desk.read(job), claimed) == (None, [])
        else:
            assert told in ("job.race-lost", "job.not-queued")
            assert [one.job.id for one in claimed] == [job.id]
            assert desk.read(job).status is JobStatus.PROCESSING
            assert desk.events("JobDeleted")[number:] == []
        assert Path(job.original_path).exists()


@ROUNDS
def test_a_deletion_there_or_a_retry_here(desk: Any, neighbour: Any, rounds: int) -> None:
    """PIPE-99, PIPE-101: no retry is accepted of a job whose input a deletion takes away and says so."""
    for number in range(rounds):
        job = desk.failed(f"{number}.rem")
        told, retried = race(
            neighbour, "delete", job, partial(desk.operations.operator.retry, job.id, OPERATOR), number
        )
        if isinstance(retried, Changed):
            assert told in ("deleted", "job.race-lost")
            assert told == "job.race-lost" or Path(job.original_path).exists()
            assert (desk.read(job) is None) == (told == "deleted")
            desk.operations.operator.cancel(retried.job.id, OPERATOR)
        else:
            assert isinstance(retried, NotFound | RaceLost) or retried.code == "job.input-missing"
            assert told == "deleted"
            assert desk.read(job) is None
            assert not Path(job.original_path).exists()


def test_a_retry_that_looked_before_a_deletion_began_is_refused(desk: Any, neighbour: Any, monkeypatch: Any) -> None:
    """PIPE-99, PIPE-110: the input was there when it looked; the row tells that it is not any more."""
    job = desk.failed()
    enqueue = desk.queue.enqueue

    def enqueue_late(births: Any) -> Any:
        neighbour.ask("delete", job, 0.0)
        assert neighbour.answer() == "deleted"
        return enqueue(births)

    monkeypatch.setattr(desk.queue, "enqueue", enqueue_late)
    with pytest.raises(RaceLost):
        desk.operations.operator.retry(job.id, OPERATOR)
    assert desk.job_count == 0
