"""Deleting one job takes what is the job's, keeps what may be somebody's, and says which."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from bulksigner.contract.errors import NotAllowed, NotFound, RaceLost, Refusal
from bulksigner.files import durable
from bulksigner.files.work import open_place
from bulksigner.intake.names import mint_landing_name
from bulksigner.jobs.model import JobSource, Owner, utc_now
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.operations.deletion import Deleted, Kept
from bulksigner.operations.people import Person
from bulksigner.records.errors import StoreFailed
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import EventRow, HistoryRow

OPERATOR = Person("operator", "ApiKey")
LINES = Prepared(HistoryRow.select(HistoryRow.id))
FACTS = Prepared(EventRow.select(EventRow.facts).order_by(EventRow.id.desc()).limit(1))


def delete(desk: Any, job: Any, reason: str | None = None) -> Deleted:
    deleted: Deleted = desk.operations.deletion.delete(job.id, OPERATOR, reason)
    return deleted


def newest_facts(desk: Any) -> Any:
    return json.loads(desk.store.read(lambda: desk.store.execute(FACTS).rows)[0][0])


def test_a_completed_job_goes_with_its_output(desk: Any) -> None:
    """PIPE-101, SEC-74, SEC-76: row, history and output; earlier events stay and one more says exactly what went."""
    desk.operations.pausing.pause(OPERATOR)
    job = desk.completed()
    deleted = delete(desk, job, "name is needed again")
    output = job.output_path
    assert deleted == Deleted(job.id, "folha.rem", "Completed", (f"output {output}",), ())
    assert not os.path.exists(output)  # noqa: PTH110
    assert desk.read(job) is None
    assert desk.store.read(lambda: desk.store.execute(LINES).rows) == []
    assert desk.job_count == 0
    assert [event.event_type for event in desk.events()] == ["PipelinePaused", "JobDeleted"]
    assert desk.events()[-1].message == (
        f"Job {job.id} ('folha.rem', Completed) deleted by operator. Removed: job and history, output {output}. "
        "Reason: name is needed again."
    )
    assert newest_facts(desk) == {
        "jobId": job.id,
        "fileName": "folha.rem",
        "originalPath": job.original_path,
        "status": "Completed",
        "actor": "operator",
        "scheme": "ApiKey",
        "removed": [f"output {output}"],
        "kept": [],
        "reason": "name is needed again",
    }
    assert desk.freed == [job.original_path]


def test_a_failed_job_goes_with_its_folder_and_the_input_it_staged(desk: Any) -> None:
    """PIPE-101, PIPE-92: `error/<id>/`, and the input because it still is what was staged."""
    job = desk.failed()
    stale = open_place(desk.roots.job_folder(job.id) / "left")
    stale.write_text("x")
    deleted = delete(desk, job)
    assert deleted.removed == (f"input {job.original_path}", f"processing/{job.id}/", f"error/{job.id}/")
    assert deleted.kept == ()
    assert list(desk.inbox.iterdir()) == []
    assert [*desk.roots.processing.iterdir(), *desk.roots.error.iterdir()] == []


@pytest.mark.parametrize("is_changed", [False, True])
def test_the_sidecar_goes_with_the_input(desk: Any, is_changed: bool) -> None:
    """PIPE-118: with what was removed, and only as it was when it was read."""
    sidecar = desk.inbox / "folha.rem.meta.json"
    sidecar.write_bytes(b'{"lote": "17"}')
    desk.born_with["sidecar_sha256"] = hashlib.sha256(sidecar.read_bytes()).hexdigest()
    job = desk.failed()
    if is_changed:
        sidecar.write_bytes(b'{"lote": "18"}')
    delete(desk, job)
    assert [path.name for path in desk.inbox.iterdir()] == (["folha.rem.meta.json"] if is_changed else [])


def test_a_queued_job_is_canceled_first(desk: Any) -> None:
    """PIPE-101: the event has the status it had; its input was never staged, stays and is a new arrival."""
    job = desk.queued()
    deleted = delete(desk, job, "no")
    assert deleted.status == "Queued, canceled to delete it"
    assert deleted.kept == (Kept(f"input {job.original_path}", "never staged by this job"),)
    assert deleted.removed == ()
    assert "('folha.rem', Queued, canceled to delete it) deleted by operator." in desk.events()[-1].message
    assert "Kept: input " in desk.events()[-1].message
    assert [one.change.event for one in desk.announced] == ["cancel"]
    assert desk.freed == [job.original_path]
    assert (desk.inbox / "folha.rem").exists()


@pytest.mark.parametrize("event", ["park", "dispatch"])
def test_a_waiting_job_is_canceled_first(desk: Any, event: str) -> None:
    """PIPE-101, APR-43: the staged copy goes with the job, and so does the input that was staged."""
    job = desk.jobs.transition(desk.claimed(), event, by=Actor.WORKER, message="waits").job
    deleted = delete(desk, job)
    assert deleted.status == f"{job.status.value}, canceled to delete it"
    assert deleted.removed == (f"input {job.original_path}", f"error/{job.id}/")
    assert list(desk.inbox.iterdir()) == []


@pytest.mark.parametrize("stage", ["claimed", "verifying"])
def test_a_job_under_way_is_not_deleted(desk: Any, stage: str) -> None:
    """PIPE-30, PIPE-101: refused; row, files and events are as they were."""
    job = desk.claimed()
    if stage == "verifying":
        job = desk.jobs.transition(job, "sign", by=Actor.WORKER, message="Signed").job
    with pytest.raises(NotAllowed) as caught:
        delete(desk, job)
    assert caught.value.code == "job.not-queued"
    assert desk.read(job) == job
    assert (desk.roots.job_folder(job.id) / "folha.rem").exists()
    assert (desk.inbox / "folha.rem").exists()
    assert desk.events() == []


def test_a_worker_that_takes_the_job_first_keeps_everything(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-101: if a worker wins the race nothing is deleted."""
    job = desk.queued()
    read = desk.jobs.get
    looks = []

    def claim_behind_second_look(job_id: str) -> Any:
        found = read(job_id)
        looks.append(job_id)
        if len(looks) == 2:
            desk.queue.claim(1, Owner("here", "this-life"))
        return found

    monkeypatch.setattr(desk.jobs, "get", claim_behind_second_look)
    with pytest.raises(RaceLost):
        delete(desk, job)
    monkeypatch.undo()
    assert desk.read(job).status is JobStatus.PROCESSING
    assert (desk.inbox / "folha.rem").exists()
    assert desk.events() == []


