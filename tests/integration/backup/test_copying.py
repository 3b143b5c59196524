"""A copy made under load is whole, and one that did not end leaves nothing that looks like one (STA-97)."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bulksigner.backup import copying
from bulksigner.backup.checking import BackupUnusable, check_backup
from bulksigner.backup.copying import BackupCanceled, BackupFailed, Copied, copy_database
from bulksigner.backup.keeping import prune_backups
from bulksigner.backup.naming import list_backups, list_remains, name_at
from bulksigner.files import durable
from bulksigner.records.migrate import known_migrations
from bulksigner.records.sqlite import SqliteStore

NEWEST = known_migrations()[-1].version
NOW = datetime.datetime(2026, 8, 12, 12, tzinfo=datetime.UTC)


def jobs_in(path: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as opened:
        return {row[0] for row in opened.execute("SELECT id FROM job")}


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_copy_under_load_ends_and_has_every_job_committed_before(
    database: SqliteStore, add_jobs: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STA-83, STA-97: eight writers write on in every step, and the copy neither begins anew nor misses a job."""
    before = set(add_jobs(database, 3000))
    monkeypatch.setattr(copying, "STEP_PAGES", 20)
    steps = 0
    stop = threading.Event()

    def write(writer: int) -> int:
        number = 0
        while not stop.is_set():
            add_jobs(database, 1, prefix=f"w{writer}-{number}-")
            number += 1
        return number

    def look() -> bool:
        nonlocal steps
        # A writer gets through between any two steps: it is waited for, so a writer held up would hang here.
        add_jobs(database, 1, prefix=f"between-{steps}-")
        steps += 1
        return False

    with ThreadPoolExecutor(8) as pool:
        writers = [pool.submit(write, writer) for writer in range(8)]
        try:
            done = copy_database(database.path, folder / name_at(NOW), product_version="1", should_stop=look)
        finally:
            stop.set()
        written = [writer.result() for writer in writers]
    assert all(written)
    assert steps > 20
    checked = check_backup(done.path, NEWEST)
    found = jobs_in(done.path)
    assert before <= found
    assert checked.rows["job"] == len(found)


def test_the_description_tells_what_the_copy_is(copied: Copied, folder: Path) -> None:
    """STA-84: name in UTC, SHA-256, length, versions, counts, times; one file without a log beside it."""
    assert copied.path.name == "bulksigner-20260812-120000.db"
    assert sorted(path.name for path in folder.iterdir()) == [
        "bulksigner-20260812-120000.db",
        "bulksigner-20260812-120000.json",
    ]
    told = json.loads(copied.path.with_suffix(".json").read_text())
    assert told == {
        "file": copied.path.name,
        "sha256": hashlib.sha256(copied.path.read_bytes()).hexdigest(),
        "bytes": copied.path.stat().st_size,
        "productVersion": "1.2.3",
        "startedAt": "2026-08-12T12:00:00.000000Z",
        "endedAt": "2026-08-12T12:00:00.000000Z",
        "schemaVersion": NEWEST,
        "rows": {"job": 20, "job_history": 20, "operational_event": 0, "profile": 0},
    }
    assert copied.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("place", ["in the copy", "before its name"])
