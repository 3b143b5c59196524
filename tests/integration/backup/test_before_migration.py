"""A SQLite database is copied before a start changes its schema, and not otherwise (STA-91)."""

from __future__ import annotations

import contextlib
import datetime
import shutil
import sqlite3
from pathlib import Path

import pytest

from bulksigner.backup.before_migration import copy_before_migration
from bulksigner.backup.checking import check_backup
from bulksigner.contract.errors import StartRefused
from bulksigner.records.migrate import known_migrations, migrate
from bulksigner.records.sqlite import SqliteStore, open_sqlite

NOW = datetime.datetime(2026, 8, 12, 12, tzinfo=datetime.UTC)
FIRST = known_migrations()[:1]


@pytest.fixture
def old(tmp_path: Path) -> SqliteStore:
    """A database that only the first step has made."""
    store = open_sqlite(tmp_path / "db" / "bulksigner.db")
    migrate(store, FIRST)
    return store


def copies(store: SqliteStore) -> list[str]:
    folder = store.path.parent / "pre-migration"
    return sorted(path.name for path in folder.glob("*.db")) if folder.exists() else []


def test_an_older_database_is_copied_with_its_schema_in_the_name(old: SqliteStore) -> None:
    """STA-91: the same way as any backup, so it can be checked and restored."""
    copy_before_migration(old, product_version="1.2.3", now=NOW)
    assert copies(old) == ["bulksigner-1-20260812-120000.db"]
    path = old.path.parent / "pre-migration" / copies(old)[0]
    assert check_backup(path, 1).schema_version == 1
    with contextlib.closing(sqlite3.connect(path)) as opened:
        assert opened.execute("SELECT MAX(version) FROM schema_version").fetchone() == (1,)
    old.close()


def test_nothing_is_copied_where_nothing_changes(old: SqliteStore, tmp_path: Path) -> None:
    """STA-91: neither for a new database nor for one that is current."""
    new = open_sqlite(tmp_path / "new" / "bulksigner.db")
    copy_before_migration(new, product_version="1", now=NOW)
    migrate(old)
    copy_before_migration(old, product_version="1", now=NOW)
    assert copies(new) == copies(old) == []
    for store in (new, old):
        store.close()


def test_the_newest_three_stay(old: SqliteStore) -> None:
    """STA-91: other files of the folder are left alone."""
    for day in range(4):
        copy_before_migration(old, product_version="1", now=NOW + datetime.timedelta(days=day))
        (old.path.parent / "pre-migration" / "mine.db").write_text("")
    assert copies(old) == [f"bulksigner-1-2026081{day}-120000.db" for day in (3, 4, 5)] + ["mine.db"]
    old.close()


def test_without_a_copy_nothing_is_migrated(old: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """STA-91, OPS-27: exit 65 says why and names the way round."""
    usage = shutil.disk_usage(old.path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    with pytest.raises(StartRefused) as refused:
        copy_before_migration(old, product_version="1", now=NOW)
    assert refused.value.exit_code == 65
    assert "0 are free" in refused.value.message
    assert "--skip-pre-migration-backup" in refused.value.message
    old.close()
