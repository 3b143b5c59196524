"""The loop and its slots: claiming, pausing, dying, stopping."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from bulksigner.contract.errors import StepFailed
from bulksigner.jobs.states import JobStatus
from bulksigner.records.errors import CommitUnknown, StoreFailed
from bulksigner.records.store import Store
from bulksigner.records.tables import PipelineStateRow

LIMIT_SECONDS = 10.0


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def set_paused(rig: Any, is_paused: bool) -> None:
    rig.store.write(lambda: PipelineStateRow.update(paused=is_paused).bind(rig.store.database).execute())


class Gate:
    """Keeps the engine's calls waiting until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.waiting = 0

    def __call__(self, _: object) -> None:
        self.waiting += 1
        assert self.opened.wait(LIMIT_SECONDS)


@pytest.fixture
def started(rig: Any) -> Any:
    """Start workers by hand; they are stopped at the end."""
    workers = []

    def start(**options: Any) -> Any:
        worker = rig.worker(**options)
        workers.append(worker)
        worker.start()
        return worker

    yield start
    for worker in workers:
        worker.stop(LIMIT_SECONDS)


def test_a_job_enqueued_while_idle_is_claimed_at_once(rig: Any, started: Any) -> None:
    """PERF-10, PIPE-64: by the wake signal, with a poll interval of a minute; the best of three tells the path."""
    claimed_at: list[float] = []
    rig.announce = lambda changed: claimed_at.append(time.monotonic()) if changed.change.event == "claim" else None
    started()
    latencies = []
    for number in range(3):
        time.sleep(0.05)
        job = rig.drop(f"{number}.rem")
        began = time.monotonic()
        wait_for(lambda job=job: rig.job(job).status is JobStatus.COMPLETED)  # type: ignore[misc]
        latencies.append(claimed_at[number] - began)
    assert min(latencies) < 0.05


def test_no_more_jobs_are_claimed_than_slots_are_free(rig: Any, started: Any) -> None:
    """PIPE-64, PIPE-67: the rest waits in the queue, and is taken when a slot frees."""
    rig.engine.act = gate = Gate()
    jobs = [rig.drop(f"{number}.rem") for number in range(5)]
    worker = started(slots=2)
    wait_for(lambda: gate.waiting == 2)
    statuses = [rig.job(job).status for job in jobs]
    assert statuses == [JobStatus.PROCESSING] * 2 + [JobStatus.QUEUED] * 3
    assert worker.jobs_in_flight == 2
    gate.opened.set()
    wait_for(lambda: all(rig.job(job).status is JobStatus.COMPLETED for job in jobs))


def test_a_failing_job_never_affects_another(rig: Any, started: Any) -> None:
    """PIPE-67: not even one whose plugin calls exit, as often as there are slots."""

    def act(task: Any) -> None:
        if task.file_name.startswith("bad"):
            raise SystemExit(1)

    rig.engine.act = act
    jobs = [rig.drop(name) for name in ("bad1.rem", "bad2.rem", "bad3.rem", "good.rem")]
    worker = started(slots=1)
    wait_for(lambda: rig.job(jobs[3]).status is JobStatus.COMPLETED)
    assert [rig.job(job).error_code for job in jobs] == ["sign.failed"] * 3 + [None]
    assert worker.fault is None


def test_a_pause_stops_the_next_claim_only(rig: Any, started: Any) -> None:
    """PIPE-68, CLU-55: the flag is read each turn; the job under way goes on."""
    rig.engine.act = gate = Gate()
    first = rig.drop("first.rem")
    started(slots=2)
    wait_for(lambda: gate.waiting == 1)
    set_paused(rig, True)
    second = rig.drop("second.rem")
    gate.opened.set()
    wait_for(lambda: rig.job(first).status is JobStatus.COMPLETED)
    time.sleep(0.05)
    assert rig.job(second).status is JobStatus.QUEUED
    set_paused(rig, False)
    rig.queue.wake.set()
    wait_for(lambda: rig.job(second).status is JobStatus.COMPLETED)


