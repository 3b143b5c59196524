"""Names that were signed or are being worked on (PIPE-48 to PIPE-53)."""

from __future__ import annotations

import io
import logging
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import NotAllowed, Refusal, TemporaryFailure
from bulksigner.contract.storage import Removal, RemovalOutcome
from bulksigner.intake.offers import Offer, OutcomeKind
from bulksigner.intake.rescan import Rescanner
from bulksigner.intake.upload import UploadDoor
from bulksigner.jobs.states import JobStatus
from bulksigner.settings.model import UploadSettings, WatchedFolderSettings

ONE_SAMPLE = WatchedFolderSettings(stability_poll_interval_ms=50, stability_required_samples=1)


def offer(desk: Any, *names: str, is_rescan: bool = False) -> list[OutcomeKind]:
    batch = [Offer(desk.opened, desk.folder.look(name), is_rescan) for name in names]
    return [outcome.kind for outcome in desk.service.offer(batch)]


def in_error(desk: Any) -> dict[str, list[str]]:
    return {folder.name: sorted(path.name for path in folder.iterdir()) for folder in desk.roots.error.iterdir()}


def sign(desk: Any, name: str, **changes: Any) -> Any:
    """Have a completed job of a file, its input removed."""
    path = desk.drop(name)
    assert offer(desk, name) == [OutcomeKind.ENQUEUED]
    path.unlink()
    desk.ledger.end(desk.path(name), **changes)
    return desk.ledger.rows[-1]


@pytest.fixture
def door(strict_desk: Any) -> UploadDoor:
    return UploadDoor(
        UploadSettings(),
        strict_desk.folders,
        strict_desk.service,
        strict_desk.profiles.get,
        strict_desk.roots,
        strict_desk.names,
    )


@pytest.mark.parametrize("is_rescan", [False, True])
def test_a_name_that_was_signed_is_born_failed(strict_desk: Any, caplog: Any, is_rescan: bool) -> None:
    """PIPE-07, PIPE-48, PIPE-52, SEC-76: bytes in error/, a row that names the holder, one event, one warning."""
    desk = strict_desk
    holder = sign(desk, "folha.rem")
    path = desk.drop("FOLHA.rem", b"sent again")
    with caplog.at_level(logging.WARNING):
        assert offer(desk, "FOLHA.rem", is_rescan=is_rescan) == [OutcomeKind.ALREADY_PROCESSED]
    job = desk.ledger.rows[-1]
    assert (job.status, job.error_code, job.error_message) == (JobStatus.FAILED, *["file.already-processed"] * 2)
    assert job.path_released
    assert not path.exists()
    assert in_error(desk) == {job.id: ["FOLHA.rem"]}
    assert (desk.roots.error / job.id / "FOLHA.rem").read_bytes() == b"sent again"
    assert holder.id in desk.announced[-1].change.message
    [event] = desk.ledger.events
    assert (event.event_type, dict(event.facts)) == (
        "FileAlreadyProcessed",
        {
            "jobId": job.id,
            "fileName": "FOLHA.rem",
            "holderJobId": holder.id,
            "holderStatus": "Completed",
            "folder": "in",
        },
    )
    assert [record.levelname for record in caplog.records if "FOLHA.rem" in record.getMessage()] == ["WARNING"]
    assert list(desk.roots.refusals.iterdir()) == []


def test_an_unfinished_job_holds_its_name_and_a_failed_one_does_not(strict_desk: Any) -> None:
    """PIPE-48: another path with the name of a queued job; failed and cancelled reserve nothing."""
    desk = strict_desk
    desk.drop("a.pdf")
    assert offer(desk, "a.pdf") == [OutcomeKind.ENQUEUED]
    desk.drop("A.pdf")
    assert offer(desk, "A.pdf") == [OutcomeKind.ALREADY_PROCESSED]
    for status in (JobStatus.FAILED, JobStatus.CANCELED):
        desk.ledger.end(desk.path("a.pdf"), status)
        desk.drop("A.pdf")
        assert offer(desk, "A.pdf", is_rescan=True) == [OutcomeKind.ENQUEUED]
        desk.ledger.end(desk.path("A.pdf"), JobStatus.FAILED)
        assert offer(desk, "a.pdf", is_rescan=True) == [OutcomeKind.ENQUEUED]


