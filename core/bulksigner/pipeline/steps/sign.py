"""Use the key: say so on disk first, then sign."""

from __future__ import annotations

from bulksigner.contract.errors import StepFailed
from bulksigner.jobs.states import Actor
from bulksigner.pipeline.engine import SignTask
from bulksigner.pipeline.work import Work
from bulksigner.profiles.model import KeyReference

__all__ = ["mark", "sign"]


def mark(work: Work) -> None:
    """Commit that the key is about to be used, with the fingerprint of what it will sign (PIPE-78, CLU-11).

    Recovery reads `signCallStartedAt` and nothing else, so it is on disk before the key is touched. A validity check
    that needs no network comes first: a certificate outside its validity never signs (BEY-21).
    """
    now = work.parts.now()
    profile = work.opened
    reason = profile.outside_validity(now)
    if reason is not None:
        raise StepFailed(reason, code="sign.certificate-invalid")
    fingerprint = work.fingerprint
    if fingerprint is None:
        raise StepFailed("The job has no staged copy.")
    work.job = work.parts.jobs.record(
        work.job,
        certificate_source=profile.stored.certificate_source,
        staged_length=fingerprint.length,
        staged_sha256=fingerprint.sha256.hex(),
        staged_etag=fingerprint.entity_tag,
        staged_at=now,
        sign_call_started_at=now,
    )


def sign(work: Work) -> None:
    """Sign the staged copy through the engine and move the job to Verifying (PIPE-79)."""
    reference = _reference(work)
    target = work.parts.roots.job_folder(work.job.id) / work.output_name
    task = SignTask(
        job_id=work.job.id,
        method=work.opened.stored.method,
        reference=reference,
        file_name=work.job.file_name,
        format=work.job.format,
        staged=work.require(work.staged),
        measured=work.staged_measured,
        target=target,
        signed_at=work.parts.now(),
        options={"pem": "true"} if work.is_pem else {},
    )
    work.signed_measured = work.parts.engine.sign(task)
    work.signed = target
    changed = work.parts.jobs.transition(work.job, "sign", by=Actor.WORKER, message="Signed")
    work.job = changed.job
    work.parts.announce(changed)


def _reference(work: Work) -> KeyReference:
    reference = work.opened.key_reference
    if reference is None:
        raise StepFailed(f"Signing profile '{work.opened.stored.name}' has no open key.", code="profile.degraded")
    return reference
