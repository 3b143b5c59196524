from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.errors import NotFound, ProviderError
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.intake.rescan import Rescanner
from bulksigner.jobs.states import JobStatus
from bulksigner.settings.model import WatchedFolderSettings

SETTINGS = WatchedFolderSettings(
    stability_poll_interval_ms=500,
    stability_required_samples=3,
    stability_timeout_seconds=5,
    poll_interval_seconds=None,
)


class Time:
    """A clock that sleeping moves on, with something to happen at each sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Any = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def rescanner(desk: Any, time: Time, tmp_path: Path) -> Rescanner:
    (tmp_path / "other").mkdir()
    other = OpenedFolder("other", LocalFolder(tmp_path / "other"), desk.opened.rules)
    folders = OpenedFolders([desk.opened, other])
    return Rescanner(folders, desk.service, desk.profiles.bound, SETTINGS, clock=lambda: time.now, sleep=time.sleep)


def test_every_file_is_taken_whatever_its_last_job(desk: Any, rescanner: Rescanner, time: Time) -> None:
    """PIPE-100, API-71: failed ones too; active and ignored ones are counted apart."""
    for name in ("failed.pdf", "active.pdf", "new.pdf", "x.tmp"):
        desk.drop(name)
    rescanner.rescan("in")
    assert time.now == 1.0
    desk.ledger.end(desk.path("failed.pdf"), JobStatus.FAILED)
    desk.ledger.end(desk.path("new.pdf"))
    report = rescanner.rescan("in").folders[0]
    assert (report.name, report.path) == ("in", str(desk.root))
    assert (report.scanned, report.enqueued, report.already_active, report.ignored, report.errors) == (4, 2, 1, 1, 0)
    assert sorted(report.enqueued_files) == ["failed.pdf", "new.pdf"]
    assert desk.announced[-1].change.message == "Queued from rescan of folder in"


def test_each_file_carries_the_name_of_its_folder(desk: Any, rescanner: Rescanner, tmp_path: Path) -> None:
    """PIPE-100: `inputFolder` of a job is the folder where the rescan found its file."""
    desk.profiles.bindings["other"] = desk.profiles.default
    desk.drop("a.pdf")
    (tmp_path / "other" / "b.pdf").touch()
    rescanner.rescan(None)
    assert sorted((job.file_name, job.input_folder) for job in desk.ledger.rows) == [
        ("a.pdf", "in"),
        ("b.pdf", "other"),
    ]


def lines_about(caplog: pytest.LogCaptureFixture, folder: str) -> list[logging.LogRecord]:
    heads = (f"Input folder {folder} ", f"Input folder {folder}: ")
    return [record for record in caplog.records if record.getMessage().startswith(heads)]


def test_folders_that_are_left_out_are_one_line_each(
    desk: Any, rescanner: Rescanner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-39, PIPE-100: once for the folder, not for each file; a disabled profile is named."""
    desk.profiles.default.stored.enabled = False
    for name in ("a.pdf", "b.pdf", "c.pdf"):
        desk.drop(name)
        (tmp_path / "other" / name).touch()
    with caplog.at_level(logging.INFO):
        rescanner.rescan(None)
    [disabled] = lines_about(caplog, "in")
    assert (disabled.levelname, "the profile default is disabled" in disabled.getMessage()) == ("INFO", True)
    [unassigned] = lines_about(caplog, "other")
    assert (unassigned.levelname, "is bound to no profile" in unassigned.getMessage()) == ("INFO", True)


def test_the_exception_of_an_unreadable_folder_is_in_the_log(
    desk: Any, rescanner: Rescanner, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-100: with what the storage raised, though the answer only counts it."""
    shutil.rmtree(desk.root)
    assert rescanner.rescan("in").folders[0].errors == 1
    [line] = lines_about(caplog, "in")
    assert line.levelname == "ERROR"
    assert line.exc_info is not None
    assert isinstance(line.exc_info[1], ProviderError)


def test_an_unassigned_folder_is_left_out_whole(desk: Any, rescanner: Rescanner, tmp_path: Path) -> None:
    """PIPE-100: zeros and the flag; the others go on."""
    (tmp_path / "other" / "b.pdf").touch()
    desk.drop("a.pdf")
    report = rescanner.rescan(None)
    assert [(one.name, one.scanned, one.enqueued, one.unassigned) for one in report.folders] == [
        ("in", 1, 1, False),
        ("other", 0, 0, True),
    ]
    assert (report.total("enqueued"), report.total("unassigned"), report.total("scanned")) == (1, 1, 1)


def test_files_of_a_disabled_profile_are_ignored(desk: Any, rescanner: Rescanner) -> None:
    """PIPE-39, PIPE-100: counted, not taken."""
    desk.drop("a.pdf")
    desk.profiles.default.stored.enabled = False
    report = rescanner.rescan("in").folders[0]
    assert (report.scanned, report.ignored, report.enqueued) == (1, 1, 0)


def test_an_unreadable_folder_is_one_error(desk: Any, rescanner: Rescanner, tmp_path: Path) -> None:
    """PIPE-100: nothing scanned, the others go on."""
    desk.profiles.bindings["other"] = desk.profiles.default
    (tmp_path / "other" / "b.pdf").touch()
    shutil.rmtree(desk.root)
    report = rescanner.rescan(None)
    assert [(one.scanned, one.errors, one.enqueued) for one in report.folders] == [(0, 1, 0), (1, 0, 1)]


def test_only_stable_files_are_taken(desk: Any, rescanner: Rescanner, time: Time) -> None:
    """PIPE-43, PIPE-100: one that never stands still is an error; arrivals after the start do not prolong it."""
    growing = desk.drop("growing.pdf")
    desk.drop("a.pdf")
    arrivals = iter(range(1000))

    def meanwhile() -> None:
        growing.write_bytes(growing.read_bytes() + b"x")
        desk.drop(f"late{next(arrivals)}.pdf")

    time.meanwhile = meanwhile
    report = rescanner.rescan("in").folders[0]
    assert (report.scanned, report.enqueued_files, report.errors) == (2, ["a.pdf"], 1)
    assert time.now == 5.0


def test_an_unknown_folder_is_refused_with_the_names(rescanner: Rescanner) -> None:
    """API-71: 404, and what there is."""
    with pytest.raises(NotFound, match="'nope' is configured; there are: in, other") as refused:
        rescanner.rescan("nope")
    assert refused.value.code == "folder.not-found"


def test_a_folder_that_keeps_its_files_is_left_out(desk: Any, rescanner: Rescanner, monkeypatch: Any) -> None:
    """PIPE-93, PIPE-100: an error of the folder, and no job."""
    desk.drop("a.pdf")
    monkeypatch.setattr(os, "access", lambda *_: False)
    report = rescanner.rescan("in").folders[0]
    assert (report.scanned, report.enqueued, report.errors) == (0, 0, 1)
