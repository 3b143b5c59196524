"""File validators: checks of content before a key is used (role `file validator`). Fails closed."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import attrs

from bulksigner.contract.signing import Format, Measured

__all__ = ["CheckReport", "FileValidator", "Finding", "Severity", "StagedFile"]


class Severity(enum.Enum):
    """Weight of a finding; an error ends the job."""

    ERROR = "error"
    WARNING = "warning"


@attrs.frozen
class Finding:
    """One thing found in a file: code, where, what it is in one sentence, what to do (BEY-10)."""

    code: str
    severity: Severity
    place: str
    text: str
    remedy: str


@attrs.frozen
class StagedFile:
    """The staged copy that would be signed; validators read it and nothing else."""

    path: Path
    file_name: str
    format: Format
    measured: Measured


@attrs.frozen
class CheckReport:
    """What a validator found, and the figures it read."""

    findings: tuple[Finding, ...] = ()
    summary: Mapping[str, object] = attrs.field(factory=dict)

    @property
    def passed(self) -> bool:
        """Tell whether no finding is an error."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


@runtime_checkable
class FileValidator(Protocol):
    """Checks the content of staged files."""

    @property
    def name(self) -> str:
        """Return the validator's name, unique among validators."""
        ...

    def applies(self, extras: Mapping[type, object], format: Format) -> bool:
        """Tell whether the profile (its plugin keys by class, its format) asks for this check."""
        ...

    def check(self, file: StagedFile) -> CheckReport:
        """Check one staged file; what it raises fails the job (fail closed)."""
        ...
