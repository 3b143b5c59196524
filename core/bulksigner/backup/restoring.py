"""Put a backup in the place of the database, with the service stopped (STA-92)."""

from __future__ import annotations

import datetime
import os
import shutil
from pathlib import Path

from bulksigner.backup.checking import check_backup
from bulksigner.contract.errors import BulkSignerError
from bulksigner.files import durable

__all__ = ["RestoreFailed", "restore_backup"]

_SIDE_FILES = ("-wal", "-shm")


class RestoreFailed(BulkSignerError):
    """Report that the database was not replaced."""


def restore_backup(backup: Path, database: Path, *, newest_schema: int, now: datetime.datetime) -> Path | None:
    """Replace `database` by a checked copy of `backup`; return where the replaced one is kept, or None without one.

    The caller holds the locks of the service. The database has its name at every moment, so that a start in between
    finds the old or the new one and never makes an empty one. Raises `BackupUnusable` and `RestoreFailed`.
    """
    check_backup(backup, newest_schema)
    arriving = database.with_name(f"{database.name}.restoring")
    kept = database.with_name(f"{database.name}.replaced-{now:%Y%m%d-%H%M%S}")
    try:
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        arriving.unlink(missing_ok=True)
        with durable.open_regular(backup) as source:
            durable.copy_measured(source, arriving, flush=True)
        is_present = database.exists()
        if is_present:
            # As they are, unopened: SQLite would throw away the log of a database that it cannot read.
            for suffix in ("", "-wal"):
                _keep(database.with_name(database.name + suffix), kept.with_name(kept.name + suffix))
            durable.flush_folder(database.parent)
        for suffix in _SIDE_FILES:
            # A log that stays would be played into the restored database.
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        arriving.replace(database)
        durable.flush_folder(database.parent)
    except OSError as error:
        arriving.unlink(missing_ok=True)
        raise RestoreFailed(
            f"The database was not replaced: {error.strerror or error}: {error.filename}. Look at free space and at "
            "the rights of the account."
        ) from error
    return kept if is_present else None


def _keep(path: Path, kept: Path) -> None:
    if not path.exists():
        return
    try:
        os.link(path, kept)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links.
        shutil.copy2(path, kept)
        durable.flush_file(kept)
