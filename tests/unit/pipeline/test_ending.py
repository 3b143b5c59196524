"""How jobs end when the store, the disk or the announcement will not have it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import RaceLost, StepFailed
from bulksigner.files import durable
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.pipeline import ending
from bulksigner.pipeline.conductor import Conductor
from bulksigner.pipeline.ending import Ending
from bulksigner.pipeline.plan import LOCAL
from bulksigner.pipeline.tasks import CheckTask, DeliverTask, SignTask, StageTask
from bulksigner.pipeline.work import Work
from bulksigner.records.errors import CommitUnknown, StoreFailed
from bulksigner.records.tables import JobRow


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once."""
    monkeypatch.setattr(ending, "WAITS_SECONDS", (0.0,))


AWAY = StoreFailed("the database is away")
LOST = CommitUnknown("the answer was lost")


@pytest.mark.parametrize("event", ["complete", "fail"])
def test_an_end_that_the_store_refuses_is_tried_again(rig: Any, caplog: pytest.LogCaptureFixture, event: str) -> None:
    """OPS-156, PIPE-86: until it is taken; the log says so once."""
    moody = rig.vex((event,), [AWAY] * 5)
    if event == "fail":
        rig.engine.check_error = StepFailed("no")
    with caplog.at_level(logging.ERROR):
        job = rig.run()
    assert job.status is (JobStatus.FAILED if event == "fail" else JobStatus.COMPLETED)
    assert (moody.calls, len(caplog.records)) == (6, 1)
    assert [changed.change.event for changed in rig.told][-1] == event
    assert rig.roots.job_folder_names() == []


def test_a_step_whose_record_finds_no_space_says_so(rig: Any) -> None:
    """BEY-22, BEY-60: the job's text names what happened and the root to free, where the code alone says nothing."""
    rig.vex(("record",), [StoreFailed("SQLite could not commit; nothing was recorded: database or disk is full.")])
    job = rig.run()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "internal")
    assert job.error_message == (
        "internal: SQLite could not commit; nothing was recorded: database or disk is full. "
        f"Free space below {rig.roots.root}, then retry the job."
    )


def test_after_delivery_a_store_that_is_away_never_makes_a_failure(rig: Any) -> None:
    """PIPE-85: the record of completion is missing and nothing else, so it alone is repeated."""
    rig.vex(("complete",), [AWAY] * 3)
    job = rig.run()
    assert (job.status, len(rig.engine.tasks)) == (JobStatus.COMPLETED, 1)
    assert [path.name for path in rig.roots.output.iterdir()] == ["folha.rem.p7m"]


@pytest.mark.parametrize("event", ["complete", "fail"])
def test_an_end_that_was_committed_without_an_answer_is_no_lost_race(rig: Any, event: str) -> None:
    """DEP-29: found in the row, told to plugins, folder cleared; not recorded twice."""
    rig.vex((event,), [LOST], is_committed=True)
    if event == "fail":
        rig.engine.check_error = StepFailed("no")
    job = rig.run()
    assert job.status is (JobStatus.FAILED if event == "fail" else JobStatus.COMPLETED)
    assert [changed.change.event for changed in rig.told][-1] == event
    assert rig.roots.job_folder_names() == []
    assert len(rig.history(job)) == 4


def test_a_step_that_was_committed_without_an_answer_still_ends(rig: Any) -> None:
    """DEP-29: `sign` moved the row on; the job must not stay in Verifying until the next start."""
    rig.vex(("sign",), [LOST], is_committed=True)
    job = rig.run()
    assert job.status is JobStatus.FAILED
    assert "the answer was lost" in rig.history(job)[-1]


