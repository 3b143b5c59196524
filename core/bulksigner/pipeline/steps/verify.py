"""Read the signed file back from storage and check it before anyone receives it."""

from __future__ import annotations

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import StepFailed
from bulksigner.formats.model import Expectation, PdfRules
from bulksigner.pipeline.conductor import apart
from bulksigner.pipeline.engine import WorkerLost
from bulksigner.pipeline.spans import VERIFICATION
from bulksigner.pipeline.tasks import CheckTask
from bulksigner.pipeline.work import Work

__all__ = ["plan_check", "verify"]


def plan_check(work: Work) -> CheckTask | None:
    """Return the check of the file that is to be signed, or None where the profile does not ask for one."""
    profile = work.opened
    return _check_task(work, profile.key) if profile.stored.verify and profile.key is not None else None


async def verify(work: Work) -> None:
    """Have the artifact checked against the profile's certificate and the staged original (PIPE-80, BEY-01)."""
    profile = work.opened
    if not profile.stored.verify:
        work.job = await work.parts.write(work.parts.jobs.recording(work.job, message="Verification skipped"))
        work.parts.metrics.count("bulksigner_jobs_verify_skipped_total", profile.name)
        return
    if work.checking is None or profile.key is None:
        raise StepFailed(f"Signing profile '{profile.stored.name}' has no certificate.")
    try:
        checked = await work.checking
    except WorkerLost:
        checked = await work.perform(_check_task(work, profile.key))
    finally:
        work.seconds["verify"] = work.seconds[VERIFICATION] = work.checking.seconds
    if checked.measured != work.signed_measured:
        raise StepFailed("The signed file on disk is not what the signing step wrote.")
    if profile.stored.validate_certificate:
        await _require_chain(work, profile.key)
    work.checked = checked
    if checked.repair is not None:
        work.job = await work.parts.write(work.parts.jobs.recording(work.job, message=checked.repair))


def _check_task(work: Work, key: OpenedKey) -> CheckTask:
    spec = None if work.task is None else work.task.spec
    is_repairing = work.task is not None and PdfRules.read(work.task.options).repair_unsigned
    expectation = Expectation(work.job.format, key.certificate, work.staged_measured, spec, is_repairing)
    pdf = work.opened.pdf_choice(work.job.format)
    if pdf is not None:
        expectation = attrs.evolve(expectation, passwords=pdf.passwords)
    staged = work.staged if is_repairing or (spec is not None and spec.joining is not None) else None
    return CheckTask(work.require(work.signed), expectation, pem=work.is_pem, staged=staged, detached=work.is_detached)


async def _require_chain(work: Work, key: OpenedKey) -> None:
    """Hold the certificate, which the check found in the file, against the roots of this host and of the policy."""
    chains, task = work.parts.chains, work.task
    if chains is None or task is None:
        raise StepFailed("The profile asks for the check of its certificate, and nothing here does it (Signing:Trust).")
    rules = work.opened.rules
    listed = () if rules is None else rules.list_roots(task.spec)
    if not chains.is_known(key.certificate, listed, task.signed_at):
        await apart(lambda: chains.require(key.certificate, key.chain, listed, task.signed_at))
