"""A service as one process knows it: refused, built, started, stopped, and built again."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bulksigner import app, assembly
from bulksigner.app import build
from bulksigner.contract.errors import ConfigurationRefused, StartRefused
from bulksigner.contract.signing import Format
from bulksigner.jobs.states import JobStatus
from bulksigner.records.errors import StoreFailed
from bulksigner.records.tables import EventRow

LIMIT_SECONDS = 20.0
FORMAT_PLUGIN = """
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.signing import Format


@hookimpl
def bulksigner_choose_format(name):
    return Format.XADES if name.endswith(".dat") else None
"""


def service_events(database: Path) -> list[tuple[str, dict[str, Any]]]:
    """Read the events from the file, as the service has closed it."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(f"SELECT event_type, facts FROM {EventRow._meta.table_name} ORDER BY id")
        return [(kind, json.loads(facts)) for kind, facts in rows]


def test_a_service_signs_what_is_dropped_and_stops_drained(built: Any, tmp_path: Path) -> None:
    """CLU-01, CLU-04, SEC-76, PIPE-34: from the file in the folder to the output, with both events of the life."""
    service = built()
    service.start()
    service.record_start()
    (tmp_path / "inbox" / "folha.rem").write_bytes(b"content")
    output = tmp_path / "data/output/folha.rem.p7m"
    deadline = time.monotonic() + LIMIT_SECONDS
    while service.jobs.counts()[JobStatus.COMPLETED] < 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert output.exists()
    assert service.stop() == 0
    assert service.stop() == 0
    lives = [event for event in service_events(tmp_path / "data/db/bulksigner.db") if event[0].startswith("Service")]
    assert [kind for kind, _ in lives] == ["ServiceStarted", "ServiceStopping"]
    assert (lives[1][1]["drained"], lives[1][1]["jobsLeft"]) == (True, 0)
    assert {facts["incarnation"] for _, facts in lives} == {service.owner.incarnation}


def test_a_restart_finds_nothing_to_recover(built: Any) -> None:
    """CLU-09, OPS-23: the folder lock and the database are free again."""
    first = built()
    first.start()
    first.stop()
    second = built()
    assert second.swept.interrupted == ()
    assert second.owner.incarnation != first.owner.incarnation


def test_two_services_do_not_share_a_folder(built: Any, lay: Any) -> None:
    """OPS-23: exit 75 naming the holder; the first one is not disturbed."""
    built()
    with pytest.raises(StartRefused, match=str(os.getpid())) as refused:
        build(lay())
    assert refused.value.exit_code == 75


