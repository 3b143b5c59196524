"""`bulksigner backup`, `verify-backup` and `restore`: copies of a SQLite database (STA-83, STA-92, STA-93)."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from bulksigner.backup.checking import check_backup
from bulksigner.backup.copying import Copied, copy_database
from bulksigner.backup.keeping import prune_backups
from bulksigner.backup.naming import name_at
from bulksigner.backup.restoring import restore_backup
from bulksigner.backup.runs import Result, Run, record_run
from bulksigner.boot import lay_foundation, open_store, product_version
from bulksigner.contract.errors import BulkSignerError
from bulksigner.files.lock import hold_folder_lock
from bulksigner.jobs.model import utc_now
from bulksigner.records.migrate import known_migrations, schema_version
from bulksigner.records.service_lock import hold_database_file
from bulksigner.settings.load import LoadedSettings
from bulksigner.settings.own_places import find_backup_fault

__all__ = ["backup", "restore", "verify_backup"]

ACTOR = "CommandLine"
NOT_INCLUDED = """\
The copy has personal data, approval evidence and sealed secrets in it and is not encrypted; keep it as you keep the
database. It does not have the settings, the variables of the service (above all Signing:ProfileSecretsKey, without
which no sealed password opens), PKCS#12 files, keys/ or the files of output/: save those beside it."""


def backup(*, to: str | None) -> int:
    """Copy the database, also while the service runs; into the folder of the settings, or another."""
    settings = lay_foundation(os.environ).settings
    database = _database_file(settings)
    planned = settings.core.backup.disk.path
    folder = planned if to is None else Path(to).absolute()
    if folder is None:
        raise BulkSignerError("Name a folder with --to, or set Backup:Disk:Path.")
    fault = find_backup_fault(folder, folder, settings.core.storage, database)
    if fault is not None:
        raise BulkSignerError(f"Backups may not go there: {fault} Choose a directory of its own.")
    if not database.exists():
        raise BulkSignerError(f"There is no database {database} yet; it is made at the first start.")
    done = copy_database(database, folder / name_at(utc_now()), product_version=product_version())
    _record(settings, done)
    if folder == planned:
        for path in prune_backups(folder, settings.core.backup.retain_count):
            print(f"Removed {path}")
    print(f"Wrote {done.path} ({done.length} bytes, SHA-256 {done.sha256})")
    print(NOT_INCLUDED)
    return 0


def verify_backup(file: str) -> int:
    """Check a backup without changing anything."""
    checked = check_backup(Path(file).absolute(), known_migrations()[-1].version)
    rows = ", ".join(f"{name} {count}" for name, count in checked.rows.items())
    print(f"{checked.path} is sound: {checked.length} bytes, schema version {checked.schema_version}")
    print(f"  begun {checked.started_at} by bulksigner {checked.product_version}; rows: {rows}")
    return 0


def restore(file: str) -> int:
    """Put a backup in the place of the database, with the service stopped."""
    settings = lay_foundation(os.environ).settings
    database = _database_file(settings)
    root = settings.core.storage.root
    held = hold_folder_lock(root / "db" / ".lock")
    try:
        lock = hold_database_file(database, f"SQLite ({database})")
        try:
            newest = known_migrations()[-1].version
            kept = restore_backup(Path(file).absolute(), database, newest_schema=newest, now=utc_now())
        finally:
            lock.release()
    finally:
        held.release()
    print(f"{database} is now the content of {file}.")
    if kept is not None:
        print(f"The database it replaced is kept as {kept}.")
    print(
        f"Before you start the service: jobs that ended after the backup are unknown to it. Their files are in "
        f"{root / 'output'} and {root / 'error'} all the same; do not deliver their inputs again. Folders in "
        f"{root / 'processing'} that belong to no job of the backup are named in the log at the start and left alone; "
        "compare and remove them by hand."
    )
    return 0


def _database_file(settings: LoadedSettings) -> Path:
    location = settings.core.database_location
    if not isinstance(location, Path):
        raise BulkSignerError(
            "Database:Provider is PostgreSql: use the server's own backups, such as pg_dump and pg_restore."
        )
    return location


def _record(settings: LoadedSettings, done: Copied) -> None:
    """Tell the database of the copy, so that the schedule counts from it; the copy is good all the same."""
    run = Run(
        str(uuid.uuid4()),
        ACTOR,
        Result.SUCCEEDED,
        str(done.path.parent),
        done.started_at,
        done.ended_at,
        done.path.name,
        done.length,
    )
    try:
        store = open_store(settings)
        try:
            if schema_version(store):
                record_run(store, run)
        finally:
            store.close()
    except BulkSignerError as error:
        print(f"The event of the backup could not be recorded: {error.message}")
