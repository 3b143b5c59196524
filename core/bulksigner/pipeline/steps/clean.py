"""Take away the input that was signed, and only that."""

from __future__ import annotations

from bulksigner.contract.errors import HeldElsewhere
from bulksigner.contract.storage import Fingerprint, Folder, Removal, RemovalOutcome
from bulksigner.pipeline.conductor import apart
from bulksigner.pipeline.holding import held
from bulksigner.pipeline.work import Work
from bulksigner.plugin_system.guard import ANYTHING, describe

__all__ = ["clean"]

WAITS_SECONDS = (0.5, 2.0, 5.0)
"""Waits between the four tries to hold the input (PIPE-93)."""


async def clean(work: Work) -> None:
    """Remove the input while it still is what was staged; leave it otherwise (PIPE-91 to PIPE-93).

    The output is delivered by now, so nothing here may fail the job: an input that cannot be removed is left and
    reported.
    """
    try:
        removal = await _remove(work)
        if removal.outcome is RemovalOutcome.REMOVED and work.job.sidecar_sha256 is not None:
            await apart(lambda: work.parts.inputs.consume_sidecar(work.job))
        reason = removal.reason if removal.outcome in (RemovalOutcome.DIVERGED, RemovalOutcome.KEPT) else ""
        work.is_input_kept = removal.outcome is RemovalOutcome.KEPT
    except HeldElsewhere as error:
        reason = f"held by another lease: {error.message}"
    except ANYTHING as error:  # whatever a storage provider raises
        reason = f"unreadable: {describe(error)}"
    # Before it is stored anywhere (SEC-57).
    work.divergence = work.parts.scrub(reason)


async def _remove(work: Work) -> Removal:
    removal = None if work.delivered is None else work.delivered.removal
    if removal is not None and removal.outcome in (RemovalOutcome.REMOVED, RemovalOutcome.ABSENT):
        return removal
    # What takes patience takes a thread: a folder elsewhere, a hold of another, a file that cannot be removed or read
    # just now, and one of whose removal nobody knows because the worker was lost over it.
    folder, name = work.parts.inputs.locate(work.job.original_path)
    return await apart(lambda: _remove_patiently(folder, name, work.staged_fingerprint))


def _remove_patiently(folder: Folder, name: str, expected: Fingerprint) -> Removal:
    with held(folder, name, waits_seconds=WAITS_SECONDS):
        return folder.remove_if(name, expected)
