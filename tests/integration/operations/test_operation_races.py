"""Two at once: exactly one wins, and the loser records nothing (PIPE-110)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from bulksigner.contract.errors import NotAllowed, NotFound, RaceLost, Refusal
from bulksigner.jobs.model import Changed, Owner
from bulksigner.jobs.states import JobStatus
from bulksigner.operations.deletion import Deleted
from bulksigner.operations.people import Person
from bulksigner.pipeline.pause import PauseFlag, PauseState

OPERATOR = Person("operator", "ApiKey")
OWNER = Owner("here", "this-life")

ROUNDS = pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.soak)])


def at_once(*acts: Callable[[], object]) -> list[Any]:
    """Run the acts in threads that start together; a refusal is the act's result."""
    results: list[object] = [None] * len(acts)
    gate = threading.Barrier(len(acts))

    def run(index: int, act: Callable[[], object]) -> None:
        gate.wait()
        try:
            results[index] = act()
        except Refusal as refusal:
            results[index] = refusal

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@ROUNDS
def test_cancel_or_claim(desk: Any, rounds: int) -> None:
    """PIPE-98, PIPE-110: the job is canceled or a worker has it, and its history has that one line only."""
    for number in range(rounds):
        job = desk.queued(f"{number}.rem")
        canceled, claimed = at_once(
            partial(desk.operations.operator.cancel, job.id, OPERATOR), partial(desk.queue.claim, 1, OWNER)
        )
        after = desk.read(job)
        last = desk.messages(job)[1:]
        if isinstance(canceled, Changed):
            assert claimed == []
            assert (after.status, last) == (JobStatus.CANCELED, ["Operator canceled."])
        else:
            assert canceled.code in ("job.race-lost", "job.not-queued")
            assert [one.job.id for one in claimed] == [job.id]
            assert (after.status, last) == (JobStatus.PROCESSING, ["Processing started"])
            assert after.owner_identity == OWNER.identity


@ROUNDS
def test_cancel_or_cancel(desk: Any, rounds: int) -> None:
    """PIPE-110: of several who cancel one does, and the job is told of once."""
    for number in range(rounds):
        job = desk.queued(f"{number}.rem")
        before = len(desk.announced)
        results = at_once(*[partial(desk.operations.operator.cancel, job.id, OPERATOR)] * 4)
        assert sum(isinstance(one, Changed) for one in results) == 1
        assert {one.code for one in results if isinstance(one, Refusal)} <= {"job.race-lost", "job.not-queued"}
        assert desk.messages(job)[1:] == ["Operator canceled."]
        assert len(desk.announced) == before + 1


@ROUNDS
@pytest.mark.parametrize("begins_paused", [False, True])
def test_pause_or_resume(desk: Any, rounds: int, begins_paused: bool) -> None:
    """API-69, PIPE-110: commits follow one another; whoever lost wrote neither row nor event."""
    pausing, flag = desk.operations.pausing, PauseFlag(desk.store)
    for number in range(rounds):
        (pausing.pause if begins_paused else pausing.resume)(OPERATOR)
        before, events = flag.read(), len(desk.events())
        reasons = [f"{number} {name}" for name in ("pause", "resume", "pause too", "resume too")]
        results = at_once(
            partial(pausing.pause, OPERATOR, reasons[0]),
            partial(pausing.resume, OPERATOR, reasons[1]),
            partial(pausing.pause, OPERATOR, reasons[2]),
            partial(pausing.resume, OPERATOR, reasons[3]),
        )
        after, told = flag.read(), desk.events()[events:]
        lost = [reasons[index] for index, one in enumerate(results) if isinstance(one, RaceLost)]
        assert all(isinstance(one, PauseState) or one.code == "pipeline.race-lost" for one in results)
        # One event for each step of the version, in turns, and the last one is the state that stands.
        assert after.row_version - before.row_version == len(told)
        types = [event.event_type for event in told]
        turns = ["PipelineResumed", "PipelinePaused"] if begins_paused else ["PipelinePaused", "PipelineResumed"]
        assert types == [turns[index % 2] for index in range(len(types))]
        assert told
        assert after.is_paused is (types[-1] == "PipelinePaused")
        assert not [event for event in told if any(event.message.endswith(f" {reason}.") for reason in lost)]


