"""Move the signed file to the output folder, once, under a name nobody has."""

from __future__ import annotations

import datetime
from pathlib import Path

from bulksigner.contract.errors import StepFailed
from bulksigner.files import durable
from bulksigner.jobs.model import Job
from bulksigner.pipeline.work import Work

__all__ = ["describe_delivery", "promote"]


def promote(work: Work) -> None:
    """Put the signed file where the job's row says it will be, without overwriting (PIPE-82)."""
    signed, output = work.require(work.signed), work.require(work.output)
    # Taken before the move: whoever waits for the output may collect it at once.
    work.output_modified_at = datetime.datetime.fromtimestamp(signed.stat().st_mtime, datetime.UTC)
    try:
        durable.promote(signed, output)
    except FileExistsError as error:
        raise StepFailed(
            f"Output already exists at {output}; resolve manually before re-queueing.", code="promote.output-exists"
        ) from error
    except OSError as error:
        # It may lie there all the same, such as when only the flush of the folder failed.
        raise StepFailed(
            f"The output could not be moved to {output}: {error.strerror or error}.{describe_delivery(work.job)}"
        ) from error


def describe_delivery(job: Job) -> str:
    """Return the sentence that tells of an output without a completed job, or an empty text (PIPE-85)."""
    if job.output_path is None or job.output_sha256 is None:
        return ""
    try:
        is_delivered = durable.measure(Path(job.output_path)).sha256.hex() == job.output_sha256
    except OSError:
        return ""
    return f" Output delivered: {job.output_path}." if is_delivered else ""
