from __future__ import annotations

import hashlib
import os
from typing import Any

import attrs
import pytest

from bulksigner.contract.signing import Format
from bulksigner.intake.names import mint_landing_name
from bulksigner.intake.offers import Offer, OutcomeKind
from bulksigner.jobs.model import JobSource
from bulksigner.jobs.states import JobStatus


def offer(desk: Any, *names: str, is_rescan: bool = False) -> list[str]:
    """Offer files of the folder as one batch and return the names of the outcomes."""
    batch = [Offer(desk.opened, desk.folder.look(name), is_rescan) for name in names]
    return [outcome.kind.value for outcome in desk.service.offer(batch)]


def test_a_file_becomes_a_job_of_its_folder(desk: Any) -> None:
    """PIPE-06, PIPE-37, PIPE-38: with path, folder, profile, format and a first line of history."""
    for name in ("a.PDF", "b.xml", "c.rem"):
        desk.drop(name)
    assert offer(desk, "a.PDF", "b.xml", "c.rem") == ["Enqueued"] * 3
    jobs = desk.ledger.rows
    assert [job.format for job in jobs] == [Format.PADES, Format.XADES, Format.CADES]
    assert {(job.input_folder, job.profile_name, job.source) for job in jobs} == {("in", "default", JobSource.WATCHER)}
    assert jobs[0].original_path == str(desk.root / "a.PDF")
    assert [changed.change.message for changed in desk.announced] == ["Queued from folder in"] * 3
    assert (desk.ledger.queries, desk.ledger.batches) == (1, [3])


def test_the_format_of_the_profile_goes_before_the_extension(desk: Any) -> None:
    """PIPE-38: profile first."""
    desk.profiles.default.stored.format = Format.CADES
    desk.drop("a.pdf")
    offer(desk, "a.pdf")
    assert desk.ledger.rows[0].format is Format.CADES


def test_a_plugin_may_choose_the_format(desk: Any) -> None:
    """PIPE-38: the hook's answer stands; where nobody answers, the file is content for CAdES."""
    answers = {"a.pdf": Format.XADES}
    desk.service._choose_format = answers.get
    desk.drop("a.pdf")
    desk.drop("b.pdf")
    offer(desk, "a.pdf", "b.pdf")
    assert [job.format for job in desk.ledger.rows] == [Format.XADES, Format.CADES]


@pytest.mark.parametrize(
    ("status", "watched", "rescanned"),
    [
        (JobStatus.QUEUED, "AlreadyActive", "AlreadyActive"),
        (JobStatus.FAILED, "Ignored", "Enqueued"),
        (JobStatus.CANCELED, "Ignored", "Enqueued"),
        (JobStatus.COMPLETED, "Enqueued", "Enqueued"),
    ],
)
@pytest.mark.parametrize("is_rescan", [False, True])
def test_the_latest_job_decides_for_watchers_only(
    desk: Any, status: JobStatus, watched: str, rescanned: str, is_rescan: bool
) -> None:
    """PIPE-44, PIPE-100: and only the latest."""
    desk.drop("a.pdf")
    offer(desk, "a.pdf")
    desk.ledger.end(desk.path("a.pdf"))
    offer(desk, "a.pdf")
    if status is not JobStatus.QUEUED:
        desk.ledger.end(desk.path("a.pdf"), status)
    assert offer(desk, "a.pdf", is_rescan=is_rescan) == [rescanned if is_rescan else watched]


def test_each_file_of_a_batch_has_its_own_outcome(desk: Any) -> None:
    """PIPE-35, PIPE-36: ignored and unassigned files disturb no other."""
    names = ["x.tmp", "a.pdf", mint_landing_name("u.pdf"), "b.pdf"]
    for name in names:
        desk.drop(name)
    assert offer(desk, *names) == ["Ignored", "Enqueued", "Ignored", "Enqueued"]
    assert desk.ledger.names() == ["a.pdf", "b.pdf"]


def test_binding_and_profile_come_first(desk: Any) -> None:
    """PIPE-36, PIPE-39, PIPE-60: no query for a folder without an enabled profile."""
    desk.drop("a.pdf")
    desk.profiles.default.stored.enabled = False
    assert offer(desk, "a.pdf") == ["ProfileDisabled"]
    desk.profiles.bindings.clear()
    assert offer(desk, "a.pdf") == ["Unassigned"]
    assert desk.ledger.queries == 0


def test_a_path_too_long_makes_no_job(desk: Any, tmp_path: Any) -> None:
    """PIPE-03: 850 characters are stored, 851 are not."""
    deep = tmp_path
    while len(str(deep)) < 700:
        deep = deep / ("d" * 60)
    deep.mkdir(parents=True)
    room = 850 - len(str(deep)) - 1
    desk.folder._path = deep
    (deep / ("f" * room)).touch()
    (deep / ("f" * (room + 1))).touch()
    assert offer(desk, "f" * room, "f" * (room + 1)) == ["Enqueued", "PathTooLong"]


