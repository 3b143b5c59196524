"""The health of an input folder: mounted, with the rights it needs, and how many files wait (BEY-40)."""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs

from bulksigner.contract.errors import ProviderError
from bulksigner.contract.storage import Entry, Folder
from bulksigner.intake.abilities import ProbesRights
from bulksigner.mounts import MountMark

__all__ = ["FolderGuard", "Waiting", "WaitingFiles"]

_AGAIN_SECONDS = 30.0
_FRESH_SECONDS = 5.0

log = logging.getLogger(__name__)


class FolderGuard:
    """Watches over one folder of this host: its mount at each look, its rights at boot and until they are there.

    A share gets no probe file; there only the operator asks for one (AZF-60).
    """

    def __init__(self, path: Path, folder: Folder, clock: Callable[[], float] = time.monotonic) -> None:
        self._mark = MountMark(path)
        self._path = path
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()
        self._probe_at: float | None = None
        self._rights_fault: str | None = None
        self.clock_difference_seconds: float | None = None
        """How far the clock that gives the folder's files their time is ahead of ours, as the last probe saw it."""

    def begin(self) -> str | None:
        """Remember the mount and try the rights; say what is missing. Call once, at boot."""
        self._probe_at = self._clock()
        return self.find_fault()

    def find_fault(self) -> str | None:
        """Say why no file may be taken: the mount is gone, or a right is missing; None when all is well."""
        loss = self._mark.find_loss()
        if loss is not None:
            return loss
        with self._lock:
            if self._probe_at is not None and self._clock() >= self._probe_at and self._path.is_dir():
                self._rights_fault = self._probe()
                self._probe_at = None if self._rights_fault is None else self._clock() + _AGAIN_SECONDS
            return self._rights_fault

    def _probe(self) -> str | None:
        if not isinstance(self._folder, ProbesRights):
            return None
        try:
            self.clock_difference_seconds = self._folder.probe_rights()
        except ProviderError as error:
            return error.message
        return None


@attrs.frozen
class Waiting:
    """How many files lie in a folder that may become jobs, and since when the oldest does."""

    count: int = 0
    oldest_at: datetime.datetime | None = None


class WaitingFiles:
    """Counts the files of a folder, at most once in some seconds however often it is asked."""

    def __init__(
        self,
        entries: Callable[[], Iterable[Entry]],
        is_candidate_name: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries = entries
        self._is_candidate_name = is_candidate_name
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[float, Waiting] | None = None

    def count(self) -> Waiting:
        """Return what waits; raises `ProviderError` when the folder cannot be listed."""
        with self._lock:
            now = self._clock()
            if self._known is None or now - self._known[0] >= _FRESH_SECONDS:
                self._known = now, self._look()
            return self._known[1]

    def _look(self) -> Waiting:
        times = [entry.modified_ns for entry in self._entries() if self._is_candidate_name(entry.name)]
        if not times:
            return Waiting()
        return Waiting(len(times), datetime.datetime.fromtimestamp(min(times) / 1e9, datetime.UTC))
