"""The sweep of a start, on both engines: what it ends, keeps, clears and reports."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner.files.work import WorkRoots, open_place
from bulksigner.jobs import listing
from bulksigner.jobs.model import Job, Owner, utc_now
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.store import Store
from bulksigner.recovery.sweep import INTERRUPTED, sweep
from bulksigner.testing.rows import new_birth

OUTPUT = b"a signed file"


@pytest.fixture
def roots(tmp_path: Path) -> WorkRoots:
    """Work roots with everything in place."""
    roots = WorkRoots(tmp_path / "work")
    roots.prepare()
    return roots


@pytest.fixture
def jobs(store: Store) -> Jobs:
    """The jobs of the store."""
    return Jobs(store)


@pytest.fixture
def reach(store: Store, jobs: Jobs, roots: WorkRoots) -> Callable[..., Job]:
    """Bring a new job to a status as a worker of an earlier life does, with its folder."""

    def act(status: JobStatus, name: str = "folha.pdf", *, has_folder: bool = True) -> Job:
        queue = Queue(store)
        [born] = queue.enqueue([new_birth(name)])
        assert born.job is not None
        if status is JobStatus.QUEUED:
            return born.job
        [claimed] = queue.claim(1, Owner("here", "an earlier life"))
        job = claimed.job
        if has_folder:
            open_place(roots.job_folder(job.id) / name).write_bytes(b"staged")
        job = jobs.record(job, staged_at=utc_now(), sign_call_started_at=utc_now())
        if status is not JobStatus.PROCESSING:
            job = jobs.transition(job, "sign", by=Actor.WORKER, message="Signed").job
        if status is JobStatus.COMPLETED:
            job = jobs.transition(job, "complete", by=Actor.WORKER, message="Completed").job
        return job

    return act


def read(jobs: Jobs, job: Job) -> Job:
    found = jobs.get(job.id)
    assert found is not None
    return found


@pytest.mark.parametrize("status", [JobStatus.PROCESSING, JobStatus.VERIFYING])
def test_a_job_in_flight_fails_and_keeps_its_folder(
    jobs: Jobs, roots: WorkRoots, store: Store, reach: Any, status: JobStatus
) -> None:
    """CLU-06, PIPE-27: code and words of the sheet, one history line, `processing/<id>` moved to `error/<id>`."""
    job = reach(status)
    report = sweep(jobs, roots)
    assert [changed.job.id for changed in report.interrupted] == [job.id]
    assert [changed.change.event for changed in report.interrupted] == ["interrupt"]
    found = read(jobs, job)
    assert (found.status, found.error_code) == (JobStatus.FAILED, "recovery.interrupted")
    assert found.error_message == f"recovery.interrupted: {INTERRUPTED}"
    assert listing.history(store, job.id)[-1].message == (
        "Service restarted while job was in flight; marked as failed during recovery."
    )
    assert (roots.error_folder(job.id) / "folha.pdf").read_bytes() == b"staged"
    assert roots.job_folder_names() == []


@pytest.mark.parametrize(("content", "is_named"), [(OUTPUT, True), (b"another file", False), (None, False)])
def test_a_delivered_output_is_named_only_when_it_is_that_output(
    jobs: Jobs, roots: WorkRoots, reach: Any, content: bytes | None, is_named: bool
) -> None:
    """PIPE-85: by its SHA-256; it is neither moved nor removed."""
    output = roots.output / "folha.signed.pdf"
    digest = hashlib.sha256(OUTPUT).hexdigest()
    job = jobs.record(
        reach(JobStatus.VERIFYING), output_path=str(output), output_sha256=digest, output_length=len(OUTPUT)
    )
    if content is not None:
        output.write_bytes(content)
    sweep(jobs, roots)
    assert str(read(jobs, job).error_message).endswith(f" Output delivered: {output}.") is is_named
    assert output.exists() is (content is not None)


def test_a_link_in_the_place_of_the_output_is_not_it(jobs: Jobs, roots: WorkRoots, reach: Any, tmp_path: Path) -> None:
    """SEC-67, PIPE-85: no link is followed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(OUTPUT)
    output = roots.output / "folha.signed.pdf"
    output.symlink_to(elsewhere)
    digest = hashlib.sha256(OUTPUT).hexdigest()
    job = jobs.record(reach(JobStatus.VERIFYING), output_path=str(output), output_sha256=digest)
    sweep(jobs, roots)
    assert "delivered" not in str(read(jobs, job).error_message)


def test_a_second_sweep_finds_nothing(jobs: Jobs, roots: WorkRoots, store: Store, reach: Any) -> None:
    """CLU-09: after a sweep as after a clean stop."""
    job = reach(JobStatus.PROCESSING)
    sweep(jobs, roots)
    lines = len(listing.history(store, job.id))
    report = sweep(jobs, roots)
    assert (report.interrupted, report.cleared, report.unexplained, report.folderless) == ((), (), (), ())
    assert len(listing.history(store, job.id)) == lines


