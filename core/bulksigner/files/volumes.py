"""The volumes that files lie on: what kind of place, and how much space."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import attrs

from bulksigner.mounts import network_type

__all__ = ["Volume", "distinct_volumes", "is_on_this_host"]


@attrs.frozen
class Volume:
    """The volume that holds a folder."""

    folder: Path

    def free_bytes(self) -> int:
        """Return what this account may still write, in bytes (BEY-22)."""
        return shutil.disk_usage(self.folder).free

    def total_bytes(self) -> int:
        """Return the size of the volume, in bytes."""
        return shutil.disk_usage(self.folder).total


def distinct_volumes(folders: Sequence[Path]) -> tuple[Volume, ...]:
    """Return the volumes of existing folders, each once and under the first folder on it."""
    first_on: dict[int, Path] = {}
    for folder in folders:
        first_on.setdefault(folder.stat().st_dev, folder)
    return tuple(map(Volume, first_on.values()))


def is_on_this_host(path: Path) -> bool:
    """Tell whether a path lies on a disk of this host, so that it never waits for another one (BEY-41)."""
    return network_type(path) is None