def test_nothing_is_claimed_while_the_database_is_anothers(
    rig: Any, started: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """DEP-26, API-99: asked each turn, said once, and over as soon as the reason is."""
    reasons: list[str | None] = ["lost to host b"]
    asked = []

    def find_hindrance() -> str | None:
        asked.append(reasons[0])
        return reasons[0]

    with caplog.at_level(logging.INFO, "bulksigner.pipeline.worker"):
        job = rig.drop()
        worker = started(poll_interval_seconds=0.01, find_hindrance=find_hindrance)
        wait_for(lambda: len(asked) > 3)
        assert rig.job(job).status is JobStatus.QUEUED
        assert worker.fault == "lost to host b"
        reasons[0] = None
        wait_for(lambda: rig.job(job).status is JobStatus.COMPLETED)
    assert worker.fault is None
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name.endswith("worker")]
    assert told == [("CRITICAL", "No more jobs are claimed: lost to host b"), ("INFO", "Jobs are claimed again")]


def test_a_lost_database_is_noticed_while_all_slots_are_busy(rig: Any, started: Any) -> None:
    """DEP-26: one long job must not keep a lock lost that could be taken back."""
    rig.engine.act = gate = Gate()
    rig.drop()
    reasons: list[str | None] = [None]
    worker = started(slots=1, poll_interval_seconds=0.01, find_hindrance=lambda: reasons[0])
    wait_for(lambda: gate.waiting == 1)
    reasons[0] = "lost to host b"
    wait_for(lambda: worker.fault == "lost to host b")
    gate.opened.set()