def test_a_kill_leaves_nothing_that_looks_complete(
    database: SqliteStore, add_jobs: Any, folder: Path, place: str
) -> None:
    """STA-97: whenever the process ends, no backup is listed that is not whole, and the next one is made."""
    add_jobs(database, 2000)
    script = f"""
import os, signal
from pathlib import Path
from bulksigner.backup import copying
copying.STEP_PAGES = 20
def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
if {place == "before its name"}:
    copying.durable.promote = kill
    stop = lambda: False
else:
    steps = iter(range(5))
    stop = lambda: kill() if next(steps) == 4 else False
source, target = Path({str(database.path)!r}), Path({str(folder / name_at(NOW))!r})
copying.copy_database(source, target, product_version="1", should_stop=stop)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    assert list_backups(folder) == []
    assert "bulksigner-20260812-120000.db.part" in {path.name for path in list_remains(folder)}
    with pytest.raises(BackupUnusable):
        check_backup(folder / name_at(NOW), NEWEST)
    later = copy_database(database.path, folder / name_at(NOW + datetime.timedelta(seconds=1)), product_version="1")
    assert list_backups(folder) == [later.path]


def test_remains_go_a_day_later_and_not_before(database: SqliteStore, folder: Path) -> None:
    """STA-87: what a killed copy left is removed once no copy under way can own it."""
    folder.mkdir()
    names = [f"bulksigner-20260801-00000{number}.db.part" for number in range(2)] + ["bulksigner-1.db.part"]
    for name in names:
        (folder / name).write_text("")
    os.utime(folder / names[0], (0, 0))
    os.utime(folder / names[2], (0, 0))
    prune_backups(folder, 5)
    assert sorted(path.name for path in folder.iterdir()) == sorted(names[1:])


def test_a_cancelled_copy_leaves_nothing(database: SqliteStore, add_jobs: Any, folder: Path) -> None:
    """STA-85: it ends between two steps and the part file is gone."""
    add_jobs(database, 2000)
    with pytest.raises(BackupCanceled):
        copy_database(database.path, folder / name_at(NOW), product_version="1", should_stop=lambda: True)
    assert list(folder.iterdir()) == []


def test_too_little_room_is_found_first(database: SqliteStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """STA-88: the size of the database and ten per cent; nothing is begun."""
    needed = sum(database.path.with_name(f"bulksigner.db{end}").stat().st_size for end in ("", "-wal"))
    usage = shutil.disk_usage(database.path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed + needed // 10 - 1))
    with pytest.raises(BackupFailed, match=f"{needed + needed // 10} bytes are needed"):
        copy_database(database.path, folder / name_at(NOW), product_version="1")
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed + needed // 10))
    copy_database(database.path, folder / name_at(NOW), product_version="1")


def test_a_taken_name_is_left_alone(database: SqliteStore, copied: Copied, folder: Path) -> None:
    """STA-84: a backup is never written over another."""
    before = contents(folder)
    with pytest.raises(BackupFailed, match="the name is taken"):
        copy_database(database.path, copied.path, product_version="1")
    assert contents(folder) == before


def test_what_cannot_be_copied_is_said(tmp_path: Path, database: SqliteStore, folder: Path) -> None:
    """STA-83, STA-88: a missing database is not made, a folder is made only where its own folder is there."""
    with pytest.raises(BackupFailed):
        copy_database(tmp_path / "nowhere.db", folder / name_at(NOW), product_version="1")
    assert not (tmp_path / "nowhere.db").exists()
    assert list(folder.iterdir()) == []
    with pytest.raises(BackupFailed, match="No such file or directory"):
        copy_database(database.path, tmp_path / "not mounted" / "x" / name_at(NOW), product_version="1")


def test_a_damaged_database_gives_no_backup(database: SqliteStore, add_jobs: Any, folder: Path, tmp_path: Path) -> None:
    """STA-83: the copy is checked before it gets its name."""
    add_jobs(database, 500)
    good = copy_database(database.path, folder / name_at(NOW), product_version="1")
    broken = tmp_path / "broken.db"
    content = bytearray(good.path.read_bytes())
    content[4096 * 20 : 4096 * 24] = b"\\xff" * 4096 * 4
    broken.write_bytes(content)
    before = contents(folder)
    with pytest.raises(BackupFailed):
        copy_database(broken, folder / name_at(NOW + datetime.timedelta(hours=1)), product_version="1")
    assert contents(folder) == before


def test_a_flush_that_fails_leaves_nothing(
    database: SqliteStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STA-83: no name before the bytes are on disk."""

    def refuse(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(durable, "flush_file", refuse)
    with pytest.raises(BackupFailed, match="Input/output error"):
        copy_database(database.path, folder / name_at(NOW), product_version="1")
    assert list(folder.iterdir()) == []


def test_pruning_keeps_the_newest_and_every_foreign_file(folder: Path) -> None:
    """STA-87, STA-97: only names of the form count; the description goes with its backup."""
    folder.mkdir()
    foreign = ["notes.txt", "bulksigner-20260801-000000.db.gz", "bulksigner-3-20260801-000000.db", "Bulksigner.db"]
    own = [f"bulksigner-2026080{day}-000000" for day in range(1, 6)]
    for name in (*foreign, *(f"{one}.db" for one in own), *(f"{one}.json" for one in own)):
        (folder / name).write_text(name)
    (folder / "bulksigner-20250801-000000.db").symlink_to(folder / "notes.txt")
    gone = prune_backups(folder, 2)
    assert {path.name for path in gone} == {f"{one}.db" for one in own[:3]}
    left = {f"{one}{end}" for one in own[3:] for end in (".db", ".json")}
    assert {path.name for path in folder.iterdir()} == {*foreign, *left, "bulksigner-20250801-000000.db"}


def test_zero_keeps_all_without_a_look(tmp_path: Path) -> None:
    """STA-87: a folder that cannot be listed is no fault then."""
    assert prune_backups(tmp_path / "nowhere", 0) == []