def test_two_services_do_not_share_a_database_file(
    built: Any, lay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-60: a data directory of its own is not enough; refused before the database is touched."""
    built()
    monkeypatch.setattr(app, "migrate", lambda _: pytest.fail("the database was touched"))
    with pytest.raises(StartRefused, match=rf"bulksigner\.db.* in use by .*process {os.getpid()}") as refused:
        build(lay(Storage__Root=str(tmp_path / "other"), ConnectionStrings__Default=_data_source(tmp_path)))
    assert refused.value.exit_code == 75


def _data_source(folder: Path) -> str:
    return f"Data Source={folder / 'data/db/bulksigner.db'}"


@pytest.mark.parametrize("broken", ["open_store", "migrate", "open_profiles", "sweep", "open_folders", "PauseFlag"])
def test_a_build_that_fails_lets_go_of_what_it_opened(built: Any, lay: Any, monkeypatch: Any, broken: str) -> None:
    """CLU-01: no lock and no thread is left, so that the next build works."""

    def fail(*_: object, **__: object) -> None:
        raise StoreFailed("broken here")

    threads = set(threading.enumerate())
    with monkeypatch.context() as patch:
        patch.setattr(app, broken, fail)
        with pytest.raises(StoreFailed, match="broken here"):
            build(lay())
    assert [thread.name for thread in threading.enumerate() if thread not in threads] == []
    built()


def test_a_build_that_fails_ends_the_signing_workers(lay: Any, monkeypatch: Any) -> None:
    """PERF-06: also between their start and the end of the build."""

    def fail(*_: object, **__: object) -> None:
        raise StoreFailed("broken here")

    monkeypatch.setattr(assembly.ProcessEngine, "open", fail)
    with pytest.raises(StoreFailed, match="broken here"):
        build(lay(Signing__Engine="Processes", Signing__EngineWorkers="1"))
    assert multiprocessing.active_children() == []


def test_a_start_that_fails_half_way_is_stopped_whole(built: Any, monkeypatch: Any) -> None:
    """CLU-04: the worker runs already when the watchers cannot."""
    service = built()

    def fail() -> None:
        raise OSError("no more watches")

    monkeypatch.setattr(service.watchers, "start", fail)
    with pytest.raises(OSError, match="no more watches"):
        service.start()
    assert service.stop() == 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pipeline-")]


def test_every_fault_of_the_settings_is_named_at_once(lay: Any, monkeypatch: Any) -> None:
    """CFG-12, OPS-231, OPS-248: the account as well as the keys."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ConfigurationRefused) as refused:
        lay(BULK_SIGNER_ALLOW_ROOT=None, Auth__ApiKey=None, Pipeline__MaxConcurrency="none")
    keys = {failure.key for failure in refused.value.failures}
    assert {"Auth:ApiKey", "Pipeline:MaxConcurrency", "BULK_SIGNER_ALLOW_ROOT"} <= keys


def test_an_ordinary_account_needs_no_permission(lay: Any, monkeypatch: Any) -> None:
    """OPS-248: only the all-powerful one is refused."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lay(BULK_SIGNER_ALLOW_ROOT=None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ConfigurationRefused, match="BULK_SIGNER_ALLOW_ROOT"):
        lay(BULK_SIGNER_ALLOW_ROOT=None)


def test_a_seed_that_names_an_absent_plugin_is_refused_while_it_is_imported(built: Any, lay: Any) -> None:
    """CFG-81: afterwards the database counts, and the settings of the seed are not read."""
    absent = {"Signing__Certificate__Source": "Vault"}
    with pytest.raises(ConfigurationRefused, match="Vault"):
        build(lay(**absent))
    built().stop()
    built(**absent)


def test_a_plugin_chooses_the_format_of_an_upload(built: Any, install: Any, tmp_path: Path) -> None:
    """PIPE-38: the hook is asked before the extension is."""
    (tmp_path / "site" / "dat_files.py").write_text(FORMAT_PLUGIN)
    install("dat_files", "dat_files")
    service = built()
    receive = service.uploads.receive
    assert receive(io.BytesIO(b"<a>b</a>"), file_name="a.dat").format is Format.XADES
    assert receive(io.BytesIO(b"%PDF-1.7"), file_name="a.pdf").format is Format.PADES
    assert receive(io.BytesIO(b"x"), file_name="a.bin").format is Format.CADES


def test_a_second_service_on_one_input_folder_is_refused(built: Any, tmp_path: Path) -> None:
    """CLU-01: two with roots and databases of their own would sign each file twice; the first one's end lets it in."""
    first = built()
    root = tmp_path / "second"
    second = {"Storage__Root": str(root), "ConnectionStrings__Default": str(root / "db" / "bulksigner.db")}
    with pytest.raises(StartRefused, match=f"Input folder inbox: another service.*{tmp_path / 'inbox'}") as refused:
        built(**second)
    assert refused.value.exit_code == 75
    first.stop()
    built(**second)


@pytest.mark.skipif(os.name != "posix", reason="sends signals of POSIX systems")
def test_a_stop_leaves_no_signing_worker_behind(built: Any, tmp_path: Path) -> None:
    """CLU-04: one that is stopped by a signal holds its job past the grace, and would outlive the service."""
    service = built(Signing__Engine="Processes", Signing__EngineWorkers="1", Pipeline__ShutdownGraceSeconds="0")
    service.start()
    [child] = multiprocessing.active_children()
    pid = child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    (tmp_path / "inbox" / "folha.rem").write_bytes(b"content")
    deadline = time.monotonic() + LIMIT_SECONDS
    while not service.worker.jobs_in_flight:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert service.stop() == 1
    assert multiprocessing.active_children() == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    # What the exit of the process does for a service that ends with jobs under way.
    service.close()
