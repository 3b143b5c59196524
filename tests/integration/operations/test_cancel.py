"""Cancel ends a job that waits, before any file is touched."""

from __future__ import annotations

from typing import Any

import pytest

from bulksigner.contract.errors import NotAllowed, NotFound, RaceLost, Refusal
from bulksigner.jobs.model import Owner
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.operations.people import Person

OPERATOR = Person("operator", "ApiKey")


def test_a_queued_job_ends_and_its_input_stays(desk: Any) -> None:
    """PIPE-14, PIPE-98: terminal, told in history with the reason, announced after the commit; the file stays."""
    job = desk.queued()
    changed = desk.operations.operator.cancel(job.id, OPERATOR, "  wrong month ")
    assert changed.job == desk.read(job)
    assert changed.job.status is JobStatus.CANCELED
    assert changed.job.completed_at is not None
    assert desk.messages(job) == ["Queued from folder in", "Operator canceled: wrong month."]
    assert (desk.inbox / "folha.rem").read_bytes() == b"content"
    assert [one.change.event for one in desk.announced] == ["cancel"]
    assert list(desk.roots.error.iterdir()) == []


@pytest.mark.parametrize("reason", [None, "", " \n "])
def test_a_cancel_without_a_reason_says_just_that(desk: Any, reason: str | None) -> None:
    """PIPE-13, PIPE-98: `Operator canceled.` when no reason was given, a blank one being none."""
    job = desk.queued()
    desk.operations.operator.cancel(job.id, OPERATOR, reason)
    assert desk.messages(job)[-1] == "Operator canceled."


def test_a_reason_is_one_clean_line(desk: Any) -> None:
    """SEC-72, API-70: what ends as a sentence gets no second full stop; lines, halves of characters and secrets go."""
    job = desk.queued()
    desk.operations.operator.cancel(job.id, OPERATOR, "Sent\x00 twice\r\nby hush \ud800!")
    assert desk.messages(job)[-1] == "Operator canceled: Sent twice by *** ?!"


@pytest.mark.parametrize(("length", "is_refused"), [(512, False), (513, True)])
def test_a_reason_has_a_limit(desk: Any, length: int, is_refused: bool) -> None:
    """API-70: 512 characters after trimming; a longer one is refused and never cut, and nothing is recorded."""
    job = desk.queued()
    reason = f"  {'é' * length}  "
    if not is_refused:
        desk.operations.operator.cancel(job.id, OPERATOR, reason)
        assert desk.messages(job)[-1] == f"Operator canceled: {'é' * length}."
        return
    with pytest.raises(Refusal) as caught:
        desk.operations.operator.cancel(job.id, OPERATOR, reason)
    assert caught.value.code == "validation.reason-too-long"
    assert desk.read(job) == job


@pytest.mark.parametrize("event", ["park", "dispatch"])
def test_a_job_that_waits_for_others_ends_with_its_folder_kept(desk: Any, event: str) -> None:
    """PIPE-13, PIPE-15: the staged copy moves to `error/`, after the commit; the input stays."""
    job = desk.jobs.transition(desk.claimed(), event, by=Actor.WORKER, message="waits").job
    desk.operations.operator.cancel(job.id, OPERATOR)
    assert desk.read(job).status is JobStatus.CANCELED
    assert (desk.roots.error_folder(job.id) / "folha.rem").read_bytes() == b"content"
    assert not desk.roots.job_folder(job.id).exists()
    assert (desk.inbox / "folha.rem").exists()


def test_a_folder_that_cannot_be_moved_stops_nothing(
    desk: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-98: file work is best effort; the commit stands, and the log names the job."""
    job = desk.jobs.transition(desk.claimed(), "park", by=Actor.WORKER, message="waits").job
    desk.roots.error.rmdir()
    desk.roots.error.write_text("in the way")
    desk.operations.operator.cancel(job.id, OPERATOR)
    assert desk.read(job).status is JobStatus.CANCELED
    assert [record.levelname for record in caplog.records if job.id in record.getMessage()] == ["WARNING"]
    assert len(desk.announced) == 1


@pytest.mark.parametrize("stage", ["claimed", "verifying", "failed", "completed", "canceled"])
def test_what_does_not_wait_cannot_be_canceled(desk: Any, stage: str) -> None:
    """PIPE-30, PIPE-98: 409 `job.not-queued` while a worker has the job and after its end; nothing is recorded."""
    if stage == "verifying":
        job = desk.jobs.transition(desk.claimed(), "sign", by=Actor.WORKER, message="Signed").job
    elif stage == "canceled":
        job = desk.operations.operator.cancel(desk.queued().id, OPERATOR).job
    else:
        job = getattr(desk, stage)()
    before, told = desk.messages(job), len(desk.announced)
    with pytest.raises(NotAllowed) as caught:
        desk.operations.operator.cancel(job.id, OPERATOR)
    assert caught.value.code == "job.not-queued"
    assert (desk.read(job), desk.messages(job), len(desk.announced)) == (job, before, told)


def test_an_unknown_job_is_not_found(desk: Any) -> None:
    """API-30: 404 `job.not-found`."""
    with pytest.raises(NotFound) as caught:
        desk.operations.operator.cancel("0f8fad5b-d9cb-469f-a165-70867728950e", OPERATOR)
    assert caught.value.code == "job.not-found"


def test_a_claim_between_look_and_write_wins(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-98, PIPE-110: a worker that takes the job after it was read loses nothing; 409 `job.race-lost`."""
    job = desk.queued()
    read = desk.jobs.get

    def claim_behind_it(job_id: str) -> Any:
        found = read(job_id)
        desk.queue.claim(1, Owner("here", "this-life"))
        return found

    monkeypatch.setattr(desk.jobs, "get", claim_behind_it)
    with pytest.raises(RaceLost) as caught:
        desk.operations.operator.cancel(job.id, OPERATOR)
    monkeypatch.undo()
    assert caught.value.code == "job.race-lost"
    assert desk.read(job).status is JobStatus.PROCESSING
    assert desk.messages(job) == ["Queued from folder in", "Processing started"]
    assert desk.announced == []
