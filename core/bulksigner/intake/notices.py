"""Notices that something happened in a folder: hints only, the watcher's scan decides.

Linux is asked directly: the watchdog library drops what it has pending when the kernel's queue overflows and tells
nobody (watchdog 7.1), and a lost hint without a scan is a lost file (BEY-41). Other systems are asked through watchdog,
and their folders are listed at intervals besides.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

__all__ = ["InotifyNotices", "Notices", "PolledNotices", "WatchdogNotices", "notices_for"]

_CREATE, _CLOSE_WRITE, _MOVED_TO, _DELETE_SELF, _MOVE_SELF = 0x100, 0x8, 0x80, 0x400, 0x800
_UNMOUNT, _QUEUE_OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLY_FOLDERS = 0x01000000
# Reading and removing are left out: what the service does itself in the folder must not wake it.
_MASK = _CREATE | _CLOSE_WRITE | _MOVED_TO | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS
_GONE = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED
_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_REST_SECONDS = 0.05


class Notices(Protocol):
    """Wakes a watcher; one thread waits, any thread may ring."""

    @property
    def is_watching(self) -> bool:
        """Tell whether changes are reported; not before `open`, nor after the folder was removed or replaced."""
        ...

    @property
    def is_complete(self) -> bool:
        """Tell whether a loss of reports is itself reported; where not, the folder is listed at intervals too."""
        ...

    def open(self) -> None:
        """Begin to watch what is at the path now. Raises `OSError`."""
        ...

    def wait(self, timeout_seconds: float | None) -> None:
        """Return at a change, a loss of events, a ring or the timeout, whichever comes first."""
        ...

    def ring(self) -> None:
        """End the present or the next wait."""
        ...

    def close(self) -> None:
        """Stop watching; closing twice is harmless."""
        ...


class PolledNotices:
    """No events: only rings and timeouts."""

    is_watching = True
    is_complete = False

    def __init__(self) -> None:
        self._rung = threading.Event()

    def open(self) -> None:
        """Do nothing."""

    def wait(self, timeout_seconds: float | None) -> None:
        """Wait for a ring."""
        self._rung.wait(timeout_seconds)
        self._rung.clear()

    def ring(self) -> None:
        """End the wait."""
        self._rung.set()

    def close(self) -> None:
        """Do nothing."""


class WatchdogNotices(PolledNotices):
    """Events through the watchdog library."""

    is_watching = False

    def __init__(self, path: Path, is_candidate_name: Callable[[str], bool]) -> None:
        super().__init__()
        self._path = path
        self._is_candidate_name = is_candidate_name
        self._observer: object | None = None

    def open(self) -> None:
        """Start an observer of the folder."""
        # Imported here: it costs start-up time where the system is asked directly.
        from watchdog import events
        from watchdog.observers import Observer

        notices = self

        class Ringer(events.FileSystemEventHandler):  # type: ignore[misc] # the library is not typed
            def on_any_event(self, event: events.FileSystemEvent) -> None:
                notices._noticed(event.event_type, event.src_path, event.dest_path)

        self.close()
        wanted = [events.FileCreatedEvent, events.FileModifiedEvent, events.FileMovedEvent, events.DirDeletedEvent]
        observer = Observer()
        observer.schedule(Ringer(), str(self._path), recursive=False, event_filter=wanted)
        observer.start()
        self._observer = observer
        self.is_watching = True

    def close(self) -> None:
        """Stop the observer."""
        self.is_watching = False
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()  # type: ignore[attr-defined]
            observer.join()  # type: ignore[attr-defined]

    def _noticed(self, event_type: str, source: str, target: str) -> None:
        name = Path(target or source).name
        if event_type == "deleted" and Path(source) == self._path:
            self.is_watching = False
        elif not self._is_candidate_name(name):
            return
        self.ring()


class InotifyNotices:
    """Events of the Linux kernel (inotify(7)), read by the waiting thread itself."""

    is_complete = True

    def __init__(self, path: Path, is_candidate_name: Callable[[str], bool]) -> None:
        self._path = path
        self._is_candidate_name = is_candidate_name
        self._descriptor: int | None = None
        self._bell: int | None = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._bell_lock = threading.Lock()

    @property
    def is_watching(self) -> bool:
        """Tell whether the kernel reports on the folder that is at the path."""
        return self._descriptor is not None

    def open(self) -> None:
        """Watch the folder that is at the path now, with a queue of its own."""
        self._stop_watching()
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            raise _last_error(self._path)
        if libc.inotify_add_watch(descriptor, os.fsencode(self._path), _MASK) < 0:
            error = _last_error(self._path)
            os.close(descriptor)
            raise error
        self._descriptor = descriptor

    def wait(self, timeout_seconds: float | None) -> None:
        """Wait until an event says more than that an ignored name was touched."""
        if self._bell is None:
            return
        bell, both = select.poll(), select.poll()
        bell.register(self._bell, select.POLLIN)
        both.register(self._bell, select.POLLIN)
        if self._descriptor is not None:
            both.register(self._descriptor, select.POLLIN)
        ends_at = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        while ready := both.poll(_milliseconds_to(ends_at)):
            if any(descriptor == self._bell for descriptor, _ in ready):
                os.eventfd_read(self._bell)
                return
            if self._drain():
                return
            # Signed inputs are renamed before they are removed, and each would wake this thread.
            bell.poll(_milliseconds_to(min(ends_at, time.monotonic() + _REST_SECONDS)))

    def ring(self) -> None:
        """End the wait."""
        with self._bell_lock:
            if self._bell is not None:
                os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """Stop watching for good; call it when nobody waits any more."""
        self._stop_watching()
        with self._bell_lock:
            if self._bell is not None:
                os.close(self._bell)
                self._bell = None

    def _drain(self) -> bool:
        assert self._descriptor is not None
        matters = False
        while True:
            try:
                events = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return matters
            for mask, name in _parse(events):
                if mask & _GONE:
                    self._stop_watching()
                    return True
                matters = matters or bool(mask & _QUEUE_OVERFLOW) or self._is_candidate_name(name)

    def _stop_watching(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def notices_for(path: Path, is_candidate_name: Callable[[str], bool]) -> Notices:
    """Return what this system offers for a local folder."""
    kind = InotifyNotices if sys.platform == "linux" else WatchdogNotices
    return kind(path, is_candidate_name)


def _parse(events: bytes) -> list[tuple[int, str]]:
    found = []
    offset = 0
    while offset < len(events):
        _, mask, _, length = _HEADER.unpack_from(events, offset)
        offset += _HEADER.size
        found.append((mask, os.fsdecode(events[offset : offset + length].rstrip(b"\0"))))
        offset += length
    return found


def _milliseconds_to(at: float) -> float | None:
    return None if at == math.inf else max(0.0, at - time.monotonic()) * 1000


def _last_error(path: Path) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), str(path))
