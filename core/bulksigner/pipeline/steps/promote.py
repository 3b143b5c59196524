"""Move the signed file to the output folder, once, under a name nobody has."""

from __future__ import annotations

import datetime
from contextlib import ExitStack
from pathlib import Path

from bulksigner.contract.errors import StepFailed
from bulksigner.files import durable
from bulksigner.files.work import WorkRoots
from bulksigner.jobs.model import Job
from bulksigner.pipeline.conductor import apart
from bulksigner.pipeline.engine import WorkerLost
from bulksigner.pipeline.holding import held, near
from bulksigner.pipeline.tasks import Companion, Delivered, DeliverTask, NearInput
from bulksigner.pipeline.work import Work
from bulksigner.plugin_system.guard import ANYTHING

__all__ = ["describe_delivery", "is_companion_delivered", "is_output_delivered", "promote"]


async def promote(work: Work) -> None:
    """Put the signed file where the job's row says it will be, without overwriting (PIPE-82).

    An input that lies near is removed in the same task; the others, and what takes patience, are left to `clean`.
    """
    with ExitStack() as hold:
        task = DeliverTask(
            work.artifact, work.require(work.output), _take_near_input(work, hold), _find_companion(work)
        )
        try:
            work.delivered = await work.perform(task)
        except WorkerLost:
            # A file has one name: the signed one has gone where it should, or is still here.
            work.delivered = await apart(lambda: _find_delivered(work.job, task))
            if work.delivered is None:
                work.delivered = await work.perform(task)
        except StepFailed as error:
            if error.code is not None:
                raise
            # It may lie there all the same, such as when only the flush of the folder failed.
            delivery = await apart(lambda: describe_delivery(work.job, work.parts.roots))
            raise StepFailed(error.message + delivery) from error


def _find_companion(work: Work) -> Companion | None:
    if work.job.companion_path is None:
        return None
    return Companion(work.require(work.staged), Path(work.job.companion_path), work.staged_measured)


def _take_near_input(work: Work, hold: ExitStack) -> NearInput | None:
    try:
        folder, name = work.parts.inputs.locate(work.job.original_path)
        close_by = near(folder)
        if close_by is None:
            return None
        hold.enter_context(held(folder, name))
    except ANYTHING:  # what stands in the way is told by the step that removes inputs with patience
        return None
    return NearInput(close_by, name, work.staged_fingerprint)


def _find_delivered(job: Job, task: DeliverTask) -> Delivered | None:
    """Return what the lost worker had delivered, which is on disk then; None where the signed file is still here."""
    if task.signed.exists() or not is_output_delivered(job):
        return None
    durable.flush_folder(task.output.parent)
    return Delivered(datetime.datetime.fromtimestamp(task.output.stat().st_mtime, datetime.UTC), None)


def describe_delivery(job: Job, roots: WorkRoots) -> str:
    """Return the sentences that tell of what was delivered without a completed job, or an empty text (PIPE-85)."""
    text = f" Content delivered: {job.companion_path}." if is_companion_delivered(job, roots) else ""
    return f"{text} Output delivered: {job.output_path}." if is_output_delivered(job) else text


def is_output_delivered(job: Job) -> bool:
    """Tell whether the file that the job signed lies at its place."""
    return job.output_sha256 is not None and _is_at(job.output_path, job.output_sha256)


def is_companion_delivered(job: Job, roots: WorkRoots) -> bool:
    """Tell whether the job itself put the content beside its signature.

    Another job may have delivered the same content under that name; a staged copy that is still here says so.
    """
    if job.companion_path is None or job.staged_sha256 is None:
        return False
    folders = (roots.job_folder(job.id), roots.error_folder(job.id))
    if any((folder / job.file_name).exists() for folder in folders):
        return False
    return _is_at(job.companion_path, job.staged_sha256)


def _is_at(path: str | None, sha256: str) -> bool:
    try:
        return path is not None and durable.measure(Path(path)).sha256.hex() == sha256
    except OSError:
        return False
