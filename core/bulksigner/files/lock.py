"""One process per data directory: an exclusive lock on a file that names its holder (OPS-23)."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from bulksigner.contract.errors import StartRefused

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["FolderLock", "hold_folder_lock"]

_IN_USE = 75
_CANNOT_CREATE = 73
# Windows locks ranges and forbids reading them; this one lies behind the text that names the holder.
_LOCKED_BYTE = 4096


class FolderLock:
    """A held lock; the system ends it with the process, however that ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """End the lock; ending it twice is harmless. The file stays, as removing it would let two in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def hold_folder_lock(path: Path) -> FolderLock:
    """Lock the file, creating it and its folder (0700, SEC-71), and write host and process id into it.

    Raises `StartRefused`: exit 75 naming the holder, exit 73 when the file cannot be created.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o640)
    except OSError as error:
        raise StartRefused(
            f"The lock file {path} cannot be opened: {error.strerror}: {error.filename}. Make {path.parent} a folder "
            f"that the account of the service may write to, or name another Storage:Root.",
            exit_code=_CANNOT_CREATE,
        ) from error
    try:
        _lock(descriptor)
    except OSError as error:
        holder = os.pread(descriptor, 300, 0).decode("utf-8", "replace").strip() if hasattr(os, "pread") else ""
        os.close(descriptor)
        raise StartRefused(
            f"Another bulksigner works on {path.parent.parent}: {holder or 'it has not written its name yet'} "
            f"(lock {path}). Stop it first, or give this one its own Storage:Root.",
            exit_code=_IN_USE,
        ) from error
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"host {socket.gethostname()}, process {os.getpid()}\n".encode())
    return FolderLock(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