def test_a_name_that_is_no_text_is_left(desk: Any, caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-47: it cannot be stored, and must not open the breaker of its folder."""
    name = os.fsdecode(b"caf\xe9.pdf")
    desk.drop(name)
    desk.drop("a.pdf")
    assert offer(desk, name, "a.pdf") == ["Ignored", "Enqueued"]
    assert "not UTF-8 text" in caplog.text


def test_a_database_that_fails_is_an_error_of_what_was_left_to_it(desk: Any) -> None:
    """PIPE-35, PIPE-47: files decided before keep their outcome."""
    desk.drop("x.tmp")
    desk.drop("a.pdf")
    desk.ledger.fails = 1
    batch = [Offer(desk.opened, desk.folder.look(name)) for name in ("x.tmp", "a.pdf")]
    outcomes = desk.service.offer(batch)
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.IGNORED, OutcomeKind.ERROR]
    assert "the database is away" in outcomes[1].reason


def test_a_file_that_changed_since_it_was_stable_waits(desk: Any) -> None:
    """PIPE-43, PIPE-44: a new arrival on a path with a past is only taken as it was seen standing still."""
    desk.drop("a.pdf")
    offer(desk, "a.pdf")
    desk.ledger.end(desk.path("a.pdf"))
    seen = Offer(desk.opened, desk.folder.look("a.pdf"))
    desk.drop("a.pdf", b"still growing")
    assert [outcome.kind for outcome in desk.service.offer([seen])] == [OutcomeKind.VANISHED]


def leave(desk: Any, content: bytes) -> None:
    """Have a job that signed this content and left its input in place."""
    desk.drop("a.pdf", content)
    offer(desk, "a.pdf")
    digest = hashlib.sha256(content).hexdigest()
    desk.ledger.end(desk.path("a.pdf"), input_diverged=True, staged_length=len(content), staged_sha256=digest)


@pytest.mark.parametrize("is_rescan", [False, True])
def test_a_signed_file_that_was_left_is_never_signed_again(desk: Any, caplog: Any, is_rescan: bool) -> None:
    """PIPE-93, PIPE-94: through no door, whatever its times are; other bytes of the same length are an arrival."""
    leave(desk, b"signed")
    os.utime(desk.root / "a.pdf", ns=(5, 5))
    assert offer(desk, "a.pdf", is_rescan=is_rescan) == ["Ignored"]
    assert f"{desk.path('a.pdf')} is not taken: job {desk.ledger.rows[0].id} signed these bytes" in caplog.text
    desk.drop("a.pdf", b"others")
    assert offer(desk, "a.pdf", is_rescan=is_rescan) == ["Enqueued"]


def test_a_left_file_that_cannot_be_measured_is_taken_for_the_signed_one(desk: Any) -> None:
    """PIPE-93: a provider without that ability gives the length alone; signing twice would be worse than waiting."""
    leave(desk, b"signed")
    real = desk.folder

    class Plain:
        path_of, look = real.path_of, real.look

    desk.opened = attrs.evolve(desk.opened, folder=Plain())
    assert offer(desk, "a.pdf") == ["Ignored"]
    desk.drop("a.pdf", b"longer than signed")
    assert offer(desk, "a.pdf") == ["Enqueued"]


@pytest.mark.parametrize(
    ("status", "advice"),
    [(JobStatus.FAILED, "; retry that job or rescan the folder"), (JobStatus.CANCELED, "; rescan the folder")],
)
def test_a_file_under_a_failed_name_is_named_with_its_job(
    desk: Any, caplog: Any, status: JobStatus, advice: str
) -> None:
    """PIPE-44, PIPE-99: the warning says which file waits for what; a canceled job cannot be retried."""
    desk.drop("a.pdf")
    offer(desk, "a.pdf")
    desk.ledger.end(desk.path("a.pdf"), status)
    desk.drop("a.pdf", b"corrected")
    offer(desk, "a.pdf")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    for part in (desk.path("a.pdf"), desk.ledger.rows[0].id, f"is {status.value}{advice}"):
        assert part in record.getMessage()


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.FAILED])
def test_a_rescan_takes_no_memory_of_a_file_for_one(desk: Any, status: JobStatus) -> None:
    """PIPE-44, PIPE-100: listed, then signed and removed before the offer; it makes no job that must fail."""
    desk.drop("a.pdf")
    offer(desk, "a.pdf")
    seen = Offer(desk.opened, desk.folder.look("a.pdf"), is_rescan=True)
    (desk.root / "a.pdf").unlink()
    desk.ledger.end(desk.path("a.pdf"), status)
    assert [outcome.kind for outcome in desk.service.offer([seen])] == [OutcomeKind.VANISHED]
