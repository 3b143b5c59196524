"""File validators, each asked under a time limit: by the step `check`, and for a file without a job (BEY-10)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from bulksigner.contract.errors import StepFailed
from bulksigner.contract.validation import FileValidator, Finding, Severity, StagedFile
from bulksigner.pipeline.limited import Overdue, call_within
from bulksigner.plugin_system.registry import Registry

__all__ = ["VALIDATION_LIMIT_SECONDS", "ask_validators", "errors_of"]

log = logging.getLogger(__name__)

VALIDATION_LIMIT_SECONDS = 300.0
"""A file validator that takes longer is taken for hung, as a call of the engine is, and the job fails (SEC-70)."""


def ask_validators(
    registry: Registry,
    extras: Mapping[type[Any], object],
    file: StagedFile,
    *,
    subject: str,
    limit_seconds: float = VALIDATION_LIMIT_SECONDS,
) -> Iterator[tuple[Finding, ...]]:
    """Yield what each validator found that a profile calls for; `extras` are its plugin keys, `subject` is for the log.

    Raises `StepFailed` for one that hangs, `ProviderError` for one that breaks.
    """
    for validator in registry.validators:
        yield _ask_in_time(registry, validator, extras, file, subject, limit_seconds)


def errors_of(findings: tuple[Finding, ...]) -> list[Finding]:
    """Return the findings that end a job."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def _ask_in_time(
    registry: Registry,
    validator: FileValidator,
    extras: Mapping[type[Any], object],
    file: StagedFile,
    subject: str,
    limit_seconds: float,
) -> tuple[Finding, ...]:
    who = registry.describe(validator)

    def ask() -> tuple[Finding, ...]:
        # The answer is read under the guard as well: one that is no report fails the job in the plugin's name.
        with registry.guard(validator):
            if not validator.applies(extras, file.format):
                return ()
            found = tuple(validator.check(file).findings)
            errors_of(found)
            return found

    try:
        return call_within(limit_seconds, f"validate-{validator.name}", ask)
    except Overdue:
        log.error("The %s hangs on %s; its thread is abandoned until the service ends", who, subject)
        raise StepFailed(
            f"The {who} gave no answer within {limit_seconds:g} s. Mend the plugin, or see what this file does to it, "
            "and retry the job."
        ) from None
    except KeyboardInterrupt as error:
        # No signal reaches the thread of a validator, so this is the plugin's own, and must not cost the slot.
        raise StepFailed(f"The {who} broke: KeyboardInterrupt") from error
