"""Inputs that change while their job runs, through a whole service (PIPE-91 to PIPE-95, PIPE-111, PIPE-114)."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peewee
import pytest

from bulksigner.contract.errors import NotAllowed
from bulksigner.exposure import expose
from bulksigner.files import durable
from bulksigner.jobs.model import Job, JobSource
from bulksigner.jobs.states import JobStatus
from bulksigner.operations.people import Person
from bulksigner.pipeline.tasks import CheckTask, SignTask
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import EventRow, JobRow
from bulksigner.testing.files import pdf_file
from bulksigner.testing.harness import Harness
from bulksigner.testing.rows import new_birth

OPERATOR = Person("operator", "ApiKey")
FIRST, SECOND = pdf_file(pages=1), pdf_file(pages=2)
_EVENTS = Prepared(EventRow.select(EventRow.event_type, EventRow.facts).order_by(EventRow.id))


def events(harness: Harness, event_type: str) -> list[dict[str, Any]]:
    """Return the facts of each event of a type."""
    store = harness.service.store
    rows = store.read(lambda: store.execute(_EVENTS).rows)
    return [json.loads(facts) for kind, facts in rows if kind == event_type]


def at(harness: Harness, stage: str, act: Callable[[], object]) -> None:
    """Do something once when the next job is being signed (`sign`: it is staged) or checked (`check`: Verifying)."""
    harness.before_task({"sign": SignTask, "check": CheckTask}[stage], lambda _: act())


def drop_handbacks(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each hand-back lost, as by a crash right after the commit."""
    monkeypatch.setattr(harness.service.watchers, "offer_again", lambda _: False)


def diverge(harness: Harness, monkeypatch: pytest.MonkeyPatch, stage: str = "sign") -> Job:
    """Have a job complete whose input was rewritten, with the rewritten file in its folder."""
    harness.drop("a.pdf", FIRST)
    at(harness, stage, lambda: harness.drop("a.pdf", SECOND))
    harness.service.watchers.step()
    assert harness.service.worker.step() == 1
    [job] = harness.jobs()
    assert (job.status, job.input_diverged, job.error_code) == (JobStatus.COMPLETED, True, "job.input-diverged")
    assert (harness.input_folder() / "a.pdf").read_bytes() == SECOND
    return job


def test_a_file_rewritten_while_it_is_queued_is_signed_as_it_is_when_staged(harness: Harness) -> None:
    """PIPE-111, PIPE-91: nothing holds it until then; one job, no divergence."""
    harness.drop("a.pdf", FIRST)
    harness.service.watchers.step()
    harness.drop("a.pdf", SECOND)
    harness.service.watchers.step()
    [job] = harness.run_until_idle()
    assert (job.status, job.staged_length, job.input_diverged) == (JobStatus.COMPLETED, len(SECOND), False)
    assert list(harness.input_folder().iterdir()) == []
    assert events(harness, "InputDiverged") == []


