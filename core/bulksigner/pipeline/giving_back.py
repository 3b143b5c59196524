"""Which failures hold a profile, and whether the job that met one may wait with the others (BEY-20)."""

from __future__ import annotations

import attrs

from bulksigner.contract.errors import BulkSignerError, KeyTrouble, RaceLost
from bulksigner.files.durable import is_disk_full
from bulksigner.jobs.model import Changed
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.pipeline.work import Work
from bulksigner.profiles.holds import Cause
from bulksigner.records.engines import Act

__all__ = ["Met", "find_met", "giving_back"]

_CAUSES = {
    "profile.degraded": Cause.PROFILE,
    "sign.certificate-invalid": Cause.CERTIFICATE,
    "sign.timestamp-failed": Cause.TIMESTAMPS,
}
_FORGOTTEN = (
    "certificate_source",
    "staged_length",
    "staged_sha256",
    "staged_etag",
    "staged_at",
    "sign_call_started_at",
)


@attrs.frozen
class Met:
    """A cause that a job met and that every other would meet; `is_key_unused` where the job may wait for its end."""

    cause: Cause
    is_key_unused: bool


def find_met(work: Work, code: str | None, error: BaseException) -> Met | None:
    """Return what a failure says of the profile, or None where it lies in the file, or nobody knows.

    A key that may have been used is never used a second time for a job by itself (PIPE-69).
    """
    if isinstance(error, RaceLost) or work.job.status is not JobStatus.PROCESSING:
        # Signed already: what fails now is the output's.
        return Met(Cause.SPACE, False) if is_disk_full(error) else None
    trouble = error.trouble if isinstance(error, BulkSignerError) else None
    is_key_unused = work.job.sign_call_started_at is None or trouble is KeyTrouble.UNUSED
    if is_disk_full(error):
        return Met(Cause.SPACE, is_key_unused)
    cause = _CAUSES.get(code or "")
    if cause is Cause.TIMESTAMPS and trouble is None:
        # A stamp was had, and is of no use for this one file.
        return None
    if cause is not None:
        return Met(cause, is_key_unused)
    return None if trouble is None else Met(Cause.KEY, is_key_unused)


def giving_back(work: Work, reason: str) -> Act[Changed]:
    """Return the act that puts a job back into the queue as if it had not been claimed."""
    return work.parts.jobs.moving(
        work.job,
        "give_back",
        by=Actor.WORKER,
        message=f"Given back, as the signing profile is held: {reason}",
        **dict.fromkeys(_FORGOTTEN),
    )
