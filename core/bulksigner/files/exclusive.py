"""Rename without replacing (Linux `renameat2`)."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

__all__ = ["rename_exclusive"]

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


def rename_exclusive(source: Path, target: Path) -> None:
    """Rename a file unless the new name is taken, as one step of the kernel.

    Raises `FileExistsError` when it is, `OSError` (ENOTSUP) where the system has no such call.
    """
    rename = getattr(_LIBC, "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOTSUP, "the system has no renameat2", str(source))
    # What `os.rename` reports to audit hooks (PEP 578).
    sys.audit("os.rename", os.fspath(source), os.fspath(target), -1, -1)
    if rename(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(source), None, str(target))


_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