def test_a_job_that_another_writer_has_is_left_to_it(rig: Any) -> None:
    """PIPE-104: nothing is recorded and no folder is moved when a step finds the row changed."""
    other = Jobs(rig.store)

    def take(task: Any) -> None:
        other.transition(other.get(task.job_id), "interrupt", by=Actor.TAKEOVER, message="taken over")  # type: ignore[arg-type]

    rig.engine.act = take
    job = rig.run()
    assert rig.history(job)[-1] == "taken over"
    assert rig.roots.job_folder_names() == [job.id]


@pytest.mark.parametrize("kind", [StageTask, SignTask, CheckTask, DeliverTask])
def test_a_job_that_was_cleared_leaves_no_folder(rig: Any, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-104: whoever removed the row could not know what the worker would still put below processing or error."""
    perform = type(rig.engine).perform

    def clear_before(engine: Any, task: Any) -> Any:
        if isinstance(task, kind):
            rig.store.write(lambda: JobRow.delete().bind(rig.store.database).execute())
        return perform(engine, task)

    monkeypatch.setattr(type(rig.engine), "perform", clear_before)
    job = rig.drop()
    assert rig.worker().step() == 1
    assert rig.jobs.get(job.id) is None
    assert [*rig.roots.processing.iterdir(), *rig.roots.error.iterdir()] == []


def test_a_completion_that_another_writer_forestalled_is_not_forced(rig: Any) -> None:
    """PIPE-04: the loser records nothing."""

    def settle() -> Iterator[BaseException]:
        [job] = rig.jobs.in_flight()
        rig.jobs.transition(job, "interrupt", by=Actor.TAKEOVER, message="taken over")
        yield RaceLost("lost")

    rig.vex(("complete",), settle())
    job = rig.run()
    assert job.status is JobStatus.FAILED
    assert rig.history(job)[-1] == "taken over"


def test_a_stop_ends_the_waiting_for_the_store(rig: Any, caplog: pytest.LogCaptureFixture) -> None:
    """CLU-04: the job stays in flight for the sweep, and the log is loud about it."""
    stopping = threading.Event()
    stopping.set()
    moody = rig.vex(("fail",), [AWAY] * 99)
    conductor = Conductor()
    job = rig.drop()
    [claimed] = rig.queue.claim(1, attrs.evolve(rig.worker()._owner))
    with caplog.at_level(logging.CRITICAL):
        ending_of_job = Ending(stopping, conductor.pause).fail(Work(rig.parts, claimed.job), LOCAL[1], StepFailed("no"))
        conductor.run(ending_of_job)
    assert moody.calls == 1
    assert rig.job(job).status is JobStatus.PROCESSING
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]


def test_a_folder_that_cannot_be_moved_does_not_block_the_status(rig: Any, monkeypatch: Any) -> None:
    """PIPE-86: logged, and the job is Failed."""

    def refuse(job_id: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rig.roots, "fail_job_folder", refuse)
    rig.engine.check_error = StepFailed("no")
    assert rig.run().status is JobStatus.FAILED


def test_a_folder_that_cannot_be_cleared_does_not_block_completion(rig: Any, monkeypatch: Any) -> None:
    """PIPE-84: the next start clears it (CLU-87)."""

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(durable, "remove_folder", refuse)
    job = rig.run()
    assert job.status is JobStatus.COMPLETED
    assert rig.roots.job_folder_names() == [job.id]


def test_the_text_of_a_failure_is_scrubbed_and_bounded(rig: Any) -> None:
    """SEC-57, PIPE-86: before it is stored anywhere."""
    rig.engine.check_error = StepFailed("hush " + "x" * 10_000)
    job = rig.run()
    assert str(job.error_message).startswith("verify.failed: *** xxx")
    assert len(str(job.error_message)) < 4100


def test_a_disk_error_is_told_with_its_place(rig: Any) -> None:
    """PIPE-86: what broke, and where."""

    def fail(task: Any) -> None:
        raise OSError(28, "No space left on device", str(Path("/disk/x")))

    rig.engine.act = fail
    job = rig.run()
    assert "No space left on device" in str(job.error_message)
    assert "/disk/x" in str(job.error_message)
