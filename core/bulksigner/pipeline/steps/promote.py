"""Move the signed file to the output folder, once, under a name nobody has."""

from __future__ import annotations

import datetime

from bulksigner.contract.errors import StepFailed
from bulksigner.files import durable
from bulksigner.pipeline.work import Work

__all__ = ["promote"]


def promote(work: Work) -> None:
    """Record where the output will be and what it is, then put it there without overwriting (PIPE-82, PIPE-85)."""
    measured = work.signed_measured
    if measured is None:
        raise StepFailed("The job has no signed file.")
    output = work.parts.roots.output_path(work.output_name)
    work.job = work.parts.jobs.record(
        work.job,
        output_path=str(output),
        output_length=measured.length,
        output_sha256=measured.sha256.hex(),
    )
    signed = work.require(work.signed)
    # Taken before the move: whoever waits for the output may collect it at once.
    work.output_modified_at = datetime.datetime.fromtimestamp(signed.stat().st_mtime, datetime.UTC)
    try:
        durable.promote(signed, output)
    except FileExistsError as error:
        raise StepFailed(
            f"Output already exists at {output}; resolve manually before re-queueing.", code="promote.output-exists"
        ) from error
    work.output = output
    work.is_promoted = True
