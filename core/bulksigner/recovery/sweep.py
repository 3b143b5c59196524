"""The start-up sweep: settles what was in flight when the last life ended (CLU-05 to CLU-11, CLU-87).

It runs after the migrations and before the worker, never signs, and finds nothing after a clean stop.
"""

from __future__ import annotations

import logging
from pathlib import Path

import attrs

from bulksigner.contract.errors import RaceLost
from bulksigner.files import durable
from bulksigner.files.work import WorkRoots
from bulksigner.jobs.model import Changed, Job
from bulksigner.jobs.states import TERMINAL, Actor, JobStatus
from bulksigner.jobs.store import Jobs

__all__ = ["INTERRUPTED", "SweepReport", "sweep"]

log = logging.getLogger(__name__)

INTERRUPTED = "Service restarted while job was in flight; marked as failed during recovery."


@attrs.frozen
class SweepReport:
    """What a sweep did: jobs ended, folders of finished jobs cleared, folders that no job explains."""

    interrupted: tuple[Changed, ...]
    cleared: tuple[str, ...]
    unexplained: tuple[str, ...]


def sweep(jobs: Jobs, roots: WorkRoots) -> SweepReport:
    """End every job in flight as Failed and account for each folder under `processing/`."""
    interrupted = [changed for job in jobs.in_flight() if (changed := _interrupt(job, jobs, roots)) is not None]
    cleared: list[str] = []
    unexplained: list[str] = []
    for name in sorted(entry.name for entry in roots.processing.iterdir() if entry.is_dir()):
        job = jobs.get(name)
        if job is None:
            unexplained.append(name)
        elif job.status is JobStatus.COMPLETED:
            roots.discard_job_folder(name)
            cleared.append(name)
        elif job.status in TERMINAL:
            _keep_folder(name, roots)
    if unexplained:
        log.warning(
            "%d folder(s) under processing/ belong to no job and were left alone: %s",
            len(unexplained),
            ", ".join(unexplained),
        )
    log.info(
        "Recovery finished",
        extra={"facts": {"Interrupted": len(interrupted), "Cleared": len(cleared), "Unexplained": len(unexplained)}},
    )
    return SweepReport(tuple(interrupted), tuple(cleared), tuple(unexplained))


def _interrupt(job: Job, jobs: Jobs, roots: WorkRoots) -> Changed | None:
    message = INTERRUPTED
    if _was_delivered(job):
        message += f" Output delivered: {job.output_path}."
    _keep_folder(job.id, roots)
    try:
        return jobs.transition(
            job,
            "interrupt",
            by=Actor.RECOVERY,
            message=message,
            error_code="recovery.interrupted",
            error_message=f"recovery.interrupted: {message}",
        )
    except RaceLost as error:
        log.warning("Job %s was settled by someone else during recovery: %s", job.id, error.message)
        return None


def _was_delivered(job: Job) -> bool:
    """Tell whether the recorded output lies there with the recorded bytes (PIPE-85)."""
    if job.output_path is None or job.output_sha256 is None:
        return False
    try:
        return durable.measure(Path(job.output_path)).sha256.hex() == job.output_sha256
    except OSError:
        return False


def _keep_folder(job_id: str, roots: WorkRoots) -> None:
    """Move a job's folder to `error/`; a failed move is reported and stops nothing (CLU-06)."""
    try:
        roots.fail_job_folder(job_id)
    except OSError as error:
        log.warning("The folder of job %s could not be moved to error/: %s", job_id, error)
