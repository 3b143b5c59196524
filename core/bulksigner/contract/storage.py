"""Storage providers: where folders of files live (role `storage provider`)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import attrs

__all__ = ["Entry", "Fingerprint", "Folder", "Hold", "NearFolder", "Removal", "RemovalOutcome", "StorageProvider"]


@attrs.frozen
class Entry:
    """One regular file as a listing or a look shows it; symbolic links and folders are never entries (PIPE-40)."""

    name: str
    length: int
    modified_ns: int


@attrs.frozen
class Fingerprint:
    """What a file was when it was copied: length, SHA-256 (32 bytes) and the service's entity tag, where it has one."""

    length: int
    sha256: bytes
    entity_tag: str | None = None


class Hold(Protocol):
    """An exclusive claim on one file, real (a lease) or kept in this process only (PIPE-91)."""

    def release(self) -> None:
        """End the hold; ending it twice is harmless."""
        ...


class RemovalOutcome(enum.Enum):
    """How a conditional removal ended; `KEPT` is the signed file itself, which cannot be removed."""

    REMOVED = "removed"
    ABSENT = "absent"
    DIVERGED = "diverged"
    KEPT = "kept"


@attrs.frozen
class Removal:
    """Outcome of `Folder.remove_if`; `reason` is set when the file was left (PIPE-93)."""

    outcome: RemovalOutcome
    reason: str = ""


@runtime_checkable
class Folder(Protocol):
    """One opened folder; only its top level counts."""

    @property
    def location(self) -> str:
        """Return the folder's place as an operator knows it."""
        ...

    def path_of(self, name: str) -> str:
        """Return the full stored path of a file of this folder (PIPE-01)."""
        ...

    def entries(self) -> Iterable[Entry]:
        """List the regular files. Raises `ProviderError` when the folder cannot be listed."""
        ...

    def look(self, name: str) -> Entry | None:
        """Look at one file; None when it is not there."""
        ...

    def hold(self, name: str) -> Hold:
        """Take an exclusive hold on a file. Raises `HeldElsewhere`; never breaks another's hold."""
        ...

    def copy_to(self, name: str, target: Path) -> Fingerprint:
        """Copy a file to a new local file in one read that also measures it (PIPE-74, PERF-05).

        Raises `FileNotFoundError` when the file is gone, `ProviderError` when it cannot be read.
        """
        ...

    def remove_if(self, name: str, expected: Fingerprint) -> Removal:
        """Remove a file only while it still is what `expected` says (PIPE-92); durable when it returns."""
        ...

    def receive(self, name: str, source: Path) -> None:
        """Move a finished local file into the folder under a new name, create-only and durable.

        Raises `FileExistsError` when the name is taken.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a file that the product itself placed; nothing happens when it is gone."""
        ...


@runtime_checkable
class NearFolder(Protocol):
    """A folder that may lie on a disk of this host, where copying and removing wait for nobody.

    Where it does, its object travels by pickle to other processes of the service, and `copy_to` and `remove_now` are
    called there; holds are taken in the service's own process.
    """

    @property
    def is_near(self) -> bool:
        """Tell whether it lies on a disk of this host."""
        ...

    def remove_now(self, name: str, expected: Fingerprint) -> Removal:
        """Do what `Folder.remove_if` does in one try, without waiting for anything."""
        ...


@runtime_checkable
class StorageProvider(Protocol):
    """Opens folders of one kind of storage."""

    @property
    def name(self) -> str:
        """Return the value of `Storage:Provider` that chooses this provider."""
        ...

    @property
    def notifies(self) -> bool:
        """Tell whether the operating system reports changes; where not, folders are polled."""
        ...

    def open(self, path: str, options: Mapping[str, str]) -> Folder:
        """Open a folder; cheap, may fail with `ProviderError`."""
        ...
