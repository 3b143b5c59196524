"""`bulksigner backup`, `verify-backup`, `restore`, and the copy at a start, as an operator meets them."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bulksigner.app import build
from bulksigner.backup.naming import list_backups
from bulksigner.backup.runs import Result, read_runs
from bulksigner.boot import lay_foundation
from bulksigner.cli import main
from bulksigner.jobs.states import JobStatus
from bulksigner.records.migrate import known_migrations, migrate
from bulksigner.records.sqlite import open_sqlite

LIMIT_SECONDS = 20.0
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def service(make_harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A service with a planned folder; commands find its settings."""
    made = make_harness(settings={"Backup:Disk:Path": str(tmp_path / "planned"), "Backup:RetainCount": 2})
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    return made


def sign(service: Any, name: str) -> None:
    service.drop(name, b"content")
    service.run_until_idle()


def test_a_copy_is_made_while_the_service_runs(service: Any, tmp_path: Path, capsys: Capture) -> None:
    """OPS-193, OPS-205, STA-90, SEC-54: into the planned folder, told as an event, with what else must be kept."""
    sign(service, "a.rem")
    assert main(["backup"]) == 0
    [path] = list_backups(tmp_path / "planned")
    shown = capsys.readouterr().out
    assert str(path) in shown
    assert "Signing:ProfileSecretsKey" in shown
    assert "not encrypted" in shown
    [run] = read_runs(service.service.store)
    assert (run.actor, run.file_name) == ("CommandLine", path.name)
    assert main(["verify-backup", str(path)]) == 0
    assert f"{path} is sound" in capsys.readouterr().out


def test_another_folder_may_be_named_and_is_not_pruned(service: Any, tmp_path: Path, capsys: Capture) -> None:
    """OPS-193, STA-87: the count belongs to the planned folder."""
    service.service  # noqa: B018 - makes the database
    other = tmp_path / "other"
    other.mkdir()
    for folder in (other, tmp_path / "planned"):
        folder.mkdir(exist_ok=True)
        for day in range(1, 5):
            (folder / f"bulksigner-2020010{day}-000000.db").write_text("")
    assert main(["backup", "--to", str(other)]) == 0
    assert len(list_backups(other)) == 5
    assert main(["backup"]) == 0
    assert len(list_backups(tmp_path / "planned")) == 2
    assert capsys.readouterr().out.count("Removed ") == 3


def test_places_and_databases_that_will_not_do(service: Any, tmp_path: Path, capsys: Capture) -> None:
    """STA-89, STA-83: refused before anything is written; a database that is not there yet is not made."""
    assert main(["backup"]) == 1
    assert "made at the first start" in capsys.readouterr().err
    assert main(["backup", "--to", str(service.root / "output")]) == 1
    assert "lies in" in capsys.readouterr().err
    assert not (service.root / "db" / "bulksigner.db").exists()


def test_a_restore_brings_back_the_jobs_of_the_backup(service: Any, tmp_path: Path, capsys: Capture) -> None:
    """STA-92: refused while the service runs; afterwards a start finds the jobs as they were, and signs on."""
    sign(service, "a.rem")
    assert main(["backup"]) == 0
    [path] = list_backups(tmp_path / "planned")
    sign(service, "b.rem")
    capsys.readouterr()
    assert main(["restore", str(path)]) == 75
    assert "Stop it first" in capsys.readouterr().err
    service.close()
    assert main(["restore", str(path)]) == 0
    shown = capsys.readouterr().out
    [kept] = (service.root / "db").glob("bulksigner.db.replaced-*")
    assert str(kept) in shown
    assert str(service.root / "processing") in shown
    assert [job.file_name for job in service.jobs()] == ["a.rem"]
    sign(service, "c.rem")
    assert [job.status for job in service.jobs()] == [JobStatus.COMPLETED] * 2
    with contextlib.closing(sqlite3.connect(kept)) as opened:
        assert opened.execute("SELECT COUNT(*) FROM job").fetchone() == (2,)


def test_a_damaged_backup_is_told(service: Any, tmp_path: Path, capsys: Capture) -> None:
    """STA-93: exit 1 from both commands, and the database stays."""
    service.service  # noqa: B018 - makes the database
    assert main(["backup"]) == 0
    service.close()
    [path] = list_backups(tmp_path / "planned")
    path.write_bytes(path.read_bytes()[:-4096])
    for command in ("verify-backup", "restore"):
        assert main([command, str(path)]) == 1
        assert "SHA-256 differs" in capsys.readouterr().err
    assert not list((service.root / "db").glob("*.replaced-*"))


def test_a_server_database_has_its_own_tools(
    make_harness: Any, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    """STA-82, DEP-34: every command says so."""
    made = make_harness(database_url=postgres_url)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    for arguments in (["backup", "--to", str(tmp_path)], ["restore", "x.db"]):
        assert main(arguments) == 1
        assert "pg_dump" in capsys.readouterr().err


@pytest.mark.parametrize("copies", [True, False])
def test_a_start_copies_a_database_that_it_is_about_to_migrate(service: Any, copies: bool) -> None:
    """STA-91, CLU-01: before the first change; the option of `serve` leaves it out."""
    old = open_sqlite(service.root / "db" / "bulksigner.db")
    migrate(old, known_migrations()[:1])
    old.close()
    started = build(lay_foundation(service.environ, service.folder), copies_before_migration=copies)
    started.close()
    found = [path.name for path in (service.root / "db").glob("pre-migration/*.db")]
    assert len(found) == copies
    assert all(name.startswith("bulksigner-1-20") for name in found)


def test_a_running_service_keeps_its_schedule(make_harness: Any, tmp_path: Path) -> None:
    """STA-86: started, never backed up: one is made at once; stopped, its thread is gone."""
    made = make_harness(
        settings={"Backup:Enabled": True, "Backup:Disk:Path": str(tmp_path / "b"), "Backup:IntervalHours": 24}
    )
    made.service.start()
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (runs := read_runs(made.service.store)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [(run.actor, run.result) for run in runs] == [("Schedule", Result.SUCCEEDED)]
    made.close()
    assert "backup" not in {thread.name for thread in threading.enumerate()}
    assert [path.name for path in list_backups(tmp_path / "b")] == [runs[0].file_name]
