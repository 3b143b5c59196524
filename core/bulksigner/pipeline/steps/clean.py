"""Take away the input that was signed, and only that."""

from __future__ import annotations

from bulksigner.contract.errors import HeldElsewhere
from bulksigner.contract.storage import Removal, RemovalOutcome
from bulksigner.pipeline.holding import held
from bulksigner.pipeline.work import Work
from bulksigner.plugin_system.guard import ANYTHING, describe

__all__ = ["clean"]

WAITS_SECONDS = (0.5, 2.0, 5.0)
"""Waits between the four tries to hold the input (PIPE-93)."""


def clean(work: Work) -> None:
    """Remove the input while it still is what was staged; leave it otherwise (PIPE-91 to PIPE-93).

    The output is delivered by now, so nothing here may fail the job: an input that cannot be removed is left and
    reported.
    """
    try:
        removal = _remove(work)
        reason = removal.reason if removal.outcome in (RemovalOutcome.DIVERGED, RemovalOutcome.KEPT) else ""
        work.is_input_kept = removal.outcome is RemovalOutcome.KEPT
    except HeldElsewhere as error:
        reason = f"held by another lease: {error.message}"
    except ANYTHING as error:  # whatever a storage provider raises
        reason = f"unreadable: {describe(error)}"
    # Before it is stored anywhere (SEC-57).
    work.divergence = work.parts.scrub(reason)


def _remove(work: Work) -> Removal:
    folder, name = work.parts.inputs.locate(work.job.original_path)
    with held(folder, name, waits_seconds=WAITS_SECONDS):
        removal = folder.remove_if(name, work.staged_fingerprint)
    if removal.outcome is RemovalOutcome.REMOVED and work.job.sidecar_sha256 is not None:
        work.parts.inputs.consume_sidecar(work.job)
    return removal
