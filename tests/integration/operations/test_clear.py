"""Clear Jobs empties the system: files one by one, then all rows at once."""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from bulksigner.contract.errors import BulkSignerError, PermanentFailure
from bulksigner.files import durable
from bulksigner.files.work import open_place
from bulksigner.jobs import removal as removal_module
from bulksigner.jobs.model import Owner, utc_now
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.operations import leftovers as leftovers_module
from bulksigner.operations.clear import Cleared, Interrupted
from bulksigner.operations.people import Person
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.records.errors import StoreFailed
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import EventRow, HistoryRow

OPERATOR = Person("operator", "ApiKey")
LINES = Prepared(HistoryRow.select(HistoryRow.id))
FACTS = Prepared(EventRow.select(EventRow.facts))


def clear(desk: Any) -> Cleared:
    cleared: Cleared = desk.operations.clearing.clear(OPERATOR)
    return cleared


def test_the_sidecars_of_inputs_go_with_them(desk: Any) -> None:
    """PIPE-118, PIPE-103: after the file, while they are as they were read."""
    sidecar = desk.inbox / "folha.rem.meta.json"
    sidecar.write_bytes(b'{"lote": "17"}')
    desk.born_with["sidecar_sha256"] = hashlib.sha256(sidecar.read_bytes()).hexdigest()
    desk.failed()
    clear(desk)
    assert list(desk.inbox.iterdir()) == []


def history_count(desk: Any) -> int:
    return len(desk.store.read(lambda: desk.store.execute(LINES).rows))


def files_below(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("*")]


def test_everything_of_every_job_goes(desk: Any) -> None:
    """PIPE-103, API-67: jobs of every status with input, folders and output; the counts are those of what went."""
    desk.completed("completed.rem")
    failed = desk.failed("failed.rem")
    desk.operations.operator.cancel(desk.queued("canceled.rem").id, OPERATOR)
    parked = desk.claimed("parked.rem")
    desk.jobs.transition(parked, "park", by=Actor.WORKER, message="waits")
    desk.jobs.transition(desk.claimed("verifying.rem"), "sign", by=Actor.WORKER, message="Signed")
    desk.claimed("processing.rem")
    desk.operations.operator.retry(failed.id, OPERATOR)
    desk.queued("queued.rem")
    cleared = clear(desk)
    # Inputs of all but the completed one, whose output counts; failed and its retry share one.
    assert cleared == Cleared(jobs=8, files=7, folders=4, events=0, items_failed=0)
    assert cleared.counts == "8 job record(s), 7 file(s), 4 folder(s) and 0 operational event(s)"
    assert files_below(desk.inbox, desk.roots.processing, desk.roots.error, desk.roots.output) == []
    assert desk.job_count == 0
    assert set(desk.jobs.counts().values()) == {0}
    assert history_count(desk) == 0


def test_what_is_left_is_one_event(desk: Any, caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-103, SEC-76: earlier events go in the same transaction; the log has the same line and facts."""
    desk.operations.pausing.pause(OPERATOR)
    desk.completed()
    with caplog.at_level(logging.INFO, "bulksigner.operations"):
        cleared = clear(desk)
    assert cleared.events == 1
    [event] = desk.events()
    assert event.event_type == "JobsCleared"
    assert event.message == (
        "Jobs cleared by operator: 1 job record(s), 1 file(s), 0 folder(s) and 1 operational event(s)."
    )
    [line] = [record for record in caplog.records if record.getMessage() == event.message]
    recorded = json.loads(desk.store.read(lambda: desk.store.execute(FACTS).rows)[0][0])
    assert recorded == {
        "actor": "operator",
        "scheme": "ApiKey",
        "jobs": 1,
        "files": 1,
        "folders": 0,
        "events": 1,
        "itemsFailed": 0,
    }
    assert line.facts == recorded  # type: ignore[attr-defined]


def test_pause_and_roots_are_untouched(desk: Any) -> None:
    """PIPE-103: a clear empties, it does not reset."""
    paused = desk.operations.pausing.pause(OPERATOR, "year end")
    clear(desk)
    assert PauseFlag(desk.store).read() == paused
    assert all(root.is_dir() for root in (desk.roots.processing, desk.roots.error, desk.roots.output, desk.inbox))


def test_a_twin_in_error_stays(desk: Any) -> None:
    """PIPE-103: a folder whose name has a time behind the id cannot be derived from the row; the plain one goes."""
    job = desk.failed()
    open_place(desk.roots.job_folder(job.id) / "folha.rem").write_bytes(b"of a second life")
    desk.roots.fail_job_folder(job.id)
    [twin] = [path for path in desk.roots.error.iterdir() if path.name != job.id]
    assert twin.name.startswith(f"{job.id}-")
    assert clear(desk) == Cleared(jobs=1, files=1, folders=1, events=0, items_failed=0)
    assert list(desk.roots.error.iterdir()) == [twin]
    assert (twin / "folha.rem").read_bytes() == b"of a second life"


def test_inputs_go_without_a_comparison(desk: Any) -> None:
    """PIPE-103: also one that was rewritten since; a file of no job stays."""
    desk.failed("rewritten.rem")
    desk.drop("rewritten.rem", b"corrected")
    stranger = desk.drop("stranger.rem")
    clear(desk)
    assert list(desk.inbox.iterdir()) == [stranger]


def test_what_refuses_is_counted_and_the_row_goes(desk: Any, caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-103, OPS-175: a held input and a link stay; one warning each, the number in result, event and log."""
    desk.failed("held.rem")
    folder = next(iter(desk.folders)).folder
    hold = folder.hold("held.rem")
    linked = desk.completed("linked.rem")
    output = Path(linked.output_path)
    output.rename(output.with_name("moved.p7m"))
    output.symlink_to(output.with_name("moved.p7m"))
    with caplog.at_level(logging.INFO, "bulksigner.operations"):
        cleared = clear(desk)
    hold.release()
    assert (cleared.jobs, cleared.items_failed) == (2, 2)
    assert desk.job_count == 0
    assert sorted(path.name for path in (*desk.inbox.iterdir(), *desk.roots.output.iterdir())) == [
        "held.rem",
        "linked.rem.p7m",
        "moved.p7m",
    ]
    assert desk.events()[0].message.endswith(" 2 file(s) or folder(s) could not be deleted.")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.split(":")[0] for line in warnings[:2]] == [
        f"Clearing jobs left input {desk.inbox / 'held.rem'}",
        f"Clearing jobs left output {output}",
    ]
    assert warnings[2] == desk.events()[0].message


