"""Have the file validators look at the staged copy."""

from __future__ import annotations

from bulksigner.contract.errors import StepFailed, join
from bulksigner.contract.validation import Finding, Severity, StagedFile
from bulksigner.pipeline.work import Work

__all__ = ["check"]

FINDINGS_SHOWN = 10


def check(work: Work) -> None:
    """Ask every validator that the profile calls for; one error ends the job before any key is used (PIPE-75)."""
    registry = work.parts.registry
    file = StagedFile(work.require(work.staged), work.job.file_name, work.job.format, work.staged_measured)
    for validator in registry.validators:
        errors: list[Finding] = []
        # The answer is read under the guard as well: one that is no report fails the job in the plugin's name.
        with registry.guard(validator):
            if validator.applies(work.opened.extras, work.job.format):
                findings = validator.check(file).findings
                errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if errors:
            raise StepFailed(_told(errors), code=errors[0].code)


def _told(errors: list[Finding]) -> str:
    lines = [f"{finding.place}: {join(finding.text, finding.remedy)}" for finding in errors[:FINDINGS_SHOWN]]
    if len(errors) > FINDINGS_SHOWN:
        lines.append(f"… and {len(errors) - FINDINGS_SHOWN} more.")
    return " ".join(lines)