def test_the_same_name_twice_in_one_batch(strict_desk: Any) -> None:
    """PIPE-48: the first in the batch is taken, the second is refused by it, and others are not disturbed."""
    for name in ("a.pdf", "b.pdf", "A.PDF", "a.PDF"):
        strict_desk.drop(name)
    assert offer(strict_desk, "a.pdf", "A.PDF", "b.pdf", "a.PDF") == [
        OutcomeKind.ENQUEUED,
        OutcomeKind.ALREADY_PROCESSED,
        OutcomeKind.ENQUEUED,
        OutcomeKind.ALREADY_PROCESSED,
    ]
    assert {event.facts["holderJobId"] for event in strict_desk.ledger.events} == {strict_desk.ledger.rows[0].id}


def test_names_count_for_nothing_when_the_rule_is_off(desk: Any) -> None:
    """CFG-122: off, a name is signed as often as it comes."""
    sign(desk, "a.pdf")
    desk.drop("A.PDF")
    assert offer(desk, "A.PDF") == [OutcomeKind.ENQUEUED]
    desk.drop("a.PDF")
    desk.drop("a.pdf")
    assert offer(desk, "a.PDF", "a.pdf") == [OutcomeKind.ENQUEUED] * 2


def test_a_name_is_free_once_its_job_is_deleted(strict_desk: Any) -> None:
    """PIPE-52, PIPE-44, PIPE-113: no rescan is needed, also after drops that were born failed."""
    desk = strict_desk
    holder = sign(desk, "a.pdf")
    for _ in range(2):
        desk.drop("a.pdf")
        assert offer(desk, "a.pdf") == [OutcomeKind.ALREADY_PROCESSED]
    desk.ledger.rows.remove(holder)
    desk.drop("a.pdf")
    assert offer(desk, "a.pdf") == [OutcomeKind.ENQUEUED]


@pytest.mark.parametrize("is_rescan", [False, True])
def test_a_diverged_input_is_exempt_from_its_own_job_only(strict_desk: Any, is_rescan: bool) -> None:
    """PIPE-53, PIPE-94: taken beside the job that left it, refused when another job has the name as well."""
    desk = strict_desk
    changes = {"input_diverged": True, "staged_length": 3, "staged_sha256": "00" * 32}
    sign(desk, "a.pdf", **changes)
    desk.drop("a.pdf", b"corrected")
    assert offer(desk, "a.pdf", is_rescan=is_rescan) == [OutcomeKind.ENQUEUED]
    desk.ledger.end(desk.path("a.pdf"), **changes)
    other = attrs.evolve(desk.ledger.rows[0], id="another", original_path="/elsewhere/a.pdf", input_diverged=False)
    desk.ledger.rows.insert(0, other)
    desk.ledger.rows.pop(1)
    assert offer(desk, "a.pdf", is_rescan=is_rescan) == [OutcomeKind.ALREADY_PROCESSED]
    assert desk.ledger.events[-1].facts["holderJobId"] == "another"


def test_a_file_that_cannot_be_moved_stays(strict_desk: Any, monkeypatch: Any, caplog: Any) -> None:
    """PIPE-49, PIPE-47: no row, no event, nothing in error/; an error that the folder is not blamed for."""
    desk = strict_desk
    sign(desk, "a.pdf")
    path, rows = desk.drop("a.pdf", b"held"), len(desk.ledger.rows)
    with desk.folder.hold("a.pdf") and monkeypatch.context() as patch:
        patch.setattr(desk.folder, "remove_if", lambda *_: Removal(RemovalOutcome.KEPT, "not removable: Busy"))
        [outcome] = desk.service.offer([Offer(desk.opened, desk.folder.look("a.pdf"))])
    assert (outcome.kind, outcome.is_of_file) == (OutcomeKind.ERROR, True)
    assert path.read_bytes() == b"held"
    assert (len(desk.ledger.rows), desk.ledger.events, in_error(desk)) == (rows, [], {})
    assert list(desk.roots.refusals.iterdir()) == []
    assert f"{path} stays where it is" in caplog.text


