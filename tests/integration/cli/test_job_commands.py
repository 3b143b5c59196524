"""`bulksigner jobs delete` as an operator runs it, beside a service that has the same database open."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from bulksigner.cli import main
from bulksigner.jobs.states import JobStatus
from bulksigner.pipeline.tasks import SignTask
from bulksigner.records.engines import EngineKind
from bulksigner.records.event_log import EventFilter, event_page

ENGINES = pytest.mark.parametrize("kind", list(EngineKind), ids=lambda kind: kind.value)


@pytest.fixture
def on(make_harness: Any, request: pytest.FixtureRequest) -> Callable[[EngineKind], Any]:
    """Make a service on an engine."""

    def make(kind: EngineKind) -> Any:
        return make_harness(
            database_url=request.getfixturevalue("postgres_url") if kind is EngineKind.POSTGRESQL else None
        )

    return make


@pytest.fixture
def delete(run: Any) -> Callable[..., Any]:
    """Run the verb as a process, under the variables of a service."""

    def act(harness: Any, *arguments: str) -> Any:
        return run("jobs", "delete", *arguments, folder=harness.folder, **harness.environ)

    return act


def look(harness: Any) -> None:
    for _ in range(3):
        harness.service.watchers.step()


def told(harness: Any) -> list[str]:
    events = event_page(harness.service.store, EventFilter(("JobDeleted",))).items
    return [event.message for event in events]


@ENGINES
def test_a_completed_job_goes_and_its_name_is_free(kind: EngineKind, on: Any, delete: Any) -> None:
    """PIPE-52, PIPE-101, SEC-74: what went is said, the event names who and why, the same name is signed again."""
    harness = on(kind)
    harness.drop("folha.rem", b"first")
    [job] = harness.run_until_idle()
    output = harness.output("folha.rem.p7m")
    done = delete(harness, job.id, "--yes", "--reason", "name is needed again")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"Deleted job {job.id} ('folha.rem', Completed).",
        "  removed  job and history",
        f"  removed  output {output}",
    ]
    assert told(harness) == [
        f"Job {job.id} ('folha.rem', Completed) deleted by operator (command line). Removed: job and history, output "
        f"{output}. Reason: name is needed again."
    ]
    assert harness.jobs() == []
    harness.drop("folha.rem", b"second")
    assert [one.status for one in harness.run_until_idle()] == [JobStatus.COMPLETED]


@ENGINES
def test_a_job_that_waits_is_canceled_and_its_input_is_kept(kind: EngineKind, on: Any, delete: Any) -> None:
    """PIPE-101: never staged, so it is a new arrival, which the command says and the running service takes."""
    harness = on(kind)
    path = harness.drop("folha.rem", b"first")
    look(harness)
    [job] = harness.jobs()
    done = delete(harness, job.id, "--yes")
    assert done.code == 0
    assert f"Deleted job {job.id} ('folha.rem', Queued, canceled to delete it)." in done.out
    assert f"  kept     input {path}: never staged by this job" in done.out
    assert "a running service takes it within two poll intervals" in done.out
    assert path.exists()
    # Its watcher has seen the file and left it; nothing but the news of the deletion makes it look again.
    look(harness)
    assert harness.jobs() == []
    assert [one.status for one in harness.run_until_idle()] == [JobStatus.COMPLETED]


def test_a_job_under_way_is_refused_and_goes_on(on: Any, delete: Any) -> None:
    """PIPE-98, PIPE-101: Processing and Verifying cannot be deleted; nothing is touched."""
    harness = on(EngineKind.SQLITE)
    answers: list[Any] = []
    harness.drop("folha.rem", b"first")
    harness.before_task(SignTask, lambda task: answers.append(delete(harness, task.job_id, "--yes")))
    [job] = harness.run_until_idle()
    [refused] = answers
    assert (refused.code, refused.out) == (1, "")
    assert f"Job {job.id} is Processing" in refused.err
    assert job.status is JobStatus.COMPLETED
    assert harness.outputs() == ["folha.rem.p7m"]


def test_nothing_goes_unless_it_is_confirmed(on: Any, delete: Any) -> None:
    """PIPE-101: without a terminal only --yes counts; a job nobody has is refused first."""
    harness = on(EngineKind.SQLITE)
    harness.drop("folha.rem", b"first")
    [job] = harness.run_until_idle()
    silent = delete(harness, job.id)
    assert (silent.code, silent.out) == (1, "")
    assert "--yes" in silent.err
    unknown = delete(harness, "no-such-job", "--yes")
    assert (unknown.code, unknown.err) == (1, "There is no job no-such-job.\n")
    long = delete(harness, job.id, "--yes", "--reason", "x" * 513)
    assert (long.code, "512 are allowed" in long.err) == (1, True)
    assert len(harness.jobs()) == 1
    assert told(harness) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("typed", "is_meant"), [("y", True), ("Yes", True), ("n", False), ("", False), ("yep", False)])
def test_a_terminal_is_asked(on: Any, environment: dict[str, str], typed: str, is_meant: bool) -> None:
    """PIPE-101: the job is shown with its state first; only a plain yes deletes."""
    harness = on(EngineKind.SQLITE)
    harness.drop("folha.rem", b"first")
    [job] = harness.run_until_idle()
    ours, theirs = pty.openpty()
    os.write(ours, f"{typed}\n".encode())
    done = subprocess.run(
        [sys.executable, "-m", "bulksigner", "jobs", "delete", job.id],
        cwd=harness.folder,
        env=environment | harness.environ,
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=60,
    )
    os.close(ours)
    os.close(theirs)
    assert f"Job {job.id} ('folha.rem', Completed)" in done.stdout
    assert done.returncode == (0 if is_meant else 1), done.stderr
    assert ("Nothing was deleted." in done.stdout) is not is_meant
    assert len(harness.jobs()) == (0 if is_meant else 1)


def test_a_database_that_is_not_there_is_not_made(
    make_harness: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PIPE-101: a command in the wrong folder says so instead of answering from an empty database."""
    harness = make_harness()
    for name, value in harness.environ.items():
        monkeypatch.setenv(name, value)
    database = harness.root / "db" / "bulksigner.db"
    if harness._service is not None:
        harness.close()
        database.unlink()
    assert main(["jobs", "delete", "any", "--yes"]) == 1
    assert "is not there" in capsys.readouterr().err
    assert not database.exists()
