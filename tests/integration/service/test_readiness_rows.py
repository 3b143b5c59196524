"""The readiness rows of a running service, green and red, and those of `bulksigner check`."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.files.volumes import Volume
from bulksigner.inspection import Inspection, inspect
from bulksigner.intake.watcher import FolderWatcher
from bulksigner.pipeline.engine import InProcessEngine
from bulksigner.records.errors import StoreFailed

CHECK_PLUGIN = """
from bulksigner.contract.hookspecs import hookimpl


class Failing:
    name = "vault"
    gating = False

    def run(self):
        raise RuntimeError("sealed")


@hookimpl
def bulksigner_readiness_checks(settings):
    return [Failing()]
"""


def rows_of(report: Any) -> dict[str, Any]:
    return {row.name: row for row in report.rows}


def test_every_row_of_a_sound_service_is_green(built: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """API-81 to API-83, API-86, API-99, API-100: names, order and what gates."""
    monkeypatch.setattr(Volume, "free_bytes", Volume.total_bytes)
    service = built()
    service.start()
    report = service.readiness.report()
    assert [(row.name, row.ok, row.gating) for row in report.rows] == [
        ("database", True, True),
        ("signing-engine", True, True),
        ("pipeline-worker", True, True),
        ("input-folder:inbox", True, True),
        ("signing-profile:default", True, False),
        (f"disk:{tmp_path / 'data'}", True, False),
    ]
    assert report.rows[0].detail == f"reachable (SQLite ({tmp_path / 'data/db/bulksigner.db'}))"


def test_each_row_turns_red_for_its_own_reason(built: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """API-81 to API-83, API-99: and is named in words."""
    monkeypatch.setattr(InProcessEngine, "find_fault", lambda _: "Pades: OSError: libcrypto")
    service = built()

    def fail() -> None:
        raise StoreFailed("no answer")

    monkeypatch.setattr(service.store, "probe", fail)
    service.worker._fault = "the thread pipeline-loop died twice"
    shutil.rmtree(tmp_path / "inbox")
    monkeypatch.setattr(Volume, "free_bytes", lambda _: 0)
    report = service.readiness.report()
    rows = rows_of(report)
    assert not report.ready
    assert {name for name, row in rows.items() if not row.ok} == rows.keys() - {"signing-profile:default"}
    assert rows["database"].detail.startswith("unreachable (SQLite")
    assert rows["database"].detail.endswith("StoreFailed)")
    assert rows["signing-engine"].detail == "the self-test failed: Pades: OSError: libcrypto"
    assert "died twice" in rows["pipeline-worker"].detail
    assert "0.0 MiB free" in rows[f"disk:{tmp_path / 'data'}"].detail
    assert str(tmp_path / "inbox") in rows["input-folder:inbox"].detail


def test_a_database_file_that_was_removed_is_said(built: Any, tmp_path: Path) -> None:
    """API-81, API-99: reads of the open file still work, and yet nothing recorded now will be found again."""
    service = built()
    (tmp_path / "data/db/bulksigner.db").unlink()
    assert service.worker.step() == 0
    rows = rows_of(service.readiness.report())
    assert not rows["database"].ok
    assert "removed or replaced" in rows["database"].detail
    assert not rows["pipeline-worker"].ok


def test_a_certificate_that_has_ended_is_a_red_row(built: Any) -> None:
    """API-86, BEY-21: its jobs fail, so the row does not say that it is ready; it does not gate."""
    service = built()
    [profile] = service.profiles.all
    ended = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
    service.profiles.replace([attrs.evolve(profile, certificate_not_after=ended)])
    report = service.readiness.report()
    row = rows_of(report)["signing-profile:default"]
    assert (row.ok, report.ready) == (False, True)
    assert "expired at" in row.detail


def test_a_key_that_failed_turns_the_row_of_its_profile_red(built: Any) -> None:
    """API-86, OPS-114: what a key says of its last signature, as long as it says so; it does not gate."""

    class Tired:
        fault: str | None = "DeviceRemoved at noon"

    service = built()
    [profile] = service.profiles.all
    key = Tired()
    for name in ("certificate", "chain", "algorithm", "sign", "sign_digest", "close"):
        setattr(key, name, getattr(profile.key, name))
    service.profiles.replace([attrs.evolve(profile, key=key)])
    report = service.readiness.report()
    row = rows_of(report)["signing-profile:default"]
    assert (row.ok, row.detail, report.ready) == (False, "DeviceRemoved at noon", True)
    key.fault = None
    assert rows_of(service.readiness.report())["signing-profile:default"].ok


def test_profiles_that_cannot_serve_do_not_gate(built: Any, tmp_path: Path) -> None:
    """API-80, API-86, API-88: a key that is gone and a folder that this host does not have."""
    built().stop()
    (tmp_path / "company.pfx").unlink()
    service = built(Storage__Inputs__0__Name="other", Storage__Inputs__0__Profile=None)
    service.start()
    report = service.readiness.report()
    rows = rows_of(report)
    assert report.ready
    assert not rows["signing-profile:default"].ok
    assert "company.pfx" in rows["signing-profile:default"].detail
    assert not rows["profile-input-folder:default"].ok
    assert "'inbox'" in rows["profile-input-folder:default"].detail
    assert rows["input-folder:other"].ok


def test_a_folder_says_how_it_fares(built: Any, tmp_path: Path) -> None:
    """BEY-40, API-83: how news comes, when it was looked at, what waits since when; a clock that is off."""
    service = built()
    path = tmp_path / "inbox" / "waiting.pdf"
    (tmp_path / "inbox" / "x.tmp").touch()
    path.touch()
    os.utime(path, (0, 0))
    detail = rows_of(service.readiness.report())["input-folder:inbox"].detail
    assert detail == (
        f"Initializing: {tmp_path / 'inbox'}; events; not scanned yet; 1 file(s) waiting, the oldest since "
        "1970-01-01T00:00:00Z"
    )
    [watcher] = service.watchers._watchers.values()
    watcher._watch_fault = "Too many open files"
    detail = rows_of(service.readiness.report())["input-folder:inbox"].detail
    assert "; listed, as it reports no changes: Too many open files; " in detail
    service.watchers.step()
    next(iter(service.folders)).guard.clock_difference_seconds = -7200.0
    detail = rows_of(service.readiness.report())["input-folder:inbox"].detail
    assert "; last scan 20" in detail
    assert detail.endswith("; its clock is -7200 s off ours")


def test_the_breaker_of_one_folder_is_one_red_row(built: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """PIPE-47, PIPE-113, API-83: the process and other folders go on; an unassigned folder is green (PIPE-60)."""
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "untouched.pdf").touch()
    service = built(
        Storage__Inputs__1__Name="second",
        Storage__Inputs__1__Path=str(tmp_path / "second"),
        WatchedFolder__MaxConsecutiveFailures="2",
        WatchedFolder__StabilityRequiredSamples="1",
    )

    def fail(_: Any) -> Any:
        raise StoreFailed("no answer")

    monkeypatch.setattr(service.queue, "enqueue", fail)
    monkeypatch.setattr(FolderWatcher, "_backoff_seconds", lambda _: 0.0)
    (tmp_path / "inbox" / "a.pdf").touch()
    for is_ready in (True, False):
        service.watchers.step()
        report = service.readiness.report()
        assert report.ready is is_ready
    rows = rows_of(report)
    assert "stopped after repeated failures: StoreFailed: no answer" in rows["input-folder:inbox"].detail
    assert rows["input-folder:second"].ok
    assert "no profile chose this folder" in rows["input-folder:second"].detail
    assert (tmp_path / "second" / "untouched.pdf").exists()
    assert rows["pipeline-worker"].ok


def look(lay: Any, **changes: str | None) -> tuple[Inspection, dict[str, Any]]:
    report = inspect(lay(**changes))
    return report, rows_of(report)


def test_a_check_before_the_first_start_creates_nothing(lay: Any, tmp_path: Path) -> None:
    """OPS-203: everything is opened, nothing is made."""
    report, rows = look(lay)
    assert report.ready
    assert all(row.ok for row in report.rows)
    assert {"storage-root", "signing-engine", "input-folder:inbox", "database", "signing-profile:default"} <= set(rows)
    assert not (tmp_path / "data").exists()


def test_a_check_before_the_first_start_foresees_the_import(lay: Any, tmp_path: Path) -> None:
    """OPS-203, OPS-35, OPS-36, OPS-47: the folders it would leave, low trust, and what it would refuse."""
    second = tmp_path / "second"
    second.mkdir()
    report, _ = look(lay, Storage__Inputs__1__Name="second", Storage__Inputs__1__Path=str(second))
    assert "Input folder 'second' was left without a profile: the profile default already has the folder inbox" in (
        report.warnings
    )
    assert any(line.startswith("Profile 'default': validate-cert=off") for line in report.warnings)
    with pytest.raises(ConfigurationRefused, match="Signing:ProfileSecretsKey"):
        inspect(lay(Signing__ProfileSecretsKey=None))


def test_a_check_after_a_start_reads_what_is_stored(built: Any, lay: Any) -> None:
    """OPS-203: the profiles of the database, not those of the settings."""
    built().stop()
    report, rows = look(lay, Signing__Certificate__Pfx__Path="/elsewhere.pfx")
    assert report.ready
    assert rows["signing-profile:default"].ok


def test_a_check_names_a_missing_and_a_locked_certificate(lay: Any, tmp_path: Path) -> None:
    """OPS-203: without the password in the text."""
    _, rows = look(lay, Signing__Certificate__Pfx__Path=str(tmp_path / "none.pfx"))
    assert not rows["signing-profile:default"].ok
    assert "none.pfx" in rows["signing-profile:default"].detail
    _, rows = look(lay, Signing__Certificate__Pfx__Password="another password")
    assert not rows["signing-profile:default"].ok
    assert "password" in rows["signing-profile:default"].detail
    assert "another password" not in rows["signing-profile:default"].detail


def test_a_check_names_a_folder_that_cannot_be_listed(lay: Any, tmp_path: Path) -> None:
    """OPS-203: it gates."""
    report, rows = look(lay, Storage__Inputs__0__Path=str(tmp_path / "nowhere"))
    assert not report.ready
    assert str(tmp_path / "nowhere") in rows["input-folder:inbox"].detail


def test_a_check_names_a_root_that_is_a_file(lay: Any, tmp_path: Path) -> None:
    """OPS-203: the other rows follow all the same."""
    (tmp_path / "file").touch()
    report, rows = look(lay, Storage__Root=str(tmp_path / "file"))
    assert not report.ready
    assert not rows["storage-root"].ok
    assert rows["signing-profile:default"].ok


def test_a_check_refuses_a_database_of_a_newer_build(built: Any, lay: Any, tmp_path: Path) -> None:
    """OPS-203, OPS-27: named, and not touched."""
    built().stop()
    path = tmp_path / "data/db/bulksigner.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(schema_version)")]
        newest = dict(zip(columns, database.execute("SELECT * FROM schema_version").fetchone(), strict=True))
        newest |= {"version": 9999}
        marks = ", ".join("?" * len(columns))
        database.execute(f"INSERT INTO schema_version VALUES ({marks})", list(newest.values()))
    report, rows = look(lay)
    assert not report.ready
    assert "9999" in rows["database"].detail


def test_a_check_outlives_a_plugin_that_breaks(lay: Any, install: Any, tmp_path: Path) -> None:
    """OPS-203: its row is red and the others are there."""
    (tmp_path / "site" / "vault_checks.py").write_text(CHECK_PLUGIN)
    install("vault_checks", "vault_checks")
    report, rows = look(lay)
    assert report.ready
    assert not rows["vault"].ok
    assert "sealed" in rows["vault"].detail


@pytest.mark.parametrize("source", ["import a_package_nobody_has\n", "raise KeyboardInterrupt\n", "def (:\n"])
def test_a_plugin_that_does_not_load_stops_signing_and_readiness(
    lay: Any, built: Any, install: Any, tmp_path: Path, source: str
) -> None:
    """CFG-16, OPS-203: it may check files; the row gates, names the plugin and the way out, in both reports."""
    (tmp_path / "site" / "card_gate.py").write_text(source)
    install("card_gate", "card_gate")
    service = built()
    assert "the plugin card_gate" in service.profiles.get("default").degraded
    for report in (look(lay)[0], service.readiness.report()):
        row = rows_of(report)["plugin:card_gate"]
        assert not report.ready
        assert (row.ok, row.gating) == (False, True)
        assert "BULK_SIGNER_DISABLED_PLUGINS" in row.detail
    service.stop()
    assert built(BULK_SIGNER_DISABLED_PLUGINS="card_gate").readiness.report().ready


@pytest.mark.parametrize("error", [RuntimeError("a bug"), SystemExit(2)])
def test_a_check_outlives_a_storage_provider_that_breaks(lay: Any, monkeypatch: Any, error: BaseException) -> None:
    """OPS-203: whatever it raises is the verdict of its row."""
    foundation = lay()
    [provider] = [foundation.registry.storage_provider("LocalFileSystem")]

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(provider), "open", fail)
    rows = rows_of(inspect(foundation))
    assert not rows["input-folder:inbox"].ok
    assert type(error).__name__ in rows["input-folder:inbox"].detail


def test_a_folder_that_keeps_its_files_is_red(built: Any, lay: Any, monkeypatch: Any) -> None:
    """API-83, OPS-203: while it runs, and in a check before any start."""
    service = built()
    monkeypatch.setattr(LocalFolder, "find_removal_fault", lambda _: "not writable")
    for rows in (rows_of(service.readiness.report()), rows_of(inspect(lay()))):
        row = rows["input-folder:inbox"]
        assert (row.ok, row.gating, "not writable" in row.detail) == (False, True, True)
