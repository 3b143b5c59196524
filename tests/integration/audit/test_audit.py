"""An audit names every file that nothing accounts for, no other, and changes nothing (BEY-50)."""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner.audit import accounts
from bulksigner.audit.accounts import Account, Audit, Kind, Period, run_audit
from bulksigner.cli import main
from bulksigner.contract.errors import TemporaryFailure
from bulksigner.contract.signing import Format
from bulksigner.intake.names import mint_landing_name
from bulksigner.jobs import scanning
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.scanning import each_job
from bulksigner.jobs.states import JobStatus
from bulksigner.records.store import Store
from bulksigner.testing.files import pdf_file
from bulksigner.testing.rows import new_birth

EVER = Period()


def account(harness: Any, period: Period = EVER, *, hashes: bool = False) -> Account:
    service = harness.service
    return run_audit(Audit(service.store, service.folders, service.roots, hashes), period)


def told(found: Account) -> list[tuple[Kind, str]]:
    return [(one.kind, Path(one.path).name) for one in found.unaccounted]


@pytest.fixture
def worked(harness: Any) -> Any:
    """A service with a file signed, one that failed, and one that waits."""
    harness.drop("signed.rem", b"content")
    harness.drop("collected.rem", b"other content")
    harness.drop("broken.pdf", b"no PDF")
    harness.run_until_idle()
    harness.output("collected.rem.p7m").unlink()
    harness.drop("waiting.rem", b"more")
    harness.service.watchers.step()
    return harness


def test_ordinary_work_is_accounted_for(worked: Any) -> None:
    """BEY-50: signed, collected, failed and waiting files, and a folder set aside twice."""
    [failed] = [job for job in worked.jobs() if job.status is JobStatus.FAILED]
    (worked.root / "error" / f"{failed.id}-20260812T120000.000000Z").mkdir()
    found = account(worked, hashes=True)
    assert found.unaccounted == ()
    assert (found.outputs_present, found.outputs_collected) == (1, 1)
    assert found.jobs == {JobStatus.COMPLETED: 2, JobStatus.FAILED: 1, JobStatus.QUEUED: found.jobs[JobStatus.QUEUED]}


def test_a_retry_accounts_for_the_input_that_failed_before(worked: Any) -> None:
    """BEY-50: the same path, with the same content or one that was never staged."""
    [failed] = [job for job in worked.jobs() if job.status is JobStatus.FAILED]
    shutil.rmtree(worked.root / "error" / failed.id)
    worked.input_folder().joinpath("broken.pdf").write_bytes(pdf_file())
    worked.retry(failed)
    worked.run_until_idle()
    assert worked.output("broken.signed.pdf").exists()
    [loss] = account(worked).unaccounted
    assert (loss.kind, loss.job_id) == (Kind.INPUT, failed.id)
    # What was staged first is nowhere any more: the file that was signed is another one.
    assert "its input is gone" in loss.reason


def lose_failed(made: Any) -> tuple[Kind, str]:
    [failed] = [job for job in made.jobs() if job.status is JobStatus.FAILED]
    shutil.rmtree(made.root / "error" / failed.id)
    (made.input_folder() / "broken.pdf").unlink()
    return Kind.INPUT, "broken.pdf"


def lose_waiting(made: Any) -> tuple[Kind, str]:
    path = made.input_folder() / "gone.rem"
    birth = new_birth(path.name, original_path=str(path), input_folder="inbox", format=Format.CADES)
    Queue(made.service.store).enqueue([birth])
    return Kind.INPUT, "gone.rem"


def add(made: Any, folder: str, name: str) -> str:
    path = made.root / folder / name
    path.mkdir() if folder != "output" else path.write_bytes(b"?")
    return name


def change(made: Any, content: bytes) -> tuple[Kind, str]:
    path = made.output("signed.rem.p7m")
    path.write_bytes(content)
    return Kind.OUTPUT, path.name


def change_quietly(made: Any) -> tuple[Kind, str]:
    path = made.output("signed.rem.p7m")
    seen = path.stat()
    path.write_bytes(bytes(seen.st_size))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    return Kind.OUTPUT, path.name


def link(made: Any) -> tuple[Kind, str]:
    path = made.output("signed.rem.p7m")
    path.unlink()
    path.symlink_to("/etc/hostname")
    return Kind.OUTPUT, path.name


def land(made: Any) -> tuple[Kind, str]:
    name = mint_landing_name("a.pdf")
    (made.input_folder() / name).write_bytes(b"?")
    return Kind.LANDING, name


