"""One service per input folder: two with databases of their own would each sign every file."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from bulksigner.locks import HeldLock, lock_folder

__all__ = ["FolderClaim"]


class FolderClaim:
    """A lock on a local folder itself, taken when the folder is there and again when it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._held: HeldLock | None = None

    def find_fault(self) -> str | None:
        """Take or keep the lock; say so when another service has it. Where folders cannot be locked, nobody has it."""
        with self._lock, contextlib.suppress(OSError):
            if self._held is not None:
                if self._held.is_on(self._path):
                    return None
                self._held.release()
                self._held = None
            try:
                self._held = lock_folder(self._path)
            except BlockingIOError:
                return f"another service takes the files of {self._path}; they would be signed twice"
        return None

    def release(self) -> None:
        """Let go of the folder."""
        with self._lock:
            if self._held is not None:
                self._held.release()
                self._held = None