def test_a_rewritten_input_is_kept(desk: Any) -> None:
    """PIPE-101, PIPE-92: what differs from what was staged is somebody's new file."""
    job = desk.failed()
    desk.drop(content=b"corrected")
    deleted = delete(desk, job)
    assert deleted.kept == (Kept(f"input {job.original_path}", "rewritten"),)
    assert (desk.inbox / "folha.rem").read_bytes() == b"corrected"


def test_a_held_input_is_kept(desk: Any) -> None:
    """PIPE-101: an input that somebody holds cannot be compared; it stays, and the hold is not broken."""
    job = desk.failed()
    hold = next(iter(desk.folders)).folder.hold("folha.rem")
    deleted = delete(desk, job)
    hold.release()
    [kept] = deleted.kept
    assert kept.reason.startswith("held by someone else: ")
    assert (desk.inbox / "folha.rem").exists()


def test_an_unreadable_input_is_kept(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-101, SEC-57: what cannot be looked at is kept with the scrubbed reason, and the rest goes on."""
    job = desk.failed()
    folder = next(iter(desk.folders)).folder

    def refuse(_: str) -> Any:
        raise RuntimeError("the share of hush is gone")

    monkeypatch.setattr(type(folder), "look", lambda _, name: refuse(name))
    deleted = delete(desk, job)
    assert deleted.kept == (Kept(f"input {job.original_path}", "RuntimeError: the share of *** is gone"),)
    assert deleted.removed == (f"error/{job.id}/",)
    assert desk.read(job) is None


def test_an_input_that_an_unfinished_job_needs_is_kept(desk: Any) -> None:
    """PIPE-101: a retry of the job goes on with the same file; afterwards its parent is nobody."""
    job = desk.failed()
    child = desk.operations.operator.retry(job.id, OPERATOR).job
    deleted = delete(desk, job)
    assert deleted.kept == (Kept(f"input {job.original_path}", f"job {child.id} is not finished and needs it"),)
    assert (desk.inbox / "folha.rem").exists()
    after = desk.read(child)
    assert after.parent_job_id is None
    assert not after.path_released
    assert after.status is JobStatus.QUEUED


def test_what_arrived_after_the_job_took_its_input_is_kept(desk: Any) -> None:
    """PIPE-101: the input of a completed job is gone, so a file of that name is a new one, whatever its bytes."""
    job = desk.completed()
    desk.drop()
    deleted = delete(desk, job)
    assert [kept.item for kept in deleted.kept] == [f"input {job.original_path}"]
    assert (desk.inbox / "folha.rem").exists()


def test_an_input_of_a_folder_unknown_here_is_kept(desk: Any, tmp_path: Path) -> None:
    """PIPE-101: nothing outside of the configured folders is touched."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.rem").write_bytes(b"content")
    job = desk.enqueue(other / "a.rem")
    deleted = delete(desk, job)
    assert "no input folder of this host holds" in deleted.kept[0].reason
    assert (other / "a.rem").exists()


