"""The copy that is made before a start changes the schema of a SQLite database (STA-91)."""

from __future__ import annotations

import datetime
import logging
import re

from bulksigner.backup.copying import BackupFailed, copy_database
from bulksigner.backup.naming import describe_beside, list_backups, name_at
from bulksigner.contract.errors import StartRefused
from bulksigner.records.migrate import known_migrations, schema_version
from bulksigner.records.sqlite import SqliteStore
from bulksigner.records.store import Store

__all__ = ["copy_before_migration"]

EXIT_DATA = 65
KEPT = 3
_FORM = re.compile(r"bulksigner-\d+-(\d{8}-\d{6})\.db")
_log = logging.getLogger("bulksigner.backup")


def copy_before_migration(store: Store, *, product_version: str, now: datetime.datetime) -> None:
    """Copy a SQLite database that the start is about to migrate; a new one and one that is current need none.

    Raises `StartRefused` (exit 65) when the copy cannot be made.
    """
    if not isinstance(store, SqliteStore):
        return
    present, newest = schema_version(store), known_migrations()[-1].version
    if not 0 < present < newest:
        return
    folder = store.path.parent / "pre-migration"
    try:
        done = copy_database(store.path, folder / name_at(now, present), product_version=product_version)
    except BackupFailed as error:
        raise StartRefused(
            f"{store.label} has schema version {present} and would be brought to {newest}, but it could not be copied "
            f"before: {error.message} Nothing was changed. Make room, or start once with "
            "`bulksigner serve --skip-pre-migration-backup` when you have a backup of your own.",
            exit_code=EXIT_DATA,
        ) from error
    _log.info("The database was copied to %s before it is brought to schema version %s", done.path, newest)
    for old in sorted(list_backups(folder, _FORM), key=lambda path: path.name.split("-", 2)[2], reverse=True)[KEPT:]:
        try:
            old.unlink()
            describe_beside(old).unlink(missing_ok=True)
        except OSError as error:
            _log.warning("The old copy %s cannot be removed: %s", old, error)