@pytest.mark.parametrize("stage", ["sign", "check"])
def test_a_rewritten_input_is_kept_told_of_and_signed_as_its_own_job(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """PIPE-92 to PIPE-95, PIPE-111: staged or verifying; the second output has the name of the first."""
    first = diverge(harness, monkeypatch, stage)
    assert harness.history(first)[-1].message.endswith("job.input-diverged: the input was left in place (rewritten)")
    assert events(harness, "InputDiverged") == [
        {
            "jobId": first.id,
            "fileName": "a.pdf",
            "code": "job.input-diverged",
            "reason": "rewritten",
            "profile": "default",
        }
    ]
    [_, second] = harness.run_until_idle()
    assert (second.status, second.error_code) == (JobStatus.FAILED, "promote.output-exists")
    assert (harness.input_folder() / "a.pdf").read_bytes() == SECOND
    harness.output("a.signed.pdf").unlink()
    harness.retry(second)
    third = harness.run_until_idle()[-1]
    assert (third.status, third.input_diverged) == (JobStatus.COMPLETED, False)
    assert list(harness.input_folder().iterdir()) == []


def test_the_second_job_completes_once_the_first_output_was_taken(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-53, PIPE-95: the name rule does not stand in the way of a hand-back."""
    diverge(harness, monkeypatch)
    harness.output("a.signed.pdf").unlink()
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED] * 2
    assert events(harness, "FileAlreadyProcessed") == []


@pytest.mark.parametrize("reason", ["held", "unreadable"])
def test_an_input_that_cannot_be_compared_is_left_and_never_signed_twice(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """PIPE-91, PIPE-93, PIPE-111: nothing is broken or forced; what was signed already is not signed again."""
    monkeypatch.setattr(importlib.import_module("bulksigner.pipeline.steps.clean"), "WAITS_SECONDS", (0.0,) * 3)
    folder: Any = next(iter(harness.service.folders)).folder
    monkeypatch.setattr(folder, "_sleep", lambda _: None)
    holds: list[Any] = []

    def refuse(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    def spoil() -> None:
        if reason == "held":
            holds.append(folder.hold("a.pdf"))
        else:
            monkeypatch.setattr(durable, "measure_identified", refuse)

    path = harness.drop("a.pdf", FIRST)
    at(harness, "check", spoil)
    [job] = harness.run_until_idle()
    assert (job.status, job.input_diverged) == (JobStatus.COMPLETED, True)
    [event] = events(harness, "InputDiverged")
    assert event["reason"].startswith({"held": "held by another lease: ", "unreadable": "unreadable: "}[reason])
    for hold in holds:
        hold.release()
    harness.service.watchers.step()
    [folder_report] = expose(harness.service).rescan(None, OPERATOR).folders
    assert (folder_report.enqueued, folder_report.ignored) == (0, 1)
    assert path.read_bytes() == FIRST
    assert len(harness.jobs()) == 1


@pytest.mark.parametrize("way", ["enumeration", "rescan"])
def test_a_hand_back_that_was_lost_is_made_up_for(harness: Harness, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """PIPE-94, PIPE-53, PIPE-111: by the listing of the next start, or by a rescan before it."""
    drop_handbacks(harness, monkeypatch)
    diverge(harness, monkeypatch)
    harness.output("a.signed.pdf").unlink()
    if way == "rescan":
        [report] = expose(harness.service).rescan("inbox", OPERATOR).folders
        assert (report.enqueued_files, report.already_processed) == (["a.pdf"], 0)
    else:
        harness.restart()
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED] * 2
    assert list(harness.input_folder().iterdir()) == []


@pytest.mark.parametrize("way", ["enumeration", "rescan"])
def test_a_hand_back_meets_the_rule_of_names_for_other_jobs(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """PIPE-53, PIPE-111: exempt from the job that left it only; the file and its name are accounted for."""
    drop_handbacks(harness, monkeypatch)
    diverge(harness, monkeypatch)
    other = new_birth("A.PDF", original_path="/elsewhere/A.PDF", input_folder="elsewhere", source=JobSource.RETRY)
    [born] = harness.service.queue.enqueue([other])
    assert born.job is not None
    if way == "rescan":
        [report] = expose(harness.service).rescan("inbox", OPERATOR).folders
        assert (report.already_processed, report.enqueued, report.errors) == (1, 0, 0)
    else:
        harness.restart()
        harness.service.watchers.step()
    refused = harness.jobs()[-1]
    assert (refused.status, refused.error_code) == (JobStatus.FAILED, "file.already-processed")
    assert (harness.root / "error" / refused.id / "a.pdf").read_bytes() == SECOND
    [event] = events(harness, "FileAlreadyProcessed")
    assert (event["jobId"], event["holderJobId"]) == (refused.id, born.job.id)


def test_the_correction_of_an_upload_is_sent_again_once_its_holder_is_deleted(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-54, PIPE-94, PIPE-111: a landing copy is never handed back, and the warning says what to do."""
    first = harness.upload("a.pdf", FIRST)
    at(harness, "sign", lambda: Path(first.original_path).write_bytes(SECOND))
    [first] = harness.run_until_idle()
    assert (first.status, first.input_diverged) == (JobStatus.COMPLETED, True)
    assert "delete the job that has its name" in caplog.text
    assert Path(first.original_path).read_bytes() == SECOND
    with pytest.raises(NotAllowed, match=first.id) as refused:
        harness.upload("a.pdf", SECOND)
    assert refused.value.code == "file.already-processed"
    assert len(harness.jobs()) == 1
    store = harness.service.store
    deletion = Prepared(peewee.ModelDelete(JobRow).where(JobRow.id == first.id))
    store.write(lambda: store.execute(deletion))
    harness.output("a.signed.pdf").unlink()
    harness.upload("a.pdf", SECOND)
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED]


def test_the_comparison_alone_protects_an_input(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-114: with holds that hold nothing, rewritten bytes are still never removed, nor are others of its length."""

    class Nothing:
        def release(self) -> None:
            """Hold nothing."""

    folder: Any = next(iter(harness.service.folders)).folder
    monkeypatch.setattr(folder, "hold", lambda _: Nothing())
    same_length = FIRST[:-1] + b"\r"
    path = harness.drop("a.pdf", FIRST)
    at(harness, "check", lambda: path.write_bytes(same_length))
    harness.service.watchers.step()
    harness.service.worker.step()
    assert path.read_bytes() == same_length
    assert [job.input_diverged for job in harness.jobs()] == [True]
