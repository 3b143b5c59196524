"""One process per data directory (OPS-23)."""

from __future__ import annotations

from pathlib import Path

from bulksigner.contract.errors import StartRefused
from bulksigner.files.durable import is_disk_full
from bulksigner.locks import HeldLock, LockHeld, lock_file

__all__ = ["hold_folder_lock"]

_IN_USE = 75
_CANNOT_CREATE = 73


def hold_folder_lock(path: Path) -> HeldLock:
    """Lock the file in the data directory.

    Raises `StartRefused`: exit 75 naming the holder, exit 73 when the file cannot be created.
    """
    try:
        return lock_file(path)
    except LockHeld as held:
        raise StartRefused(
            f"Another bulksigner works on {path.parent.parent}: {held} (lock {path}). Stop it first. A second service "
            "needs a Storage:Root, a database (ConnectionStrings:Default) and input folders of its own.",
            exit_code=_IN_USE,
        ) from held
    except OSError as error:
        remedy = (
            f"Free space below {path.parent}."
            if is_disk_full(error)
            else f"Make {path.parent} a folder that the account of the service may write to, or name another "
            f"Storage:Root."
        )
        raise StartRefused(
            f"The lock file {path} cannot be opened: {error.strerror}: {error.filename or path}. {remedy}",
            exit_code=_CANNOT_CREATE,
        ) from error