def test_what_waits_is_not_touched(jobs: Jobs, roots: WorkRoots, reach: Any) -> None:
    """CLU-05, CLU-08: a queued job is nobody's loss."""
    job = reach(JobStatus.QUEUED)
    assert sweep(jobs, roots).interrupted == ()
    assert read(jobs, job) == job


@pytest.mark.parametrize(
    ("event", "status"), [("dispatch", JobStatus.AWAITING_SIGNER), ("park", JobStatus.AWAITING_APPROVAL)]
)
def test_a_job_that_waits_for_others_keeps_row_and_staged_copy(
    jobs: Jobs, roots: WorkRoots, store: Store, reach: Any, event: str, status: JobStatus
) -> None:
    """CLU-08: neither ended nor moved, beside a job in flight that is."""
    job = jobs.transition(reach(JobStatus.PROCESSING), event, by=Actor.WORKER, message="waits").job
    assert job.status is status
    lost = reach(JobStatus.PROCESSING, "lost.pdf")
    lines = listing.history(store, job.id)
    report = sweep(jobs, roots)
    assert [changed.job.id for changed in report.interrupted] == [lost.id]
    assert (report.cleared, report.unexplained, report.folderless) == ((), (), ())
    assert read(jobs, job) == job
    assert listing.history(store, job.id) == lines
    assert (roots.job_folder(job.id) / "folha.pdf").read_bytes() == b"staged"
    assert not roots.error_folder(job.id).exists()


def test_the_folder_of_a_completed_job_is_cleared(jobs: Jobs, roots: WorkRoots, reach: Any) -> None:
    """CLU-87: and nothing else of it changes."""
    job = reach(JobStatus.COMPLETED)
    assert sweep(jobs, roots).cleared == (job.id,)
    assert roots.job_folder_names() == []
    assert read(jobs, job) == job


def test_the_folder_of_a_failed_job_is_kept(jobs: Jobs, roots: WorkRoots, reach: Any) -> None:
    """PIPE-86: what could not be moved when the job failed is moved now."""
    job = jobs.transition(reach(JobStatus.PROCESSING), "fail", by=Actor.WORKER, message="no").job
    sweep(jobs, roots)
    assert roots.error_folder(job.id).is_dir()
    assert roots.job_folder_names() == []


def test_a_folder_without_a_job_is_reported_and_left(
    jobs: Jobs, roots: WorkRoots, caplog: pytest.LogCaptureFixture
) -> None:
    """CLU-10: by count and name; a stray file is no folder."""
    roots.job_folder("someone-elses").mkdir()
    (roots.processing / "file").touch()
    with caplog.at_level(logging.WARNING):
        report = sweep(jobs, roots)
    assert report.unexplained == ("someone-elses",)
    assert "1 folder(s) below processing/ belong to no job: someone-elses" in caplog.text
    assert roots.job_folder_names() == ["someone-elses"]


def test_a_job_without_its_folder_is_reported(jobs: Jobs, roots: WorkRoots, reach: Any) -> None:
    """CLU-10: ended like the others."""
    job = reach(JobStatus.PROCESSING, has_folder=False)
    report = sweep(jobs, roots)
    assert report.folderless == (job.id,)
    assert read(jobs, job).status is JobStatus.FAILED


def test_folders_that_will_not_move_stop_nothing(
    jobs: Jobs, roots: WorkRoots, reach: Any, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """CLU-06, CLU-87: every job is ended, each failure is a warning."""
    in_flight = [reach(JobStatus.PROCESSING, "a.pdf"), reach(JobStatus.VERIFYING, "b.pdf")]
    completed = reach(JobStatus.COMPLETED, "c.pdf")

    def refuse(job_id: str) -> None:
        raise PermissionError(13, "Permission denied", job_id)

    monkeypatch.setattr(roots, "fail_job_folder", refuse)
    monkeypatch.setattr(roots, "discard_job_folder", refuse)
    with caplog.at_level(logging.WARNING):
        report = sweep(jobs, roots)
    assert (len(report.interrupted), report.cleared) == (2, ())
    assert [read(jobs, job).status for job in in_flight] == [JobStatus.FAILED] * 2
    assert read(jobs, completed) == completed
    assert caplog.text.count("Permission denied") >= 3


def test_a_job_that_someone_else_settles_meanwhile_is_left_to_them(jobs: Jobs, roots: WorkRoots, reach: Any) -> None:
    """PIPE-04: the lost race records nothing and stops nothing."""
    first, second = reach(JobStatus.PROCESSING, "a.pdf"), reach(JobStatus.PROCESSING, "b.pdf")
    stale = jobs.in_flight()
    jobs.transition(first, "fail", by=Actor.WORKER, message="settled")

    class Stale:
        """Reads the jobs in flight as they were a moment ago."""

        transition, get = jobs.transition, jobs.get

        def in_flight(self) -> list[Job]:
            return stale

    report = sweep(Stale(), roots)  # type: ignore[arg-type]
    assert [changed.job.id for changed in report.interrupted] == [second.id]
    assert read(jobs, first).error_code is None
