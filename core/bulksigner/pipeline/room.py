"""Room to work: no job is claimed that the volumes could not hold (PIPE-129, BEY-22)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from bulksigner.files.volumes import Volume

__all__ = ["ROOM_PER_ENCRYPTED_FILE", "ROOM_PER_FILE", "Room"]

log = logging.getLogger(__name__)

ROOM_PER_FILE = 3
"""A staged copy, the signed file, and as much again for what is written beside them."""
ROOM_PER_ENCRYPTED_FILE = 4
"""An envelope lies beside the signed file, and signed as PEM both are longer than the input by a third."""
AMPLE_BYTES = 8 * 1024 * 1024 * 1024
"""With this much free the sizes of what waits are not looked at: no more than a look at the volume for each claim."""
NEARLY_FULL_BYTES = 1024 * 1024 * 1024
NEARLY_FULL_SHARE = 20
"""A volume with less than one part in this many free is nearly full (OPS-189)."""
_PAGE = 200

Waiting = Callable[[int, int], Sequence[tuple[str, str]]]


class Room:
    """Chooses what may be claimed, by the free space of the volumes in use; the first holds the work root.

    `waiting` answers, for an offset and a limit, ids and input paths of queued jobs, oldest first. `choose` belongs to
    one thread.
    """

    def __init__(
        self,
        volumes: Sequence[Volume],
        minimum_free_bytes: int,
        waiting: Waiting,
        room_per_file: int = ROOM_PER_FILE,
    ) -> None:
        self._room_per_file = room_per_file
        self._volumes = volumes
        self._minimum_free_bytes = minimum_free_bytes
        self._waiting = waiting
        self._told = ""
        self._kept_waiting = ""

    def choose(self, limit: int) -> Sequence[str] | None:
        """Return the ids of up to `limit` queued jobs there is room for, oldest first; None when any may be claimed.

        Each episode of a shortage is logged once.
        """
        shortage = next(filter(None, map(self._shortage, self._volumes)), "")
        chosen: Sequence[str] | None = ()
        kept_waiting = ""
        if not shortage:
            chosen, kept_waiting = self._fit(limit)
        self._kept_waiting = kept_waiting
        self._tell(shortage, kept_waiting)
        return chosen

    def look(self, volume: Volume) -> tuple[bool, str]:
        """Answer the readiness row of one of the volumes (API-100)."""
        shortage = self._shortage(volume) or (self._kept_waiting if volume == self._volumes[0] else "")
        if shortage:
            return False, shortage
        free, total = volume.free_bytes(), volume.total_bytes()
        is_low = free < NEARLY_FULL_BYTES or free * NEARLY_FULL_SHARE < total
        return not is_low, f"{_mebibytes(free)} of {_mebibytes(total)} free" + (", nearly full" if is_low else "")

    def _shortage(self, volume: Volume) -> str:
        """Say that a volume has too little space whatever waits, or nothing."""
        free = volume.free_bytes()
        if free >= self._minimum_free_bytes:
            return ""
        return (
            f"{volume.folder} has {_mebibytes(free)} free and Storage:MinimumFreeBytes asks for "
            f"{_mebibytes(self._minimum_free_bytes)}. Free space there; the queued jobs then go on by themselves"
        )

    def _fit(self, limit: int) -> tuple[Sequence[str] | None, str]:
        """Choose the oldest jobs that fit beside each other; say which file has no room by itself, or nothing."""
        work = self._volumes[0]
        free = left = work.free_bytes()
        if free >= AMPLE_BYTES:
            return None, ""
        chosen: list[str] = []
        kept_waiting = ""
        offset = 0
        while page := self._waiting(offset, _PAGE):
            for job_id, path in page:
                length = _length(path)
                needed = self._room_per_file * length
                if needed <= left:
                    left -= needed
                    chosen.append(job_id)
                    if len(chosen) == limit:
                        return chosen, kept_waiting
                elif needed > free and not kept_waiting:
                    kept_waiting = (
                        f"{path} has {_mebibytes(length)} and {work.folder} {_mebibytes(free)} free; "
                        f"{self._room_per_file} times the size of a file is needed. "
                        "Free space there, or take the file out of its folder"
                    )
            offset += len(page)
        return chosen, kept_waiting

    def _tell(self, shortage: str, kept_waiting: str) -> None:
        kind = "all" if shortage else "some" if kept_waiting else ""
        if kind == self._told:
            return
        self._told = kind
        if shortage:
            log.warning("No job is claimed; queued jobs wait: %s", shortage)
        elif kept_waiting:
            log.warning("A queued job waits while smaller ones go on: %s", kept_waiting)
        else:
            log.info("There is room for every queued job again")


def _length(path: str) -> int:
    """Return the length of an input on this host; one that is gone, or lies on a share, needs nothing here."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _mebibytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"
