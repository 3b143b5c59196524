"""Exclusive locks on files and folders that the system ends with their process (OPS-23, OPS-60)."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["HeldLock", "LockHeld", "lock_file", "lock_folder"]

# Windows locks ranges and forbids reading them; this one lies behind the text that names the holder.
_LOCKED_BYTE = 4096


class LockHeld(Exception):
    """Report that another process has the lock; the text is what it wrote about itself."""


class HeldLock:
    """A held lock."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def is_on(self, path: Path) -> bool:
        """Tell whether the path still names what is locked; a folder made anew or mounted over is another."""
        return self._descriptor is not None and os.path.samestat(os.fstat(self._descriptor), path.stat())

    def release(self) -> None:
        """End the lock; ending it twice is harmless. The file stays, as removing it would let two in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_file(path: Path) -> HeldLock:
    """Lock the file, creating it and its folder (0700, SEC-71), and write host and process id into it.

    Raises `LockHeld`, and `OSError` when the file cannot be opened.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o640)
    try:
        _lock(descriptor)
    except OSError as error:
        holder = os.pread(descriptor, 300, 0).decode("utf-8", "replace").strip() if hasattr(os, "pread") else ""
        os.close(descriptor)
        raise LockHeld(holder or "a process that has not written its name yet") from error
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"host {socket.gethostname()}, process {os.getpid()}\n".encode())
    return HeldLock(descriptor)


def lock_folder(path: Path) -> HeldLock:
    """Lock a folder itself, so that nothing is written into it.

    Raises `BlockingIOError` when another holds it, any other `OSError` when it cannot be locked here.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "folders cannot be locked on Windows", str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return HeldLock(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
