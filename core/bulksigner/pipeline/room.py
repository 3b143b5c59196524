"""Room to work: no job is claimed that the work root could not hold (PIPE-129, BEY-22)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bulksigner.files.work import WorkRoots

__all__ = ["Room"]

MINIMUM_FREE_BYTES = 256 * 1024 * 1024
LARGEST_SHARE = 8
"""A small volume keeps one part in this many free, where `MINIMUM_FREE_BYTES` would leave it nothing."""
ROOM_PER_FILE = 3
"""A staged copy, the signed file, and as much again for what is written beside them."""
AMPLE_BYTES = 8 * 1024 * 1024 * 1024
"""With this much free the sizes of what waits are not looked at: no more than a look at the volume for each claim."""


class Room:
    """Says why nothing may be claimed, judged by the free space of the work root."""

    def __init__(self, roots: WorkRoots, next_paths: Callable[[], Sequence[str]]) -> None:
        self._roots = roots
        self._next_paths = next_paths

    def why_not(self) -> str | None:
        """Say why no job may be claimed now, or None when there is room for the next ones."""
        shortage = self.shortage()
        if shortage is not None:
            return shortage
        free = self._roots.free_bytes()
        if free >= AMPLE_BYTES:
            return None
        lengths = {path: _length(path) for path in self._next_paths()}
        path = max(lengths, key=lengths.__getitem__, default=None)
        if path is None or free >= ROOM_PER_FILE * lengths[path]:
            return None
        return (
            f"{path} has {_mebibytes(lengths[path])} and {self._roots.root} {_mebibytes(free)} free; "
            f"{ROOM_PER_FILE} times the size of a file is needed. Free space there, or take the file out of its folder"
        )

    def shortage(self) -> str | None:
        """Say that the work root is short of space whatever waits, or None."""
        free = self._roots.free_bytes()
        least = min(MINIMUM_FREE_BYTES, self._roots.total_bytes() // LARGEST_SHARE)
        if free >= least:
            return None
        return (
            f"{self._roots.root} has {_mebibytes(free)} free and {_mebibytes(least)} are the least to work with. "
            "Free space there; the queued jobs then go on by themselves"
        )

    def look(self) -> tuple[bool, str]:
        """Answer the readiness row of the work root's volume."""
        shortage = self.shortage()
        return shortage is None, shortage or f"{_mebibytes(self._roots.free_bytes())} free"


def _length(path: str) -> int:
    """Return the length of an input on this host; one that is gone, or lies on a share, needs nothing here."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _mebibytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"