def test_a_folder_that_cannot_be_looked_at_does_not_stop_the_others(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-103: whatever the file system says of one item, the sweep goes on to the next job."""
    first = desk.failed("a.rem")
    second = desk.failed("b.rem")
    look = leftovers_module._look

    def refuse(place: Path) -> Any:
        if place.name == first.id and place.parent == desk.roots.error:
            raise PermissionError(13, "Permission denied", str(place))
        return look(place)

    monkeypatch.setattr(leftovers_module, "_look", refuse)
    assert clear(desk) == Cleared(jobs=2, files=2, folders=1, events=0, items_failed=1)
    assert desk.roots.error_folder(first.id).exists()
    assert not desk.roots.error_folder(second.id).exists()


def test_an_input_of_a_folder_unknown_here_fails_only_if_it_may_be_there(desk: Any, tmp_path: Path) -> None:
    """PIPE-103: it cannot be reached, so it is counted; a completed job has taken its own."""
    desk.enqueue(tmp_path / "unknown" / "a.rem")
    [taken] = desk.queue.claim(1, Owner("here", "this-life"))
    signed = desk.jobs.transition(taken.job, "sign", by=Actor.WORKER, message="Signed").job
    desk.jobs.transition(signed, "complete", by=Actor.WORKER, message="Completed")
    desk.enqueue(tmp_path / "unknown" / "b.rem")
    assert clear(desk) == Cleared(jobs=2, files=0, folders=0, events=0, items_failed=1)


@pytest.mark.parametrize("lost", ["output", "inbox"])
def test_a_storage_that_is_away_fails_before_anything_goes(desk: Any, lost: str) -> None:
    """PIPE-103, OPS-177: nothing is deleted, no row and no file."""
    desk.completed("a.rem")
    failed = desk.failed("b.rem")
    place = desk.inbox if lost == "inbox" else desk.roots.output
    place.rename(place.with_name("away"))
    before = sorted(path.name for path in files_below(desk.roots.root, place.with_name("away")))
    with pytest.raises(PermanentFailure, match="nothing was removed"):
        clear(desk)
    assert sorted(path.name for path in files_below(desk.roots.root, place.with_name("away"))) == before
    assert desk.job_count == 2
    assert desk.read(failed) == failed
    assert desk.events() == []


def test_a_database_failure_rolls_rows_events_and_marker_back(
    desk: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-103, OPS-176: swept files stay deleted, an error says so; run again."""
    desk.operations.pausing.pause(OPERATOR)
    job = desk.failed()
    lines = history_count(desk)

    def refuse(*_: object) -> None:
        raise StoreFailed("the disk of the database is full")

    desk.operations.clearing._also = (refuse,)
    with pytest.raises(StoreFailed):
        clear(desk)
    assert desk.read(job) == job
    assert history_count(desk) == lines
    assert [event.event_type for event in desk.events()] == ["PipelinePaused"]
    assert files_below(desk.inbox, desk.roots.error) == []
    assert any(record.levelname == "ERROR" and "clear again" in record.getMessage() for record in caplog.records)
    desk.operations.clearing._also = ()
    assert clear(desk) == Cleared(jobs=1, files=0, folders=0, events=1, items_failed=0)


def test_further_acts_share_the_transaction(desk: Any) -> None:
    """STA-31: what is to move with the rows is called inside, with the time the event has."""
    desk.completed()
    told: list[tuple[datetime.datetime, bool, int]] = []

    def note(at: datetime.datetime) -> None:
        told.append((at, desk.store.is_writing, len(desk.store.execute(LINES).rows)))

    desk.operations.clearing._also = (note,)
    clear(desk)
    assert told == [(desk.events()[0].at, True, 0)]


def test_a_job_born_during_the_clear_loses_its_row_only(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-104: it was not in the picture that the sweep works on."""
    desk.completed("old.rem")
    find = type(desk.operations.clearing._leftovers).find_storage_fault

    def drop_meanwhile(leftovers: Any) -> Any:
        desk.queued("new.rem")
        return find(leftovers)

    monkeypatch.setattr(type(desk.operations.clearing._leftovers), "find_storage_fault", drop_meanwhile)
    cleared = clear(desk)
    assert (cleared.jobs, cleared.files) == (2, 1)
    assert [path.name for path in desk.inbox.iterdir()] == ["new.rem"]


def test_a_file_turned_away_during_the_clear_keeps_its_row(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-104, PIPE-127: its bytes lie below `error/`, where no scan takes them, so the row must tell of them."""
    desk.completed("old.rem")
    find = type(desk.operations.clearing._leftovers).find_storage_fault

    def turn_away_meanwhile(leftovers: Any) -> Any:
        path = desk.drop("new.rem")
        desk.enqueue(path, event="metadata_invalid", error_code="job.metadata-invalid", path_released=True)
        return find(leftovers)

    monkeypatch.setattr(type(desk.operations.clearing._leftovers), "find_storage_fault", turn_away_meanwhile)
    assert clear(desk).jobs == 1
    [kept] = [job for page in removal_module.Removal(desk.store).pages(utc_now()) for job in page]
    assert (kept.file_name, kept.error_code) == ("new.rem", "job.metadata-invalid")


def test_the_end_of_a_job_under_way_finds_no_row(desk: Any) -> None:
    """PIPE-104: the worker's transition is refused as a lost race and records nothing."""
    job = desk.claimed()
    clear(desk)
    with pytest.raises(BulkSignerError) as caught:
        desk.jobs.transition(job, "fail", by=Actor.WORKER, message="staged copy is gone")
    assert caught.value.code == "job.race-lost"
    assert history_count(desk) == 0


def test_many_pages_are_swept(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-103: every job once, however many pages and whatever shares a moment of birth."""
    monkeypatch.setattr(removal_module, "PAGE_SIZE", 3)
    for number in range(10):
        desk.queued(f"{number}.rem")
    assert clear(desk) == Cleared(jobs=10, files=10, folders=0, events=0, items_failed=0)


def test_a_stop_interrupts_the_sweep(desk: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """PIPE-103, OPS-176: only the end of the service does; rows are all there, a warning says what is gone."""
    for number in range(3):
        desk.queued(f"{number}.rem")
    clearing = desk.operations.clearing
    swept, going_on = threading.Event(), threading.Event()
    remove = type(clearing._leftovers).remove_input

    def remove_slowly(leftovers: Any, folder: Any, name: str, job: Any) -> None:
        remove(leftovers, folder, name, job)
        swept.set()
        assert going_on.wait(10)

    monkeypatch.setattr(type(clearing._leftovers), "remove_input", remove_slowly)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            clear(desk)
        except Interrupted as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert swept.wait(10)
    clearing._stopping.set()
    going_on.set()
    clearing.interrupt(10)
    thread.join(10)
    assert len(raised) == 1
    assert desk.job_count == 3
    assert sorted(path.name for path in desk.inbox.iterdir()) == ["1.rem", "2.rem"]
    assert any(record.levelname == "WARNING" and "interrupted" in record.getMessage() for record in caplog.records)
    with pytest.raises(Interrupted):
        clear(desk)


def test_two_clears_come_one_after_the_other(desk: Any) -> None:
    """PIPE-103, DSH-127: the second finds nothing left and leaves the record of the first alone."""
    for number in range(20):
        desk.queued(f"{number}.rem")
    gate = threading.Barrier(2)
    results: list[Cleared] = []

    def run() -> None:
        gate.wait()
        results.append(clear(desk))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((one.jobs, one.files, one.items_failed) for one in results) == [(0, 0, 0), (20, 20, 0)]
    assert desk.job_count == 0


def test_a_file_that_cannot_be_unlinked_is_left(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-103: each item is best effort, an output too."""
    job = desk.completed()

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(durable, "remove_file", refuse)
    assert clear(desk) == Cleared(jobs=1, files=0, folders=0, events=0, items_failed=1)
    assert Path(job.output_path).exists()
    assert JobStatus.COMPLETED not in [status for status, count in desk.jobs.counts().items() if count]