LOSSES: dict[str, Callable[[Any], tuple[Kind, str]]] = {
    "a failed job without input and copy": lose_failed,
    "a waiting job without input": lose_waiting,
    "an output of nobody": lambda made: (Kind.OUTPUT, add(made, "output", "stranger.pdf")),
    "an error folder of nobody": lambda made: (Kind.ERROR, add(made, "error", "0f8fad5b")),
    "a folder of nobody under way": lambda made: (Kind.PROCESSING, add(made, "processing", "0f8fad5b")),
    "a folder of a job that ended": lambda made: (Kind.PROCESSING, add(made, "processing", made.jobs()[0].id)),
    "an output that grew": lambda made: change(made, b"tampered with"),
    "an output of the same length": change_quietly,
    "an output that is a link": link,
    "an upload nobody acknowledged": land,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_is_named_and_nothing_else(worked: Any, loss: str) -> None:
    """BEY-50: one finding for one loss, with the file's name."""
    wanted = LOSSES[loss](worked)
    assert told(account(worked, hashes=True)) == [wanted]
    if loss == "an output of the same length":
        # Only a full read can tell.
        assert account(worked).unaccounted == ()


def test_what_retention_let_go_is_accounted_for(worked: Any) -> None:
    """BEY-50, STA-76: by its manifest, also one that a kill left half written; a failed removal accounts for none."""
    [failed] = [job for job in worked.jobs() if job.status is JobStatus.FAILED]
    lose_failed(worked)
    folder = worked.root / "retention"
    folder.mkdir()
    line = {"class": "Error", "jobId": failed.id, "result": "failed: Permission denied"}
    (folder / "20260812-120000-a.jsonl").write_text(json.dumps(line) + "\n")
    assert told(account(worked)) == [(Kind.INPUT, "broken.pdf")]
    text = json.dumps(line | {"result": "removed"}) + "\n" + '{"class": "Err'
    (folder / "20260812-130000-b.jsonl").write_text(text)
    assert account(worked).unaccounted == ()


def test_an_output_that_was_only_touched_is_no_loss(worked: Any) -> None:
    """BEY-50: where the time differs, the content decides."""
    os.utime(worked.output("signed.rem.p7m"))
    assert account(worked).unaccounted == ()


def test_only_the_period_counts(worked: Any) -> None:
    """BEY-50: by when a job was taken, or a file last written; the end is not part of it."""
    lose_failed(worked)
    name = add(worked, "output", "stranger.pdf")
    old = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    os.utime(worked.root / "output" / name, (old.timestamp(), old.timestamp()))
    now = datetime.datetime.now(datetime.UTC)
    year = datetime.timedelta(days=365)
    assert told(account(worked, Period(now - year))) == [(Kind.INPUT, "broken.pdf")]
    assert told(account(worked, Period(None, old + year))) == [(Kind.OUTPUT, "stranger.pdf")]
    assert account(worked, Period(old - year, old)).unaccounted == ()
    assert account(worked, Period(now - year)).jobs.total() >= 3
    assert account(worked, Period(None, old)).jobs.total() == 0


def test_a_file_that_moves_between_two_looks_is_no_finding(worked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEY-50: the service works on while an audit runs."""
    stranger = worked.root / "output" / "in-passing.pdf"
    stranger.write_bytes(b"?")
    add(worked, "output", "stranger.pdf")

    def pass_by(store: Store) -> Any:
        yield from each_job(store)
        looks.append(stranger.exists())

    looks: list[bool] = []
    original = accounts._Look.account

    def look(self: Any) -> Account:
        found = original(self)
        stranger.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(accounts, "each_job", pass_by)
    monkeypatch.setattr(accounts._Look, "account", look)
    assert told(account(worked)) == [(Kind.OUTPUT, "stranger.pdf")]
    assert looks == [True, False]


def test_what_cannot_be_seen_is_not_taken_for_accounted(worked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEY-50: a folder that does not answer leaves its files open."""

    def away(*_: object) -> None:
        raise TemporaryFailure("no route to the share")

    [failed] = [job for job in worked.jobs() if job.status is JobStatus.FAILED]
    shutil.rmtree(worked.root / "error" / failed.id)
    folder = worked.service.folders.landing.folder
    monkeypatch.setattr(type(folder), "look", away)
    monkeypatch.setattr(type(folder), "entries", away)
    found = account(worked)
    assert {one.kind for one in found.unaccounted} == {Kind.UNSEEN}
    assert all("no route to the share" in one.reason for one in found.unaccounted)
    assert failed.id in {one.job_id for one in found.unaccounted}


def test_every_job_is_read_once_in_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEY-50: on both engines, also where many were taken in the same moment."""
    at = datetime.datetime(2026, 8, 12, tzinfo=datetime.UTC)
    for number in range(3):
        queue = Queue(store, lambda number=number: at + datetime.timedelta(seconds=number))  # type: ignore[misc]
        queue.enqueue([new_birth(f"{number}-{index}") for index in range(500)])
    assert scanning._BATCH == 1000
    seen = [(job.created_at, job.id) for job in each_job(store)]
    assert len(seen) == 1500
    assert seen == sorted(set(seen))


def test_a_database_that_is_not_there_is_not_made(
    make_harness: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """BEY-50: run before the first start, perhaps by another account, it leaves nothing behind."""
    made = make_harness()
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    assert main(["audit"]) == 1
    assert "is not there. The first start of the service makes it" in capsys.readouterr().err
    assert not made.root.exists()


def test_the_command_tells_and_changes_nothing(
    worked: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """BEY-50, OPS-250: 0 while all is accounted for, else 1 with each file; as JSON too, and while the service runs."""

    def state() -> dict[str, int]:
        return {
            str(path): path.lstat().st_mtime_ns
            for name in ("output", "error", "processing", "landing")
            for path in (worked.root / name).rglob("*")
        }

    for name, value in worked.environ.items():
        monkeypatch.setenv(name, value)
    before = state()
    capsys.readouterr()
    assert main(["audit", "--hashes"]) == 0
    shown = capsys.readouterr().out
    assert "Jobs taken in all: " in shown
    assert shown.endswith("Everything is accounted for.\n")
    assert state() == before
    add(worked, "output", "stranger.pdf")
    assert main(["audit", "--from", "2026-01-01", "--to", "2100-01-01T00:00:00Z"]) == 1
    shown = capsys.readouterr().out
    assert "UNACCOUNTED  output" in shown
    assert "stranger.pdf: no job names it" in shown
    assert main(["audit", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in document["unaccounted"]] == ["output"]
    assert document["jobs"]["Failed"] == 1
    assert main(["audit", "--from", "yesterday"]) == 1
    assert "--from yesterday is no date" in capsys.readouterr().err
