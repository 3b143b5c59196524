"""Put the signed file into an envelope before anyone receives it; the clear file stays in the job's own folder."""

from __future__ import annotations

from bulksigner.contract.errors import StepFailed
from bulksigner.files.names import child_of
from bulksigner.pipeline.tasks import EncryptTask
from bulksigner.pipeline.work import Work

__all__ = ["encrypt"]


async def encrypt(work: Work) -> None:
    """Encrypt what was checked (ENC-01, ENC-12).

    The commit that follows says where the envelope will be and what it is, before it is there (PIPE-85).
    """
    if work.signed_measured is None:
        raise StepFailed("A step ran before the step it depends on.")
    target = child_of(work.folder, work.output_name)
    # What a lost worker had written of it is thrown away, and its nonce with it (ENC-10).
    measured = await work.perform_again(EncryptTask(work.require(work.signed), work.signed_measured, target))
    recording = work.parts.jobs.recording(
        work.job,
        also=work.parts.count_envelope,
        output_encrypted=True,
        **work.foretell_output(target.name, measured),
    )
    work.job = await work.parts.write(recording)
    work.parts.metrics.count("bulksigner_files_encrypted_total")
    work.envelope = target
