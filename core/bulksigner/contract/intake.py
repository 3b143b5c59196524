"""Intake sources: work that is not a file in a folder (role `intake source`). Declared; not called yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

import attrs

__all__ = ["Candidate", "IntakeSource"]


@attrs.frozen
class Candidate:
    """One piece of work an intake source offers: its reference there and a name fit for a file."""

    reference: str
    file_name: str
    metadata: Mapping[str, str] = attrs.field(factory=dict)


@runtime_checkable
class IntakeSource(Protocol):
    """Finds work elsewhere, on behalf of a profile."""

    @property
    def name(self) -> str:
        """Return the source's name, unique among intake sources."""
        ...

    def candidates(self, profile: str) -> Iterator[Candidate]:
        """List what waits there for the profile; raises `TemporaryFailure` when it cannot be asked."""
        ...