def test_a_file_that_is_gone_before_it_is_copied_leaves_nothing(strict_desk: Any, monkeypatch: Any) -> None:
    """PIPE-07: its producer took it away; there is nothing to refuse."""
    desk = strict_desk
    sign(desk, "a.pdf")
    path, rows, hold = desk.drop("a.pdf"), len(desk.ledger.rows), desk.folder.hold

    def gone(name: str) -> Any:
        path.unlink(missing_ok=True)
        return hold(name)

    monkeypatch.setattr(desk.folder, "hold", gone)
    assert offer(desk, "a.pdf") == [OutcomeKind.VANISHED]
    assert (len(desk.ledger.rows), in_error(desk), list(desk.roots.refusals.iterdir())) == (rows, {}, [])


def test_a_missing_root_is_no_missing_file(strict_desk: Any, caplog: Any) -> None:
    """PIPE-49: the file stays, and the log says why."""
    desk = strict_desk
    sign(desk, "a.pdf")
    path = desk.drop("a.pdf")
    desk.roots.error.rmdir()
    assert offer(desk, "a.pdf") == [OutcomeKind.ERROR]
    assert path.exists()
    assert "stays where it is" in caplog.text
    assert list(desk.roots.refusals.iterdir()) == []


def test_a_copy_is_kept_when_the_file_is_found_gone(strict_desk: Any, monkeypatch: Any) -> None:
    """PIPE-07: whoever removed it, ours may be the only copy left; it has its job."""
    desk = strict_desk
    sign(desk, "a.pdf")
    path = desk.drop("a.pdf", b"the only copy")

    def gone(*_: Any) -> Removal:
        path.unlink()
        return Removal(RemovalOutcome.ABSENT)

    monkeypatch.setattr(desk.folder, "remove_if", gone)
    assert offer(desk, "a.pdf") == [OutcomeKind.ALREADY_PROCESSED]
    assert (desk.roots.error / desk.ledger.rows[-1].id / "a.pdf").read_bytes() == b"the only copy"


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_removal_in_doubt_is_settled_by_the_next_start(strict_desk: Any, monkeypatch: Any, is_removed: bool) -> None:
    """PIPE-07, PIPE-49: an answer that was lost may mean either; the file is in its folder, or in error/ with a job."""
    desk = strict_desk
    sign(desk, "a.pdf")
    path, rows = desk.drop("a.pdf", b"again"), len(desk.ledger.rows)

    def lose(*_: Any) -> Any:
        if is_removed:
            path.unlink()
        raise TemporaryFailure("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(desk.folder, "remove_if", lose)
        assert offer(desk, "a.pdf") == [OutcomeKind.ERROR]
    assert len(desk.ledger.rows) == rows
    desk.turned_away.settle(desk.ledger.get, desk.folders, desk.service.insert)
    if is_removed:
        job = desk.ledger.rows[-1]
        assert (job.error_code, in_error(desk)) == ("file.already-processed", {job.id: ["a.pdf"]})
    else:
        assert (path.read_bytes(), in_error(desk), len(desk.ledger.rows)) == (b"again", {}, rows)
    assert list(desk.roots.refusals.iterdir()) == []


def test_notes_that_nobody_can_read_stop_no_start(strict_desk: Any) -> None:
    """PIPE-07, CLU-10: half a note was written before anything moved; what lies in error/ is not touched for it."""
    desk = strict_desk
    (desk.roots.error / "half").mkdir()
    (desk.roots.error / "half" / "kept").touch()
    for text in ("", "{", "[]", '{"id": "half"}'):
        (desk.roots.refusals / "half.json").write_text(text)
        desk.turned_away.settle(desk.ledger.get, desk.folders, desk.service.insert)
        assert list(desk.roots.refusals.iterdir()) == []
    assert (desk.roots.error / "half" / "kept").exists()


def test_a_held_file_is_an_error_of_the_rescan(strict_desk: Any) -> None:
    """PIPE-49, PIPE-100: counted in `errors`; refused names are counted apart."""
    desk = strict_desk
    for name in ("a.pdf", "b.pdf"):
        sign(desk, name)
        desk.drop(name)
    hold = desk.folder.hold("a.pdf")
    rescanner = Rescanner(desk.folders, desk.service, desk.profiles.bound, ONE_SAMPLE, sleep=lambda _: None)
    report = rescanner.rescan("in").folders[0]
    hold.release()
    assert (report.errors, report.already_processed, report.enqueued, report.scanned) == (1, 1, 0, 2)


def test_a_held_file_never_opens_the_breaker(strict_desk: Any, polled: Any) -> None:
    """PIPE-47, PIPE-49: it is tried again for as long as it lies there, and moved once it can be."""
    desk, now = strict_desk, [0.0]
    sign(desk, "a.pdf")
    desk.drop("a.pdf")
    watcher = desk.watcher(settings=ONE_SAMPLE, notices=polled(), clock=lambda: now[0])
    hold = desk.folder.hold("a.pdf")
    for _ in range(30):
        watcher.step()
        now[0] += 100
    assert (watcher.status.state.value, watcher.status.consecutive_errors) == ("Running", 0)
    assert "held by another job" in watcher.status.last_error
    hold.release()
    watcher.step()
    assert desk.ledger.rows[-1].error_code == "file.already-processed"


def test_a_refusal_that_cannot_be_recorded_is_undone(strict_desk: Any) -> None:
    """PIPE-07, PIPE-47: the file is back in its folder, nothing is in error/, and the failure counts."""
    desk = strict_desk
    sign(desk, "a.pdf")
    path = desk.drop("a.pdf", b"again")
    desk.ledger.fails = 1
    [outcome] = desk.service.offer([Offer(desk.opened, desk.folder.look("a.pdf"))])
    assert (outcome.kind, outcome.is_of_file) == (OutcomeKind.ERROR, False)
    assert path.read_bytes() == b"again"
    assert (in_error(desk), list(desk.roots.refusals.iterdir())) == ({}, [])
    assert offer(desk, "a.pdf") == [OutcomeKind.ALREADY_PROCESSED]


def test_an_upload_of_a_taken_name_is_refused(strict_desk: Any, door: UploadDoor) -> None:
    """PIPE-48, API-55: 409 that names the holder, nothing stored, no row, no event."""
    holder = sign(strict_desk, "a.pdf")
    rows = len(strict_desk.ledger.rows)
    with pytest.raises(NotAllowed, match=holder.id) as refused:
        door.receive(io.BytesIO(b"x"), file_name="A.pdf")
    assert refused.value.code == "file.already-processed"
    assert list(strict_desk.root.iterdir()) == []
    assert list(strict_desk.roots.landing.iterdir()) == []
    assert (len(strict_desk.ledger.rows), strict_desk.ledger.events) == (rows, [])


def test_metadata_is_looked_at_before_the_name_and_the_name_before_the_path(
    strict_desk: Any, door: UploadDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-55: as each fault is mended, the next one shows; nothing is stored for any."""
    sign(strict_desk, "a.pdf")
    monkeypatch.setattr(strict_desk.folder, "path_of", lambda _: "x" * 851)

    def refused_for(**request: str) -> str | None:
        with pytest.raises(Refusal) as refused:
            door.receive(io.BytesIO(b"x"), **request)
        return refused.value.code

    assert refused_for(file_name="con", metadata="[]") == "upload.invalid-name"
    assert refused_for(file_name="a.pdf", metadata="[]") == "upload.metadata-invalid"
    assert refused_for(file_name="a.pdf", metadata="{}") == "file.already-processed"
    assert refused_for(file_name="b.pdf", metadata="{}") == "job.path-too-long"
    assert list(strict_desk.root.iterdir()) == list(strict_desk.roots.landing.iterdir()) == []


def test_a_name_that_is_taken_while_an_upload_arrives(strict_desk: Any, door: UploadDoor) -> None:
    """PIPE-48, PIPE-54: asked again when the bytes are there, and nothing of the loser stays."""

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            piece = super().read(2)
            if self.tell() == 4:
                strict_desk.drop("a.pdf")
                assert offer(strict_desk, "a.pdf") == [OutcomeKind.ENQUEUED]
            return piece

    with pytest.raises(NotAllowed) as refused:
        door.receive(Slow(b"x" * 8), file_name="a.pdf")
    assert refused.value.code == "file.already-processed"
    assert [path.name for path in strict_desk.root.iterdir()] == ["a.pdf"]
    assert list(strict_desk.roots.landing.iterdir()) == []


def test_an_upload_and_a_folder_with_one_name_at_once(strict_desk: Any, door: UploadDoor) -> None:
    """PIPE-48, PIPE-51, PIPE-110: of many doors of one process exactly one has the name, however they interleave."""
    desk, gate = strict_desk, threading.Barrier(8)
    results: list[str] = []
    refusals: list[str | None] = []

    def send() -> None:
        gate.wait()
        try:
            results.append(door.receive(io.BytesIO(b"x"), file_name="a.pdf").id)
        except NotAllowed as refused:
            refusals.append(refused.code)

    def take() -> None:
        entry = desk.folder.look("A.PDF")
        gate.wait()
        if desk.service.offer([Offer(desk.opened, entry)])[0].kind is OutcomeKind.ENQUEUED:
            results.append("folder")

    desk.drop("A.PDF")
    threads = [threading.Thread(target=send) for _ in range(7)] + [threading.Thread(target=take)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 1
    assert set(refusals) == {"file.already-processed"}
    assert sum(job.status is JobStatus.QUEUED for job in desk.ledger.rows) == 1


def test_a_retry_that_comes_in_between_keeps_its_input(strict_desk: Any) -> None:
    """PIPE-48, PIPE-99, PIPE-110: a retry has the name of its own file; the file is not moved from under it."""
    desk = strict_desk
    path = desk.drop("a.pdf", b"content")
    offer(desk, "a.pdf")
    desk.ledger.end(desk.path("a.pdf"), JobStatus.FAILED)
    failed = desk.ledger.rows[-1]

    def retry() -> None:
        desk.ledger.on_query = lambda: None
        desk.ledger.rows.append(attrs.evolve(failed, id="retry", status=JobStatus.QUEUED))

    desk.ledger.on_query = retry
    assert offer(desk, "a.pdf", is_rescan=True) == [OutcomeKind.ALREADY_ACTIVE]
    assert path.read_bytes() == b"content"
    assert (in_error(desk), desk.ledger.events) == ({}, [])


def test_one_file_offered_by_many_doors_is_one_job_with_its_input(strict_desk: Any) -> None:
    """PIPE-02, PIPE-48, PIPE-110: a watcher and rescans at once; the losers never take it for a second of its name."""
    desk = strict_desk
    for number in range(20):
        path = desk.drop(f"{number}.pdf", b"content")
        entry, gate = desk.folder.look(path.name), threading.Barrier(6)
        kinds: list[OutcomeKind] = []

        def take(entry: Any = entry, gate: Any = gate, kinds: list[OutcomeKind] = kinds) -> None:
            gate.wait()
            [outcome] = desk.service.offer([Offer(desk.opened, entry, is_rescan=True)])
            kinds.append(outcome.kind)

        threads = [threading.Thread(target=take) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(kind.value for kind in kinds) == ["AlreadyActive"] * 5 + ["Enqueued"]
        assert path.read_bytes() == b"content"
    assert in_error(desk) == {}


def test_a_refused_file_takes_its_sidecar_along(strict_desk: Any) -> None:
    """PIPE-07, PIPE-118: the sidecar goes after its file; the failed job has the metadata."""
    desk = strict_desk
    sign(desk, "a.pdf")
    desk.drop("a.pdf.meta.json", b'{"k": "v"}')
    desk.drop("a.pdf")
    assert offer(desk, "a.pdf") == [OutcomeKind.ALREADY_PROCESSED]
    job = desk.ledger.rows[-1]
    assert in_error(desk) == {job.id: ["a.pdf", "a.pdf.meta.json"]}
    assert dict(job.metadata) == {"k": "v"}
    assert list(desk.root.iterdir()) == []


def test_a_drop_that_was_sent_twice_is_one_batch(strict_desk: Any, tmp_path: Path) -> None:
    """PIPE-07: a drop that was sent twice is refused as one batch of rows, file by file in error/."""
    desk = strict_desk
    names = [f"{number}.pdf" for number in range(200)]
    for name in names:
        desk.drop(name)
    assert offer(desk, *names) == [OutcomeKind.ENQUEUED] * 200
    for name in names:
        desk.ledger.end(desk.path(name))
        desk.drop(name, b"again")
    batches = len(desk.ledger.batches)
    assert offer(desk, *names) == [OutcomeKind.ALREADY_PROCESSED] * 200
    assert desk.ledger.batches[batches:] == [200]
    assert sorted(name for [name] in in_error(desk).values()) == sorted(names)
    assert list(desk.roots.refusals.iterdir()) == []
