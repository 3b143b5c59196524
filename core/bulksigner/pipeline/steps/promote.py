"""Move the signed file to the output folder, once, under a name nobody has."""

from __future__ import annotations

import datetime

from bulksigner.contract.errors import StepFailed
from bulksigner.files import durable
from bulksigner.pipeline.work import Work

__all__ = ["promote"]


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