def test_the_loop_outlives_a_store_that_is_away(
    rig: Any, started: Any, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-64, OPS-156: claims again when it is back, and says each once."""
    rig.vex(("claim",), [StoreFailed("away")] * 4)
    with caplog.at_level(logging.INFO, "bulksigner.pipeline.worker"):
        worker = started(poll_interval_seconds=0.01)
        job = rig.drop()
        wait_for(lambda: rig.job(job).status is JobStatus.COMPLETED)
    told = [record.getMessage() for record in caplog.records if record.name.endswith("worker")]
    assert told == ["Nothing can be claimed; trying again every 0.01 s", "Claiming works again"]
    assert worker.fault is None


def test_a_claim_that_was_committed_without_an_answer_is_found_again(rig: Any, started: Any, monkeypatch: Any) -> None:
    """DEP-29: its jobs are this life's, in no slot, with the key not used; they are run, not left until a restart."""
    jobs = [rig.drop("a.rem"), rig.drop("b.rem")]
    rig.vex(("claim",), [CommitUnknown("the answer was lost")], is_committed=True)
    started(slots=3, poll_interval_seconds=0.01)
    wait_for(lambda: all(rig.job(job).status is JobStatus.COMPLETED for job in jobs))
    assert len(rig.engine.tasks) == 2


def test_a_thread_that_dies_once_is_started_again(rig: Any, started: Any, monkeypatch: Any) -> None:
    """OPS-22: and the row stays green."""
    rig.vex(("claim",), [KeyboardInterrupt()])
    worker = started()
    job = rig.drop()
    wait_for(lambda: rig.job(job).status is JobStatus.COMPLETED)
    assert worker.fault is None


def test_a_thread_that_dies_twice_is_a_fault(rig: Any, started: Any, monkeypatch: Any) -> None:
    """OPS-22, API-99: the loop is not started a third time, and the fault says what to do."""
    rig.vex(("claim",), [KeyboardInterrupt()] * 2)
    worker = started()
    wait_for(lambda: worker.fault is not None)
    assert worker.fault == "the pipeline died twice (KeyboardInterrupt); restart the service"


def test_jobs_that_end_the_loop_twice_stop_the_claiming(rig: Any, started: Any) -> None:
    """OPS-22: what was claimed by then is run to its end, and no more is."""

    def die(_: object) -> None:
        raise KeyboardInterrupt

    rig.announce = die
    jobs = [rig.drop(f"{number}.rem") for number in range(4)]
    worker = started(slots=1)
    wait_for(lambda: worker.fault is not None)
    assert worker.stop(LIMIT_SECONDS) == 0
    assert [rig.job(job).status for job in jobs[2:]] == [JobStatus.QUEUED] * 2


def test_a_job_that_is_stuck_in_a_step_is_a_fault_while_it_lasts(rig: Any, started: Any, monkeypatch: Any) -> None:
    """OPS-22, API-99: the row names job and step; the slots that are free go on."""
    released = threading.Event()
    rig.engine.act = lambda _: released.wait()
    worker = started()
    job = rig.drop()
    wait_for(lambda: rig.engine.tasks)
    assert worker.fault is None
    monkeypatch.setattr("bulksigner.pipeline.worker.STEP_LIMIT_SECONDS", 0.0)
    assert f"job {job.id} has been in step sign" in (worker.fault or "")
    released.set()
    wait_for(lambda: rig.job(job).status is JobStatus.COMPLETED)
    wait_for(lambda: worker.fault is None)


def test_a_stop_drains_what_is_under_way(rig: Any) -> None:
    """CLU-04, OPS-21: claims no more and waits for the rest."""
    rig.engine.act = gate = Gate()
    first, second = rig.drop("1.rem"), rig.drop("2.rem")
    worker = rig.worker(slots=1)
    worker.start()
    wait_for(lambda: gate.waiting == 1)
    threading.Timer(0.1, gate.opened.set).start()
    assert worker.stop(LIMIT_SECONDS) == 0
    assert rig.job(first).status is JobStatus.COMPLETED
    assert rig.job(second).status is JobStatus.QUEUED
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pipeline-")]


def test_a_stop_counts_what_the_grace_was_too_short_for(rig: Any) -> None:
    """CLU-04: the job is left as it is, for the sweep of the next start."""
    rig.engine.act = gate = Gate()
    job = rig.drop()
    worker = rig.worker()
    worker.start()
    wait_for(lambda: gate.waiting == 1)
    began = time.monotonic()
    assert worker.stop(0.1) == 1
    assert time.monotonic() - began < 1.0
    assert rig.job(job).status is JobStatus.PROCESSING
    gate.opened.set()
    wait_for(lambda: worker.jobs_in_flight == 0)


def test_a_job_claimed_while_the_stop_begins_is_run_and_not_forgotten(rig: Any) -> None:
    """CLU-04, CLU-09: after a drained stop nothing is in flight."""
    is_claiming, may_answer = threading.Event(), threading.Event()

    class Slow:
        """The store, slow to answer a claim that found something."""

        shares_commits = True

        def submit(self, act: Any, done: Any) -> None:
            def answer(value: Any, error: BaseException | None) -> None:
                if act.label == "claim" and value:
                    is_claiming.set()
                    assert may_answer.wait(LIMIT_SECONDS)
                done(value, error)

            rig.store.submit(act, answer)

        def submit_all(self, acts: Any) -> None:
            Store.submit_all(cast("Store", self), acts)

    rig.moody = Slow()
    job = rig.drop()
    worker = rig.worker()
    worker.start()
    assert is_claiming.wait(LIMIT_SECONDS)
    threading.Timer(0.1, may_answer.set).start()
    assert worker.stop(LIMIT_SECONDS) == 0
    assert rig.job(job).status is JobStatus.COMPLETED


def test_jobs_run_side_by_side_without_mixing(rig: Any, started: Any) -> None:
    """PIPE-67: each in its folder, with its own content, whether it succeeds or not."""

    def act(task: Any) -> None:
        if int(task.file_name.partition(".")[0]) % 3 == 0:
            raise StepFailed("every third fails")

    rig.engine.act = act
    jobs = [rig.drop(f"{number}.rem", b"%d" % number) for number in range(24)]
    started(slots=4)
    wait_for(lambda: not rig.jobs.in_flight() and rig.jobs.counts()[JobStatus.QUEUED] == 0)
    for number, job in enumerate(rig.job(job) for job in jobs):
        assert job.status is (JobStatus.FAILED if number % 3 == 0 else JobStatus.COMPLETED)
        if job.status is JobStatus.COMPLETED:
            assert (rig.roots.output / f"{number}.rem.p7m").read_bytes() == b"signed %d" % number
