"""Copy a SQLite database while it is in use, and prove the copy before it gets its name (STA-83, STA-84, STA-88)."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import attrs

from bulksigner.backup.naming import describe_beside, part_beside
from bulksigner.contract.errors import BulkSignerError
from bulksigner.files import durable
from bulksigner.jobs.model import utc_now
from bulksigner.records.times import write_time

__all__ = ["BackupCanceled", "BackupFailed", "Copied", "copy_database"]

STEP_PAGES = 1024
BUSY_SECONDS = 30
FOLDER_MODE, FILE_MODE = 0o700, 0o600
COUNTED = ("job", "job_history", "operational_event", "profile")


class BackupFailed(BulkSignerError):
    """Report that no backup was made, and that nothing of it is left at the destination."""


class BackupCanceled(BulkSignerError):
    """Report that a backup was ended on request; nothing of it is left."""


@attrs.frozen
class Copied:
    """A finished copy, as the description beside it tells; the SHA-256 in hex."""

    path: Path
    sha256: str
    length: int
    started_at: datetime.datetime
    ended_at: datetime.datetime


def copy_database(
    source: Path,
    target: Path,
    *,
    product_version: str,
    should_stop: Callable[[], bool] = lambda: False,
    now: Callable[[], datetime.datetime] = utc_now,
) -> Copied:
    """Copy the database `source` to `target`, which gets its name last; its folder is made if only that is missing.

    Raises `BackupFailed` and `BackupCanceled`; then no part of the copy is left.
    """
    part, description = part_beside(target), describe_beside(target)
    started_at = now()
    try:
        target.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        _check_room(source, target.parent)
        # Before anything is written: the copy has personal data and sealed secrets in it.
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
        with contextlib.ExitStack() as undo:
            for remains in (part, part.with_name(f"{part.name}-wal"), part.with_name(f"{part.name}-shm")):
                undo.callback(remains.unlink, missing_ok=True)
            _copy_pages(source, part, should_stop)
            facts = _prove(part)
            durable.flush_file(part)
            measured = durable.measure(part)
            done = Copied(target, measured.sha256.hex(), measured.length, started_at, now())
            _describe(description, done, facts, product_version)
            undo.callback(description.unlink, missing_ok=True)
            durable.promote(part, target)
            undo.pop_all()
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(f"No backup was written to {target}: {_explain(error)}.") from error
    return done


def _explain(error: OSError | sqlite3.Error) -> str:
    if isinstance(error, FileExistsError):
        return "the name is taken, so another backup runs or has just ended"
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename}" if error.filename else str(error.strerror or error)
    return str(error)


def _check_room(source: Path, folder: Path) -> None:
    length = sum(path.stat().st_size for path in (source, source.with_name(f"{source.name}-wal")) if path.exists())
    needed, free = length + length // 10, shutil.disk_usage(folder).free
    if free < needed:
        raise BackupFailed(
            f"No backup was written to {folder}: {needed} bytes are needed (the database and 10 %), {free} are free. "
            "Free space there, or name another place."
        )


def _copy_pages(source: Path, part: Path, should_stop: Callable[[], bool]) -> None:
    def look(_: int, __: int, ___: int) -> None:
        if should_stop():
            raise BackupCanceled("The backup was cancelled.")

    # `rw` and not the default, which would make an empty database where there is none.
    with (
        contextlib.closing(
            sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        ) as origin,
        contextlib.closing(sqlite3.connect(part, isolation_level=None)) as copy,
    ):
        origin.execute("PRAGMA query_only = ON")
        # One snapshot for all steps: without it every write of somebody else makes the copy begin anew, and under load
        # it would never end. Writers are not held up, their pages wait in the write-ahead log.
        origin.execute("BEGIN")
        origin.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        # A copy that is not finished is worth nothing, so it needs no journal; it is flushed as a whole.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        origin.backup(copy, pages=STEP_PAGES, progress=look)


def _prove(part: Path) -> dict[str, object]:
    """Turn the copy into a single file, check it, and return what its description tells of the content."""
    with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")
        found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise BackupFailed(f"The copy is damaged ({found}); no backup was kept. Look at the database itself.")
        known = {row[0] for row in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = {name: copy.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in COUNTED if name in known}  # noqa: S608  # our own names
        version = 0
        if "schema_version" in known:
            version = copy.execute("SELECT COALESCE(MAX(version), 0) FROM schema_version").fetchone()[0]
    return {"schemaVersion": version, "rows": rows}


def _describe(path: Path, done: Copied, facts: dict[str, object], product_version: str) -> None:
    document = {
        "file": done.path.name,
        "sha256": done.sha256,
        "bytes": done.length,
        "productVersion": product_version,
        "startedAt": write_time(done.started_at),
        "endedAt": write_time(done.ended_at),
        **facts,
    }
    text = json.dumps(document, indent=2) + "\n"
    durable.write_new(path, lambda out: out.write(text.encode()))
