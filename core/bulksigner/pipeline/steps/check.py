"""Have the file validators look at the staged copy."""

from __future__ import annotations

from bulksigner.contract.errors import StepFailed, join
from bulksigner.contract.validation import Finding, StagedFile
from bulksigner.pipeline.conductor import apart
from bulksigner.pipeline.validators import ask_validators, errors_of
from bulksigner.pipeline.work import Work

__all__ = ["check"]

FINDINGS_SHOWN = 10


async def check(work: Work) -> None:
    """Ask every validator that the profile calls for; one error ends the job before any key is used (PIPE-75)."""
    if work.parts.registry.validators:
        file = StagedFile(work.require(work.staged), work.job.file_name, work.job.format, work.staged_measured)
        await apart(lambda: _ask_all(work, file))


def _ask_all(work: Work, file: StagedFile) -> None:
    parts = work.parts
    for findings in ask_validators(
        parts.registry,
        work.opened.extras,
        file,
        subject=f"job {work.job.id}",
        limit_seconds=parts.validation_limit_seconds,
    ):
        errors = errors_of(findings)
        if errors:
            raise StepFailed(_told(errors), code=errors[0].code)


def _told(errors: list[Finding]) -> str:
    lines = [f"{finding.place}: {join(finding.text, finding.remedy)}" for finding in errors[:FINDINGS_SHOWN]]
    if len(errors) > FINDINGS_SHOWN:
        lines.append(f"… and {len(errors) - FINDINGS_SHOWN} more.")
    return " ".join(lines)
