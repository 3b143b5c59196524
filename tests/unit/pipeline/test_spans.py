"""What a job that completes leaves for the statistics, and that no other ending leaves anything."""

from __future__ import annotations

import datetime
import time
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import StepFailed
from bulksigner.jobs.model import Job, Owner, utc_now
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.pipeline.spans import SIGNING, VERIFICATION, spans_of
from bulksigner.pipeline.work import Work
from bulksigner.statistics.timings import Spans

SECOND = datetime.timedelta(seconds=1)


@attrs.define
class Kept:
    """The spans that were written, in the act under way."""

    rig: Any
    rows: list[tuple[Job, Spans]] = attrs.field(factory=list)

    def __call__(self, job: Job, spans: Spans) -> None:
        assert self.rig.store.is_writing
        self.rows.append((job, spans))


@pytest.fixture
def kept(rig: Any) -> Kept:
    rig.record_timings = Kept(rig)
    return rig.record_timings


def test_a_completed_job_leaves_its_stages(rig: Any, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """STA-01 to STA-06: signing and check are the calls alone, output is promotion and the end of the input."""
    ticks = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    rig.run()
    [(job, spans)] = kept.rows
    assert job.status is JobStatus.COMPLETED
    assert job.completed_at is not None
    assert spans.method == "Local"
    # One tick at each end of what is measured. The check goes on beside the record of the signature, whose looks at the
    # clock fall into it.
    assert (spans.signing_ms, spans.output_ms) == (1000, 2000)
    assert spans.verification_ms is not None
    assert spans.verification_ms >= 1000
    assert spans.queue_wait_ms is not None
    assert spans.total_ms == 3000 + spans.verification_ms + spans.queue_wait_ms


def test_a_stage_that_did_not_happen_is_null(rig: Any, kept: Kept) -> None:
    """STA-04, STA-08: no sample of a check that was not wanted, and a short stage is 0 and not null."""
    rig.change_profile(verify=False)
    rig.run()
    [(_, spans)] = kept.rows
    assert spans.verification_ms is None
    assert spans.signing_ms is not None
    work = Work(rig.parts, kept.rows[0][0], rig.profile)
    work.seconds = {SIGNING: 0.0001, VERIFICATION: 0.0}
    short = spans_of(work)
    assert (short.signing_ms, short.verification_ms, short.output_ms) == (0, 0, None)


def test_the_wait_is_a_difference_of_stored_times(rig: Any, kept: Kept) -> None:
    """STA-01, STA-07, STA-09: from the last enqueue to the claim; a clock that was set back counts as no wait."""
    job = rig.drop()
    claimed = attrs.evolve(job, queued_at=utc_now(), updated_at=utc_now() + 90 * SECOND)
    assert spans_of(Work(rig.parts, claimed, rig.profile)).queue_wait_ms == pytest.approx(90_000, abs=1000)
    back = attrs.evolve(job, queued_at=utc_now(), updated_at=utc_now() - 90 * SECOND)
    assert spans_of(Work(rig.parts, back, rig.profile)).queue_wait_ms == 0


def test_later_changes_of_the_row_do_not_move_the_claim(rig: Any) -> None:
    """STA-01: the claim is when the job was taken, however often it was written since."""
    rig.drop()
    [changed] = Queue(rig.store).claim(1, Owner("here", "this-life"))
    work = Work(rig.parts, changed.job, rig.profile)
    before = work.claimed_at
    work.job = Jobs(rig.store, lambda: utc_now() + 60 * SECOND).record(work.job, message="x")
    assert work.claimed_at == before == changed.job.updated_at


@pytest.mark.parametrize("ending", ["failed", "killed"])
def test_any_other_ending_leaves_nothing(rig: Any, kept: Kept, ending: str) -> None:
    """STA-11, STA-99: a failure discards the spans, and so does the end of the process in the middle."""

    def end(_: object) -> None:
        raise StepFailed("no") if ending == "failed" else KeyboardInterrupt

    rig.engine.act = end
    if ending == "failed":
        assert rig.run().status is JobStatus.FAILED
    else:
        job = rig.drop()
        with pytest.raises(KeyboardInterrupt):
            rig.worker().step()
        assert rig.job(job).status is JobStatus.PROCESSING
    assert kept.rows == []


def test_without_statistics_nothing_is_kept(rig: Any) -> None:
    """STA-12: the job completes all the same."""
    assert rig.record_timings is None
    assert rig.run().status is JobStatus.COMPLETED


def test_timings_that_cannot_be_written_do_not_complete_the_job(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """STA-11: one transaction; without the row there is no Completed either, and the end is tried again."""
    calls = 0

    def record(job: Job, spans: Spans) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError("no room")

    rig.record_timings = record
    monkeypatch.setattr("bulksigner.pipeline.ending.WAITS_SECONDS", (0.0,))
    job = rig.run()
    assert (job.status, calls) == (JobStatus.COMPLETED, 2)
    assert len([line for line in rig.history(job) if line.startswith("Completed")]) == 1
