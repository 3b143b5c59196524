"""The SQLite file itself: rights, pragmas, damage (CFG-62, SEC-71, OPS-160)."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.records.engines import SqliteStore, open_sqlite
from bulksigner.records.errors import ActMisused
from bulksigner.records.migrate import migrate
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import DeploymentRow

WANTED = {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 30000, "foreign_keys": 1, "secure_delete": 1}


def pragmas(store: SqliteStore) -> dict[str, object]:
    """Read the fixed pragmas of this thread's connection."""
    return {name: store.database.execute_sql(f"PRAGMA {name}").fetchone()[0] for name in WANTED}


def test_file_and_folder_are_ours_alone(tmp_path: Path) -> None:
    """SEC-71: the folder is 0700, the file and its journal 0640."""
    path = tmp_path / "db" / "bulksigner.db"
    store = open_sqlite(path)
    migrate(store)
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
    store.close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert modes.keys() >= {"bulksigner.db", "bulksigner.db-wal"}
    assert set(modes.values()) == {0o640}


def test_every_connection_has_the_fixed_pragmas(tmp_path: Path) -> None:
    """CFG-62: WAL, FULL, 30 s, foreign keys and secure delete, for the committer and for readers."""
    store = open_sqlite(tmp_path / "db" / "b.db")
    assert store.write(lambda: pragmas(store)) == WANTED
    with store.reading():
        assert pragmas(store) == WANTED
    store.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """OPS-160: exit 65, naming the file and the way out."""
    path = tmp_path / "b.db"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StartRefused, match=r"b\.db is damaged: file is not a database.*backup") as caught:
        open_sqlite(path)
    assert caught.value.exit_code == 65


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    """OPS-160: quick_check finds what merely opening does not."""
    path = tmp_path / "db" / "b.db"
    store = open_sqlite(path)
    migrate(store)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096 * 5 : 4096 * 5 + 200] = b"\xff" * 200
    path.write_bytes(content)
    with pytest.raises(StartRefused, match="is damaged") as caught:
        open_sqlite(path)
    assert caught.value.exit_code == 65


def test_a_place_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """OPS-29: exit 73 with the reason."""
    (tmp_path / "file").touch()
    with pytest.raises(StartRefused, match="cannot be created") as caught:
        open_sqlite(tmp_path / "file" / "db" / "b.db")
    assert caught.value.exit_code == 73


def test_statements_outside_of_acts_are_programming_errors(tmp_path: Path) -> None:
    """PERF-07: whoever writes past the committer, or without a connection, is told at once."""
    store = open_sqlite(tmp_path / "db" / "b.db")
    migrate(store)
    with pytest.raises(ActMisused, match="outside of write, read and reading"):
        store.execute(Prepared(DeploymentRow.select()))
    with store.reading(), pytest.raises(ActMisused, match="outside of write"):
        store.execute(Prepared(DeploymentRow.delete()))
    store.close()
