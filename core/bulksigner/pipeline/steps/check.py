"""Have the file validators look at the staged copy."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from bulksigner.contract.errors import StepFailed, join
from bulksigner.contract.validation import FileValidator, Finding, Severity, StagedFile
from bulksigner.pipeline.conductor import apart
from bulksigner.pipeline.limited import Overdue, call_within
from bulksigner.pipeline.work import Work

__all__ = ["check"]

log = logging.getLogger(__name__)

FINDINGS_SHOWN = 10


async def check(work: Work) -> None:
    """Ask every validator that the profile calls for; one error ends the job before any key is used (PIPE-75)."""
    validators = work.parts.registry.validators
    if validators:
        file = StagedFile(work.require(work.staged), work.job.file_name, work.job.format, work.staged_measured)
        await apart(lambda: _ask_all(work, validators, file))


def _ask_all(work: Work, validators: Sequence[FileValidator], file: StagedFile) -> None:
    for validator in validators:
        errors = _ask_in_time(work, validator, file)
        if errors:
            raise StepFailed(_told(errors), code=errors[0].code)


def _ask_in_time(work: Work, validator: FileValidator, file: StagedFile) -> list[Finding]:
    limit_seconds = work.parts.validation_limit_seconds
    who = work.parts.registry.describe(validator)
    try:
        return call_within(limit_seconds, f"validate-{validator.name}", lambda: _ask(work, validator, file))
    except Overdue:
        log.error("The %s hangs on job %s; its thread is abandoned until the service ends", who, work.job.id)
        raise StepFailed(
            f"The {who} gave no answer within {limit_seconds:g} s. Mend the plugin, or see what this file does to it, "
            "and retry the job."
        ) from None
    except KeyboardInterrupt as error:
        # No signal reaches the thread of a validator, so this is the plugin's own, and must not cost the slot.
        raise StepFailed(f"The {who} broke: KeyboardInterrupt") from error


def _ask(work: Work, validator: FileValidator, file: StagedFile) -> list[Finding]:
    # The answer is read under the guard as well: one that is no report fails the job in the plugin's name.
    with work.parts.registry.guard(validator):
        if not validator.applies(work.opened.extras, work.job.format):
            return []
        return [finding for finding in validator.check(file).findings if finding.severity is Severity.ERROR]


def _told(errors: list[Finding]) -> str:
    lines = [f"{finding.place}: {join(finding.text, finding.remedy)}" for finding in errors[:FINDINGS_SHOWN]]
    if len(errors) > FINDINGS_SHOWN:
        lines.append(f"… and {len(errors) - FINDINGS_SHOWN} more.")
    return " ".join(lines)
