"""What a folder may be able to do beyond its contract; one that cannot is worked without."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bulksigner.contract.storage import Fingerprint

__all__ = ["KnowsRemoval", "KnowsWriters", "LeavesSomething", "Measures", "ProbesRights"]


@runtime_checkable
class LeavesSomething(Protocol):
    """Has work that a killed process left half done."""

    def settle_leftovers(self) -> list[str]:
        """Finish or undo it, and say what was done."""
        ...


@runtime_checkable
class KnowsRemoval(Protocol):
    """Knows beforehand whether files can be removed."""

    def find_removal_fault(self) -> str | None:
        """Say why nothing can be removed; None when it can."""
        ...


@runtime_checkable
class ProbesRights(Protocol):
    """Tries the rights that the product needs, with a file of its own."""

    def probe_rights(self) -> float:
        """List, read, create and remove, and return how far the clock of the files is ahead of ours, in seconds.

        Raises `ProviderError` naming the right that is missing.
        """
        ...


@runtime_checkable
class KnowsWriters(Protocol):
    """Knows which files are still being written."""

    def is_being_written(self, name: str) -> bool:
        """Tell whether a program has the file open for writing."""
        ...


@runtime_checkable
class Measures(Protocol):
    """Measures a file without a copy."""

    def measure(self, name: str) -> Fingerprint:
        """Measure a file where it lies. Raises `ProviderError`."""
        ...
