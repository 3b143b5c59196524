"""The start-up sweep: settles what was in flight when the last life ended (CLU-05 to CLU-11, CLU-87).

It runs after the migrations and before the worker, never signs, and finds nothing after a clean stop.
"""

from __future__ import annotations

import logging

import attrs

from bulksigner.contract.errors import RaceLost
from bulksigner.files.work import WorkRoots
from bulksigner.jobs.model import Changed, Job
from bulksigner.jobs.states import TERMINAL, Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.observability.logs import facts
from bulksigner.pipeline.steps.promote import describe_delivery, is_companion_delivered

__all__ = ["INTERRUPTED", "SweepReport", "sweep"]

log = logging.getLogger(__name__)

INTERRUPTED = "Service restarted while job was in flight; marked as failed during recovery."


@attrs.frozen
class SweepReport:
    """What a sweep did: jobs ended, folders of finished jobs cleared, folders without a job, jobs without a folder."""

    interrupted: tuple[Changed, ...]
    cleared: tuple[str, ...]
    unexplained: tuple[str, ...]
    folderless: tuple[str, ...]


def sweep(jobs: Jobs, roots: WorkRoots) -> SweepReport:
    """End every job in flight as Failed and account for each folder under `processing/`."""
    in_flight = jobs.in_flight()
    # A job that was staged has a folder, unless the last life ended between moving it and recording the end.
    folderless = [job.id for job in in_flight if job.staged_at is not None and not _has_folder(job.id, roots)]
    interrupted = [changed for job in in_flight if (changed := _interrupt(job, jobs, roots)) is not None]
    cleared: list[str] = []
    unexplained: list[str] = []
    for name in roots.job_folder_names():
        job = jobs.get(name)
        if job is None:
            unexplained.append(name)
        elif job.status is JobStatus.COMPLETED:
            if _discard_folder(name, roots):
                cleared.append(name)
        elif job.status in TERMINAL:
            _keep_folder(name, roots)
    if unexplained:
        log.warning("%d folder(s) below processing/ belong to no job: %s", len(unexplained), ", ".join(unexplained))
    if folderless:
        log.warning("%d job(s) had lost their folder below processing/: %s", len(folderless), ", ".join(folderless))
    log.info(
        "Recovery finished",
        extra=facts(interrupted=len(interrupted), cleared=len(cleared), unexplained=len(unexplained)),
    )
    return SweepReport(tuple(interrupted), tuple(cleared), tuple(unexplained), tuple(folderless))


def _interrupt(job: Job, jobs: Jobs, roots: WorkRoots) -> Changed | None:
    message = INTERRUPTED + describe_delivery(job, roots)
    # What another job delivered under that name is not this one's.
    is_foreign = job.companion_path is not None and not is_companion_delivered(job, roots)
    _keep_folder(job.id, roots)
    try:
        return jobs.transition(
            job,
            "interrupt",
            by=Actor.RECOVERY,
            message=message,
            error_code="recovery.interrupted",
            error_message=f"recovery.interrupted: {message}",
            **({"companion_path": None} if is_foreign else {}),
        )
    except RaceLost as error:
        log.warning("Job %s was settled by someone else during recovery: %s", job.id, error.message)
        return None


def _has_folder(job_id: str, roots: WorkRoots) -> bool:
    return roots.job_folder(job_id).is_dir() or roots.error_folder(job_id).is_dir()


def _discard_folder(job_id: str, roots: WorkRoots) -> bool:
    """Clear what a finished job left (CLU-87); what cannot be cleared is reported and stops nothing."""
    try:
        roots.discard_job_folder(job_id)
    except OSError as error:
        log.warning("The folder of completed job %s could not be removed: %s", job_id, error)
        return False
    return True


def _keep_folder(job_id: str, roots: WorkRoots) -> None:
    """Move a job's folder to `error/`; a failed move is reported and stops nothing (CLU-06)."""
    try:
        roots.fail_job_folder(job_id)
    except OSError as error:
        log.warning("The folder of job %s could not be moved to error/: %s", job_id, error)
