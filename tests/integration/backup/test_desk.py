"""Backups of a running service: one at a time, when asked and when due, told as events (STA-85 to STA-87, STA-94)."""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.backup import desk as desk_module
from bulksigner.backup.copying import BackupFailed, Copied, copy_database
from bulksigner.backup.desk import BackupDesk, BackupPlan
from bulksigner.backup.naming import list_backups
from bulksigner.backup.runs import Result, Run, next_due, read_runs
from bulksigner.contract.errors import NotAllowed
from bulksigner.jobs import listing
from bulksigner.records.sqlite import SqliteStore

NOW = datetime.datetime(2026, 8, 12, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


@attrs.define
class Rig:
    """A desk with a clock set by hand; `restart` begins another life on the same database."""

    store: SqliteStore
    folder: Path
    clock: datetime.datetime = NOW
    interval: datetime.timedelta | None = 24 * HOUR
    keep: int = 3
    copy: Callable[..., Copied] = copy_database

    def desk(self) -> BackupDesk:
        plan = BackupPlan(self.folder, self.interval, self.keep)
        return BackupDesk(
            self.store,
            plan,
            product_version="1.2.3",
            scrub=lambda text: text.replace("hush", "***"),
            clock=lambda: self.clock,
            copy=lambda *given, **options: self.copy(*given, **options),
        )

    def results(self) -> list[str]:
        return [run.result.value for run in read_runs(self.store)]


@pytest.fixture
def rig(database: SqliteStore, folder: Path) -> Rig:
    return Rig(database, folder)


def test_a_backup_is_due_at_first_and_then_by_the_interval_across_restarts(rig: Rig) -> None:
    """STA-86: never backed up is due now; from the end of the last success, and a restart resets nothing."""
    assert rig.desk().step() == 0.0
    assert rig.desk().step() == 24 * 3600
    rig.clock += 23 * HOUR
    assert rig.desk().step() == 3600
    assert rig.results() == ["Succeeded"]
    rig.clock += HOUR
    assert rig.desk().step() == 0.0
    assert rig.results() == ["Succeeded"] * 2
    assert [path.name for path in list_backups(rig.folder)] == [
        "bulksigner-20260813-120000.db",
        "bulksigner-20260812-120000.db",
    ]


def run_of(result: Result, hours: float) -> Run:
    return Run("id", "Schedule", result, "/b", NOW + hours * HOUR, NOW + hours * HOUR)


@pytest.mark.parametrize(
    ("runs", "interval", "due"),
    [
        ([], 24, None),
        ([(Result.SUCCEEDED, 0)], 24, 24),
        ([(Result.FAILED, 24), (Result.SUCCEEDED, 0)], 24, 25),
        ([(Result.CANCELED, 24), (Result.SUCCEEDED, 0)], 24, 25),
        ([(Result.FAILED, 3), (Result.SUCCEEDED, 0)], 24, 24),
        ([(Result.FAILED, 0)], 24, 1),
        ([(Result.SUCCEEDED, 26), (Result.FAILED, 24)], 2, 28),
    ],
)
def test_when_the_next_is_due(runs: list[tuple[Result, float]], interval: int, due: float | None) -> None:
    """STA-86: after a failure within the hour, and never before the interval of the last success has passed."""
    found = next_due([run_of(*run) for run in runs], interval * HOUR)
    assert found == (None if due is None else NOW + due * HOUR)


def test_without_an_interval_only_requests_count(rig: Rig) -> None:
    """CFG-175, STA-85: manual only; whoever asked is in the event."""
    rig.interval = None
    desk = rig.desk()
    assert desk.step() > 0
    assert rig.results() == []
    asked = desk.ask("Api")
    desk.step()
    [run] = read_runs(rig.store)
    assert (run.id, run.actor, run.file_name) == (asked, "Api", "bulksigner-20260812-120000.db")
    assert run.length == (rig.folder / str(run.file_name)).stat().st_size
    state = desk.look()
    assert (state.last_success_at, state.next_due_at, state.under_way) == (NOW, None, None)


def test_a_second_one_is_refused_and_the_first_can_be_cancelled(rig: Rig, add_jobs: Any) -> None:
    """STA-85: 409 codes for both; a cancelled copy leaves nothing, and the next one works."""
    add_jobs(rig.store, 100)
    began, go_on = threading.Event(), threading.Event()

    def slow(*given: Any, **options: Any) -> Copied:
        began.set()
        assert go_on.wait(20)
        return copy_database(*given, **options)

    rig.interval, rig.copy = None, slow
    desk = rig.desk()
    with pytest.raises(NotAllowed) as idle:
        desk.cancel()
    assert idle.value.code == "backup.not-running"
    desk.start()
    try:
        asked = desk.ask("Api")
        assert began.wait(20)
        with pytest.raises(NotAllowed) as busy:
            desk.ask("Api")
        assert busy.value.code == "backup.already-running"
        under_way = desk.look().under_way
        assert under_way is not None
        assert under_way.id == asked
        assert desk.cancel() == asked
        go_on.set()
    finally:
        desk.stop()
    assert rig.results() == ["Canceled"]
    assert list(rig.folder.iterdir()) == []
    rig.copy = copy_database
    again = rig.desk()
    again.ask("Api")
    again.step()
    assert rig.results() == ["Succeeded", "Canceled"]


def test_a_stop_ends_the_copy_under_way(rig: Rig, add_jobs: Any) -> None:
    """STA-85: a stop waits for one step and not for the copy."""
    add_jobs(rig.store, 100)
    began = threading.Event()

    def endless(*given: Any, should_stop: Callable[[], bool], **options: Any) -> Copied:
        began.set()
        while not should_stop():
            threading.Event().wait(0.01)
        return copy_database(*given, should_stop=should_stop, **options)

    rig.copy = endless
    desk = rig.desk()
    desk.start()
    assert began.wait(20)
    desk.stop()
    desk.stop()
    assert rig.results() == ["Canceled"]


def test_a_failure_is_told_without_secrets_and_tried_again(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """STA-86, STA-94, SEC-57: event and warning say why; within the hour it is made all the same."""

    def fail(*_: Any, **__: Any) -> Copied:
        raise BackupFailed("No room below hush.")

    rig.copy = fail
    rig.desk().step()
    [run] = read_runs(rig.store)
    assert (run.result, run.reason, run.file_name) == (Result.FAILED, "No room below ***.", None)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    rig.copy = copy_database
    assert rig.desk().step() == 3600
    rig.clock += HOUR
    rig.desk().step()
    assert rig.results() == ["Succeeded", "Failed"]


def test_old_backups_go_after_a_success_only(rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """STA-87: newest kept; a failure removes none; one that cannot be removed is a warning and the run stays good."""
    for _ in range(5):
        rig.desk().step()
        rig.clock += 24 * HOUR
    assert len(list_backups(rig.folder)) == 3

    def fail(*_: Any, **__: Any) -> Copied:
        raise BackupFailed("no")

    rig.keep = 1
    rig.copy = fail
    rig.desk().step()
    assert len(list_backups(rig.folder)) == 3

    def refuse(*_: Any) -> list[Path]:
        raise OSError(13, "Permission denied")

    rig.copy = copy_database
    rig.clock += HOUR
    monkeypatch.setattr(desk_module, "prune_backups", refuse)
    caplog.clear()
    rig.desk().step()
    assert rig.results()[0] == "Succeeded"
    assert [record.levelno for record in caplog.records if "cannot be removed" in record.message] == [logging.WARNING]


def test_runs_of_another_folder_do_not_count(rig: Rig, tmp_path: Path) -> None:
    """STA-86: the schedule speaks of its own destination."""
    rig.desk().step()
    rig.folder = tmp_path / "elsewhere"
    assert rig.desk().look().runs == ()
    assert rig.desk().step() == 0.0
    assert len(list_backups(rig.folder)) == 1


def test_the_page_shows_fifty(rig: Rig) -> None:
    """STA-94: the newest fifty, and the last success however many failures came since."""

    def fail(*_: Any, **__: Any) -> Copied:
        raise BackupFailed("no")

    rig.desk().step()
    rig.copy = fail
    for number in range(60):
        desk = rig.desk()
        desk.ask(f"person {number}")
        rig.clock += HOUR
        desk.step()
    state = rig.desk().look()
    assert len(state.runs) == 50
    assert state.runs[0].actor == "person 59"
    assert state.last_success_at == NOW
    assert state.next_due_at == rig.clock + HOUR
    assert listing.page(rig.store).total_count == 0