def test_a_completed_job_of_a_folder_unknown_here_has_no_input(desk: Any, tmp_path: Path) -> None:
    """PIPE-101: it took its input away itself, so nothing is said to be kept."""
    job = desk.enqueue(tmp_path / "other" / "a.rem")
    [taken] = desk.queue.claim(1, Owner("here", "this-life"))
    signed = desk.jobs.transition(taken.job, "sign", by=Actor.WORKER, message="Signed").job
    desk.jobs.transition(signed, "complete", by=Actor.WORKER, message="Completed")
    assert delete(desk, job).kept == ()


def test_the_landing_copy_of_an_upload_goes_although_never_staged(desk: Any) -> None:
    """PIPE-101, APR-43: the product itself placed it, and no watcher would ever take it."""
    path = desk.drop(mint_landing_name("nota.xml"))
    job = desk.enqueue(path, file_name="nota.xml", input_folder=None, source=JobSource.UPLOAD)
    deleted = delete(desk, job)
    assert deleted.removed == (f"input {path}",)
    assert not path.exists()


def test_the_landing_copy_of_an_upload_goes_although_rewritten(desk: Any) -> None:
    """PIPE-101, APR-43: staged by the job and changed since; an input of a folder would stay, this one goes."""
    path = desk.drop(mint_landing_name("nota.xml"), b"as uploaded")
    job = desk.enqueue(path, file_name="nota.xml", input_folder=None, source=JobSource.UPLOAD)
    [taken] = desk.queue.claim(1, Owner("here", "this-life"))
    fingerprint = next(iter(desk.folders)).folder.copy_to(
        path.name, open_place(desk.roots.job_folder(job.id) / "nota.xml")
    )
    job = desk.jobs.record(
        taken.job, staged_length=fingerprint.length, staged_sha256=fingerprint.sha256.hex(), staged_at=utc_now()
    )
    job = desk.jobs.transition(job, "fail", by=Actor.WORKER, message="no").job
    path.write_bytes(b"rewritten since")
    deleted = delete(desk, job)
    assert deleted.removed == (f"input {path}", f"processing/{job.id}/")
    assert deleted.kept == ()
    assert not path.exists()


def test_a_landing_copy_that_a_retry_needs_stays(desk: Any) -> None:
    """PIPE-101: unless another unfinished job names it."""
    name = mint_landing_name("nota.xml")
    path = desk.drop(name)
    job = desk.enqueue(path, file_name="nota.xml", input_folder=None, source=JobSource.UPLOAD)
    [taken] = desk.queue.claim(1, Owner("here", "this-life"))
    job = desk.jobs.transition(taken.job, "fail", by=Actor.WORKER, message="no").job
    child = desk.operations.operator.retry(job.id, OPERATOR).job
    assert delete(desk, job).kept[0].reason == f"job {child.id} is not finished and needs it"
    assert path.exists()
    assert delete(desk, child).removed == (f"input {path}",)


def test_a_name_that_looks_minted_in_a_watched_folder_is_an_input(desk: Any) -> None:
    """PIPE-101: only a job of an upload has a landing copy of its own."""
    path = desk.drop(mint_landing_name("nota.xml"))
    assert delete(desk, desk.enqueue(path)).kept[0].reason == "never staged by this job"
    assert path.exists()


