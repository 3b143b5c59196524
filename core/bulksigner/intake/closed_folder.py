"""A folder that could not be opened (CFG-59)."""

# ruff: noqa: ARG002 - whatever a method is asked, it refuses

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import attrs

from bulksigner.contract.errors import TemporaryFailure
from bulksigner.contract.storage import Entry, Fingerprint, Hold, Removal

__all__ = ["ClosedFolder"]


@attrs.frozen
class ClosedFolder:
    """Stands in the list for a folder whose provider could not open it, and says why at each use."""

    location: str
    _reason: str

    def path_of(self, name: str) -> str:
        """Return a path that names the file as well as can be."""
        return f"{self.location}/{name}"

    def entries(self) -> Iterable[Entry]:
        """Refuse."""
        self._fail()

    def look(self, name: str) -> Entry | None:
        """Refuse."""
        self._fail()

    def hold(self, name: str) -> Hold:
        """Refuse."""
        self._fail()

    def copy_to(self, name: str, target: Path) -> Fingerprint:
        """Refuse."""
        self._fail()

    def remove_if(self, name: str, expected: Fingerprint) -> Removal:
        """Refuse."""
        self._fail()

    def receive(self, name: str, source: Path) -> None:
        """Refuse."""
        self._fail()

    def remove(self, name: str) -> None:
        """Refuse."""
        self._fail()

    def _fail(self) -> NoReturn:
        raise TemporaryFailure(f"{self.location} could not be opened when the service started: {self._reason}")
