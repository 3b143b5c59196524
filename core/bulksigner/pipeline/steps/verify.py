"""Read the signed file back from storage and check it before anyone receives it."""

from __future__ import annotations

from bulksigner.contract.errors import StepFailed
from bulksigner.formats.model import Expectation
from bulksigner.pipeline.engine import CheckTask
from bulksigner.pipeline.spans import VERIFICATION
from bulksigner.pipeline.work import Work

__all__ = ["verify"]


def verify(work: Work) -> None:
    """Check the artifact against the profile's certificate and the staged original (PIPE-80, BEY-01)."""
    profile = work.opened
    if not profile.stored.verify:
        work.job = work.parts.jobs.record(work.job, message="Verification skipped")
        return
    if profile.key is None:
        raise StepFailed(f"Signing profile '{profile.stored.name}' has no certificate.")
    task = CheckTask(
        artifact=work.require(work.signed),
        expectation=Expectation(work.job.format, profile.key.certificate, work.staged_measured),
        pem=work.is_pem,
    )
    with work.measured(VERIFICATION):
        checked = work.parts.engine.check(task)
    if checked.measured != work.signed_measured:
        raise StepFailed("The signed file on disk is not what the signing step wrote.")