@ROUNDS
def test_delete_or_delete(desk: Any, rounds: int) -> None:
    """PIPE-101: one deletes and says all that went; the other finds no job; there is one event."""
    for number in range(rounds):
        job = desk.failed(f"{number}.rem")
        results = at_once(*[partial(desk.operations.deletion.delete, job.id, OPERATOR)] * 3)
        [winner] = [one for one in results if isinstance(one, Deleted)]
        assert winner.removed == (f"input {job.original_path}", f"error/{job.id}/")
        assert all(isinstance(one, NotFound | RaceLost) for one in results if one is not winner)
        assert desk.read(job) is None
    assert len(desk.events("JobDeleted")) == rounds


@ROUNDS
def test_delete_or_claim(desk: Any, rounds: int) -> None:
    """PIPE-101: a worker that wins keeps the job whole; one that loses finds nothing to claim."""
    for number in range(rounds):
        job = desk.queued(f"{number}.rem")
        deleted, claimed = at_once(
            partial(desk.operations.deletion.delete, job.id, OPERATOR), partial(desk.queue.claim, 1, OWNER)
        )
        if isinstance(deleted, Deleted):
            assert (desk.read(job), claimed) == (None, [])
        else:
            assert isinstance(deleted, NotAllowed | RaceLost)
            assert desk.read(job).status is JobStatus.PROCESSING
        assert (desk.inbox / f"{number}.rem").exists()


@ROUNDS
def test_retry_or_retry(desk: Any, rounds: int) -> None:
    """PIPE-02, PIPE-99: one new job of the file, and one line about it on the old one."""
    for number in range(rounds):
        job = desk.failed(f"{number}.rem")
        results = at_once(*[partial(desk.operations.operator.retry, job.id, OPERATOR)] * 3)
        [winner] = [one for one in results if isinstance(one, Changed)]
        assert all(one.code == "job.race-lost" for one in results if one is not winner)
        assert desk.messages(job)[-1:] == [f"Retried as job {winner.job.id}"]
        assert len(desk.messages(job)) == 4


@ROUNDS
def test_delete_or_retry(desk: Any, rounds: int) -> None:
    """PIPE-99, PIPE-101: a retry that was accepted has its input, whichever came first."""
    for number in range(rounds):
        job = desk.failed(f"{number}.rem")
        deleted, retried = at_once(
            partial(desk.operations.deletion.delete, job.id, OPERATOR),
            partial(desk.operations.operator.retry, job.id, OPERATOR),
        )
        assert isinstance(deleted, Deleted)
        if isinstance(retried, Changed):
            assert (desk.inbox / f"{number}.rem").exists()
            assert desk.read(retried.job).parent_job_id is None
        else:
            assert isinstance(retried, NotFound)
            assert not (desk.inbox / f"{number}.rem").exists()


@ROUNDS
def test_clear_or_births_and_claims(desk: Any, rounds: int) -> None:
    """PIPE-103, PIPE-104: whoever is born or claimed meanwhile is there whole or not at all, and the counts hold."""
    for number in range(rounds):
        for each in range(3):
            desk.queued(f"{number}-{each}.rem")
        late = desk.drop(f"{number}-late.rem")
        cleared, _, born = at_once(
            partial(desk.operations.clearing.clear, OPERATOR),
            partial(desk.queue.claim, 2, OWNER),
            partial(desk.enqueue, late),
        )
        left = desk.job_count
        assert cleared.jobs + left == 4
        assert (desk.read(born) is not None) == bool(left)
        assert sum(desk.jobs.counts().values()) == left
        assert not left or late.exists() == (desk.read(born) is not None)
        desk.operations.clearing.clear(OPERATOR)
