"""What the statistics take of a job that completes (STA-01 to STA-05)."""

from __future__ import annotations

from bulksigner.pipeline.work import Work
from bulksigner.statistics.timings import Spans, to_milliseconds

__all__ = ["OUTPUT_STEPS", "SIGNING", "VERIFICATION", "spans_of"]

SIGNING, VERIFICATION = "stage:signing", "stage:verification"
"""Keys of `Work.seconds` for the calls alone; the steps around them also write to the database."""
OUTPUT_STEPS = ("encrypt", "promote", "clean")


def spans_of(work: Work) -> Spans:
    """Return the stages of a job whose plan has run to its end."""
    # Stored times, since the wait may have begun in another process, under another clock (STA-07).
    queued_at = work.job.queued_at
    waited = None if queued_at is None else (work.claimed_at - queued_at).total_seconds()
    written = [work.seconds[step] for step in OUTPUT_STEPS if step in work.seconds]
    return Spans(
        method=work.opened.stored.method,
        queue_wait_ms=to_milliseconds(waited),
        signing_ms=to_milliseconds(work.seconds.get(SIGNING)),
        verification_ms=to_milliseconds(work.seconds.get(VERIFICATION)),
        output_ms=to_milliseconds(sum(written)) if written else None,
    )
