"""What is restored is what was copied; what cannot be used is refused and nothing is touched."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner.backup import restoring
from bulksigner.backup.checking import BackupUnusable, check_backup
from bulksigner.backup.copying import Copied
from bulksigner.backup.restoring import RestoreFailed, restore_backup
from bulksigner.records.migrate import known_migrations
from bulksigner.records.sqlite import SqliteStore, open_sqlite

NEWEST = known_migrations()[-1].version
NOW = datetime.datetime(2026, 9, 1, 8, tzinfo=datetime.UTC)


def state(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
        if path.is_file()
    }


def count_jobs(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as opened:
        found: int = opened.execute("SELECT COUNT(*) FROM job").fetchone()[0]
        return found


def test_a_check_tells_of_a_sound_backup_and_changes_nothing(copied: Copied, folder: Path) -> None:
    """STA-93: SHA-256, integrity and schema; no file beside it, not even for a moment after."""
    before = state(folder)
    checked = check_backup(copied.path, NEWEST)
    assert (checked.length, checked.schema_version, checked.rows["job"]) == (copied.length, NEWEST, 20)
    assert state(folder) == before


def flip(copied: Copied) -> None:
    content = bytearray(copied.path.read_bytes())
    content[len(content) // 2] ^= 1
    copied.path.write_bytes(content)


def redescribe(copied: Copied) -> None:
    """Damage the database and describe the damaged bytes."""
    content = bytearray(copied.path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    copied.path.write_bytes(content)
    description = copied.path.with_suffix(".json")
    told = json.loads(description.read_text()) | {"sha256": hashlib.sha256(content).hexdigest()}
    description.write_text(json.dumps(told))


FAULTS: dict[str, tuple[Callable[[Copied], object], str]] = {
    "one bit": (flip, "SHA-256 differs"),
    "damaged before it was described": (redescribe, "Use another backup"),
    "no description": (lambda copied: copied.path.with_suffix(".json").unlink(), "keep both together"),
    "description is no JSON": (lambda copied: copied.path.with_suffix(".json").write_text("{"), "is no JSON"),
    "description of nothing": (lambda copied: copied.path.with_suffix(".json").write_text("[]"), "does not describe"),
    "no database": (lambda copied: copied.path.unlink(), "cannot be read"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_backup_that_cannot_be_trusted_is_refused(database: SqliteStore, copied: Copied, fault: str) -> None:
    """STA-92, STA-93: by both commands, with the reason; the database stays."""
    act, reason = FAULTS[fault]
    act(copied)
    database.close()
    before = state(database.path.parent)
    with pytest.raises(BackupUnusable, match=reason):
        check_backup(copied.path, NEWEST)
    with pytest.raises(BackupUnusable, match=reason):
        restore_backup(copied.path, database.path, newest_schema=NEWEST, now=NOW)
    assert state(database.path.parent) == before


def test_the_description_is_told_from_the_backup(database: SqliteStore, copied: Copied) -> None:
    """STA-93: who names the file beside it is told which one to name; nothing else is said of it."""
    description = copied.path.with_suffix(".json")
    with pytest.raises(BackupUnusable, match=f"only describes a backup.*{copied.path.name}"):
        check_backup(description, NEWEST)
    database.close()
    with pytest.raises(BackupUnusable, match="only describes a backup"):
        restore_backup(description, database.path, newest_schema=NEWEST, now=NOW)


def test_a_backup_of_a_newer_build_is_refused(copied: Copied) -> None:
    """STA-92: schema up to that of the build; the build that wrote it is named."""
    with pytest.raises(BackupUnusable, match=r"schema version .*1\.2\.3"):
        check_backup(copied.path, NEWEST - 1)


def test_what_was_copied_comes_back_and_the_replaced_is_kept(
    database: SqliteStore, copied: Copied, add_jobs: Any
) -> None:
    """STA-92: all jobs of the backup, none of later; the later ones are in the file kept beside it."""
    add_jobs(database, 5, prefix="later")
    database.close()
    kept = restore_backup(copied.path, database.path, newest_schema=NEWEST, now=NOW)
    assert kept == database.path.with_name("bulksigner.db.replaced-20260901-080000")
    assert count_jobs(kept) == 25
    opened = open_sqlite(database.path)
    with opened.reading():
        assert opened.database.execute_sql("SELECT COUNT(*) FROM job").fetchone()[0] == 20
        assert opened.database.execute_sql("PRAGMA integrity_check").fetchone()[0] == "ok"
    opened.close()
    assert copied.path.exists()


def test_a_log_of_the_old_database_does_not_reach_the_restored_one(database: SqliteStore, copied: Copied) -> None:
    """STA-92: also where the old one ended without its log settled and cannot be opened."""
    log = database.path.with_name("bulksigner.db-wal")
    database.close()
    left = b"pages of the old database"
    log.write_bytes(left)
    database.path.write_bytes(b"damaged beyond opening" * 1000)
    kept = restore_backup(copied.path, database.path, newest_schema=NEWEST, now=NOW)
    assert kept is not None
    assert kept.read_bytes().startswith(b"damaged beyond opening")
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == left
    assert not log.exists()
    assert count_jobs(database.path) == 20


def test_a_restore_into_nothing_needs_no_old_database(copied: Copied, tmp_path: Path) -> None:
    """STA-92: on a new host."""
    target = tmp_path / "new" / "db" / "bulksigner.db"
    assert restore_backup(copied.path, target, newest_schema=NEWEST, now=NOW) is None
    assert count_jobs(target) == 20


def test_a_restore_that_fails_leaves_the_database(
    database: SqliteStore, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STA-92: with no room for the copy, and with the name of the kept file taken, nothing is replaced."""
    database.close()
    content = database.path.read_bytes()
    taken = database.path.with_name("bulksigner.db.replaced-20260901-080000")
    taken.write_text("mine")
    with pytest.raises(RestoreFailed, match="File exists"):
        restore_backup(copied.path, database.path, newest_schema=NEWEST, now=NOW)
    assert (database.path.read_bytes(), taken.read_text()) == (content, "mine")
    taken.unlink()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(restoring.durable, "copy_measured", full)
    with pytest.raises(RestoreFailed, match="No space left on device"):
        restore_backup(copied.path, database.path, newest_schema=NEWEST, now=NOW)
    assert database.path.read_bytes() == content
    assert not list(database.path.parent.glob("*.restoring"))


def test_without_hard_links_the_replaced_is_copied(
    database: SqliteStore, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STA-92: some file systems have none."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    database.close()
    monkeypatch.setattr(os, "link", refuse)
    kept = restore_backup(copied.path, database.path, newest_schema=NEWEST, now=NOW)
    assert kept is not None
    assert count_jobs(kept) == 20