@pytest.mark.parametrize("change", ["replaced", "same size", "link", "folder"])
def test_only_the_output_that_the_job_delivered_goes(desk: Any, change: str, tmp_path: Path) -> None:
    """PIPE-101, SEC-67: a file that merely has the name stays and is named."""
    job = desk.completed()
    output = Path(job.output_path)
    content = output.read_bytes()
    output.unlink()
    if change == "link":
        (tmp_path / "target").write_bytes(content)
        output.symlink_to(tmp_path / "target")
    elif change == "folder":
        output.mkdir()
    else:
        output.write_bytes(b"another" if change == "replaced" else content[::-1])
    deleted = delete(desk, job)
    assert [kept.item for kept in deleted.kept] == [f"output {output}"]
    assert os.path.lexists(output)
    assert deleted.removed == ()


def test_an_output_that_is_collected_at_this_moment_is_not_said_to_stay(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-101: between the comparison and the removal somebody took it; the event claims neither."""
    job = desk.completed()
    monkeypatch.setattr(durable, "remove_file", lambda path: path.unlink())
    deleted = delete(desk, job)
    assert (deleted.removed, deleted.kept) == ((), ())


def test_an_output_recorded_elsewhere_is_not_touched(desk: Any, tmp_path: Path) -> None:
    """SEC-67: nothing is removed outside of the output folder, whatever a row says."""
    elsewhere = tmp_path / "elsewhere.p7m"
    elsewhere.write_bytes(b"x")
    job = desk.failed(output_path=str(elsewhere), output_sha256="00", output_length=1)
    assert [kept.item for kept in delete(desk, job).kept] == [f"output {elsewhere}"]
    assert elsewhere.exists()


def test_a_link_in_place_of_a_folder_is_kept(desk: Any, tmp_path: Path) -> None:
    """SEC-67: what stands behind a link is not the job's."""
    job = desk.completed()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    desk.roots.error_folder(job.id).symlink_to(outside)
    assert [kept.item for kept in delete(desk, job).kept] == [f"error/{job.id}/"]
    assert (outside / "precious").exists()


def test_what_is_gone_is_neither_removed_nor_kept(desk: Any) -> None:
    """PIPE-101: the event has exactly what was removed and kept."""
    job = desk.completed()
    Path(job.output_path).unlink()
    deleted = delete(desk, job)
    assert (deleted.removed, deleted.kept) == ((), ())
    assert desk.events()[-1].message.endswith("deleted by operator. Removed: job and history.")


def test_the_path_is_released_on_every_job_that_is_left(desk: Any) -> None:
    """PIPE-44, PIPE-52, PIPE-113: with an older failed job at the path, what lies there later is taken again."""
    older = desk.failed()
    other = desk.failed("other.rem")
    desk.operations.operator.retry(older.id, OPERATOR)
    [taken] = desk.queue.claim(1, Owner("here", "this-life"))
    newer = desk.jobs.transition(taken.job, "fail", by=Actor.WORKER, message="again").job
    delete(desk, newer)
    assert desk.read(older).path_released
    assert not desk.read(other).path_released


def test_an_unknown_job_is_not_found(desk: Any) -> None:
    """PIPE-101: also the second time."""
    job = desk.completed()
    delete(desk, job)
    with pytest.raises(NotFound):
        delete(desk, job)
    assert len(desk.events("JobDeleted")) == 1


def test_a_reason_that_is_too_long_deletes_nothing(desk: Any) -> None:
    """API-70: refused before anything is touched."""
    job = desk.completed()
    with pytest.raises(Refusal) as caught:
        delete(desk, job, "x" * 513)
    assert caught.value.code == "validation.reason-too-long"
    assert Path(job.output_path).exists()


def test_a_database_that_refuses_leaves_the_row(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-101, SEC-73: row and event go together or not at all; asking again finishes it."""
    job = desk.failed()

    def refuse(*_: object, **__: object) -> Any:
        raise StoreFailed("away")

    monkeypatch.setattr("bulksigner.jobs.removal.write_event", refuse)
    with pytest.raises(StoreFailed):
        delete(desk, job)
    left = desk.read(job)
    assert (left.status, left.row_version) == (JobStatus.FAILED, job.row_version + 1)
    assert desk.messages(job)[-1] == "Deletion begun by operator."
    assert desk.freed == []
    monkeypatch.undo()
    assert delete(desk, job).removed == ()
    assert desk.read(job) is None


def test_secrets_of_a_reason_do_not_reach_the_event(desk: Any) -> None:
    """SEC-57, SEC-72: a reason passes the scrubber."""
    delete(desk, desk.completed(), "hush")
    assert re.search(r"Reason: \*\*\*\.$", desk.events()[-1].message)
