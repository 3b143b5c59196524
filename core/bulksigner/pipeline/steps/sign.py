"""Use the key: say so on disk first, then sign."""

from __future__ import annotations

from typing import Any

from bulksigner.contract.errors import BulkSignerError, StepFailed
from bulksigner.contract.signing import Measured
from bulksigner.encryption.envelope import refuse_too_long
from bulksigner.files.names import child_of
from bulksigner.jobs.states import Actor
from bulksigner.lanes import Done
from bulksigner.pipeline.conductor import Started, apart
from bulksigner.pipeline.spans import SIGNING
from bulksigner.pipeline.steps.verify import plan_check
from bulksigner.pipeline.tasks import SignTask, Task
from bulksigner.pipeline.work import Work

__all__ = ["mark", "sign"]

NO_TRUST = "The profile asks for the check of its certificate, and nothing here does it (Signing:Trust)."


async def mark(work: Work) -> None:
    """Commit that the key is about to be used, with the fingerprint of what it will sign (PIPE-78, CLU-11).

    Recovery reads `signCallStartedAt` and nothing else, so it is on disk before the key is touched. Whatever can be
    refused without the key comes before: a certificate outside its validity never signs (BEY-21), a policy that is over
    makes no signature (ICP-03), and a name that no output can have costs none (PIPE-90), nor does a file that is too
    long to be encrypted (ENC-11).
    """
    now = work.parts.now()
    reason = work.opened.outside_validity(now)
    if reason is not None:
        raise StepFailed(reason, code="sign.certificate-invalid")
    if work.opened.stored.validate_certificate:
        await _validate(work)
    rules = work.opened.rules
    spec = None if rules is None else rules.spec(work.job.format, now)
    if spec is not None:
        spec = work.opened.stored.spec_of(spec, work.job.file_name, work.job.format)
    fingerprint = work.staged_fingerprint
    if work.is_encrypted:
        try:
            refuse_too_long(fingerprint.length)
        except BulkSignerError as error:
            raise StepFailed(error.message, code="encrypt.failed") from error
    task = SignTask(
        job_id=work.job.id,
        method=work.opened.stored.method,
        profile=work.key_reference.profile,
        file_name=work.job.file_name,
        format=work.job.format,
        staged=work.require(work.staged),
        measured=work.staged_measured,
        target=child_of(work.folder, work.signed_name),
        signed_at=now,
        options=work.opened.stored.sign_options(work.parts.options, work.job.format),
        spec=spec,
        metadata=work.job.metadata,
        pdf=work.opened.pdf_choice(work.job.format),
    )
    work.job = await work.parts.write(
        work.parts.jobs.recording(
            work.job,
            certificate_source=work.opened.stored.certificate_source,
            staged_length=fingerprint.length,
            staged_sha256=fingerprint.sha256.hex(),
            staged_etag=fingerprint.entity_tag,
            staged_at=now,
            sign_call_started_at=now,
        )
    )
    work.task = task


async def _validate(work: Work) -> None:
    """Refuse a certificate that may not be used now; a verdict that still counts costs nothing (CFG-92)."""
    key, validation = work.opened.key, work.parts.validation
    if key is None:
        # A method that needs no key of ours has no certificate to look at.
        return
    if validation is None:
        raise StepFailed(NO_TRUST, code="sign.certificate-invalid")
    asked = work.opened.stored.require_non_repudiation
    verdict = validation.known(key, require_non_repudiation=asked)
    if verdict is None:
        verdict = await apart(lambda: validation.judge(key, require_non_repudiation=asked))
    if verdict.refused is not None:
        work.parts.metrics.count("bulksigner_cert_validation_failed_total", work.opened.name)
        raise StepFailed(
            f"The certificate of signing profile '{work.opened.name}' was refused: {verdict.refused}",
            code="sign.certificate-invalid",
        )


async def sign(work: Work) -> None:
    """Sign the staged copy through the engine and move the job to Verifying (PIPE-79).

    The same commit says where the output will be and what it is: recovery tells from it what was delivered (PIPE-85).
    Of an envelope that is not known before there is one (`encrypt`). The check goes to the engine with the signing, as
    it needs no more than the signed file, and costs no way there of its own.
    """
    if work.task is None:
        raise StepFailed("The use of the key was not marked.")
    work.signed = work.task.target
    signing: Started[Measured] = Started()
    chain: list[tuple[Task[Any], Done]] = [(work.task, signing.end)]
    check = plan_check(work)
    if check is not None:
        work.checking = Started(signing)
        chain.append((check, work.checking.end))
    work.parts.engine.begin_chain(chain)
    work.signed_measured = measured = await signing
    # What exactly counts as a stage of the statistics (STA-07).
    work.seconds[SIGNING] = signing.seconds
    moving = work.parts.jobs.moving(
        work.job,
        "sign",
        by=Actor.WORKER,
        message="Signed",
        **({} if work.is_encrypted else work.foretell_output(work.signed.name, measured)),
    )
    changed = await work.parts.write(moving)
    work.job = changed.job
    await work.parts.tell(changed)
