"""Use the key: say so on disk first, then sign."""

from __future__ import annotations

from bulksigner.contract.errors import StepFailed
from bulksigner.jobs.states import Actor
from bulksigner.pipeline.engine import SignTask
from bulksigner.pipeline.work import Work

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
    """Sign the staged copy through the engine and move the job to Verifying (PIPE-79).

    The same commit says where the output will be and what it is: recovery tells from it what was delivered (PIPE-85).
    """
    profile = work.opened
    if profile.key_reference is None:
        raise StepFailed(f"Signing profile '{profile.name}' has no open key.", code="profile.degraded")
    target = work.parts.roots.job_folder(work.job.id) / work.output_name
    task = SignTask(
        job_id=work.job.id,
        method=profile.stored.method,
        profile=profile.name,
        file_name=work.job.file_name,
        format=work.job.format,
        staged=work.require(work.staged),
        measured=work.staged_measured,
        target=target,
        signed_at=work.parts.now(),
        options={"pem": "true"} if work.is_pem else {},
    )
    measured = work.parts.engine.sign(task)
    work.signed, work.signed_measured = target, measured
    work.output = work.parts.roots.output_path(work.output_name)
    changed = work.parts.jobs.transition(
        work.job,
        "sign",
        by=Actor.WORKER,
        message="Signed",
        output_path=str(work.output),
        output_length=measured.length,
        output_sha256=measured.sha256.hex(),
    )
    work.job = changed.job
    work.parts.announce(changed)
