"""Move the signed file to the output folder, once, under a name nobody has."""

from __future__ import annotations

import datetime
from pathlib import Path

from bulksigner.contract.errors import StepFailed
from bulksigner.files import durable
from bulksigner.jobs.model import Job
from bulksigner.pipeline.conductor import apart
from bulksigner.pipeline.engine import WorkerLost
from bulksigner.pipeline.tasks import PromoteTask
from bulksigner.pipeline.work import Work

__all__ = ["describe_delivery", "promote"]


async def promote(work: Work) -> None:
    """Put the signed file where the job's row says it will be, without overwriting (PIPE-82)."""
    task = PromoteTask(work.require(work.signed), work.require(work.output))
    try:
        work.output_modified_at = await work.perform(task)
    except WorkerLost:
        # A file has one name: the signed one has gone where it should, or is still here.
        work.output_modified_at = await apart(lambda: _find_promoted(work.job, task))
        if work.output_modified_at is None:
            work.output_modified_at = await work.perform(task)
    except StepFailed as error:
        if error.code is not None:
            raise
        # It may lie there all the same, such as when only the flush of the folder failed.
        delivery = await apart(lambda: describe_delivery(work.job))
        raise StepFailed(error.message + delivery) from error


def _find_promoted(job: Job, task: PromoteTask) -> datetime.datetime | None:
    """Return the modification time of an output that the lost worker had delivered, which is on disk now; or None."""
    if task.signed.exists() or not describe_delivery(job):
        return None
    durable.flush_folder(task.output.parent)
    return datetime.datetime.fromtimestamp(task.output.stat().st_mtime, datetime.UTC)


def describe_delivery(job: Job) -> str:
    """Return the sentence that tells of an output without a completed job, or an empty text (PIPE-85)."""
    if job.output_path is None or job.output_sha256 is None:
        return ""
    try:
        is_delivered = durable.measure(Path(job.output_path)).sha256.hex() == job.output_sha256
    except OSError:
        return ""
    return f" Output delivered: {job.output_path}." if is_delivered else ""
