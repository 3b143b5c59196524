"""The health of input folders (BEY-40): mounted, with their rights, and what waits in them."""

from __future__ import annotations

import datetime
import errno
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.builtin.local_folder import LocalFileSystem, LocalFolder
from bulksigner.contract.errors import TemporaryFailure
from bulksigner.files.set_aside import PRIVATE_PREFIX
from bulksigner.intake.folder_health import FolderGuard, WaitingFiles
from bulksigner.intake.folders import OpenedFolders, open_folders
from bulksigner.intake.watcher import WatcherState
from bulksigner.mounts import MountMark
from bulksigner.settings.model import InputFolder, StorageSettings, WatchedFolderSettings
from bulksigner.testing.fakes import MemoryStorage

ONE_SAMPLE = WatchedFolderSettings(stability_poll_interval_ms=50, stability_required_samples=1)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Mount a file system of its own at one place, as often as asked; skips where that is not allowed."""
    place = tmp_path / "mounted"
    place.mkdir()

    def act() -> Path:
        if sys.platform != "linux":
            pytest.skip("mounts of Linux")
        done = subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"no mount is allowed here: {done.stderr.decode().strip()}")
        return place

    yield act
    while place.is_mount():
        unmount(place)


def unmount(place: Path) -> None:
    # Lazily, as a share goes away under a program that works on it.
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=True)


def test_a_mount_that_is_gone_is_told_from_an_empty_folder(mount: Callable[[], Path]) -> None:
    """BEY-40: gone, the empty folder under it is none of ours; mounted again, all is well, also from elsewhere."""
    place = mount()
    folder = place / "in"
    folder.mkdir()
    mark = MountMark(folder)
    assert mark.find_loss() is None
    unmount(place)
    assert mark.find_loss() is None  # Not there at all: the listing says so.
    folder.mkdir()
    for _ in range(2):
        assert f"{folder} is not mounted any more: what was mounted at {place}" in str(mark.find_loss())
    mount()
    folder.mkdir()
    assert mark.find_loss() is None


def test_a_mount_that_comes_after_the_start_is_welcome(mount: Callable[[], Path], tmp_path: Path) -> None:
    """BEY-40: what lay there first was a place for it, nothing more."""
    mark = MountMark(tmp_path / "mounted")
    assert mark.find_loss() is None
    place = mount()
    assert mark.find_loss() is None
    unmount(place)
    assert mark.find_loss() is not None


def test_a_folder_that_was_replaced_is_no_lost_mount(tmp_path: Path) -> None:
    """PIPE-41, BEY-40: removed and made anew on the same file system."""
    folder = tmp_path / "in"
    mark = MountMark(folder)
    assert mark.find_loss() is None
    for _ in range(2):
        folder.mkdir()
        assert mark.find_loss() is None
        folder.rmdir()


def test_nothing_is_taken_from_under_a_lost_mount(desk: Any, polled: Any, mount: Callable[[], Path]) -> None:
    """BEY-40, PIPE-47: one red reason, no job, no count towards the breaker; mounted again, it goes on."""
    place, now = mount(), [0.0]
    folder = LocalFolder(place)
    guard = FolderGuard(place, folder)
    assert guard.begin() is None
    desk.folder = folder
    desk.opened = attrs.evolve(desk.opened, folder=folder, guard=guard)
    watcher = desk.watcher(settings=ONE_SAMPLE, notices=polled(), clock=lambda: now[0])
    unmount(place)
    (place / "under.pdf").write_bytes(b"x")
    for _ in range(15):
        assert watcher.step() == 2.0
        now[0] += 2
    assert "is not mounted any more" in watcher.status.last_error
    assert (watcher.status.consecutive_errors, desk.ledger.names()) == (0, [])
    mount()
    (place / "a.pdf").write_bytes(b"x")
    watcher.step()
    assert (watcher.status.last_error, desk.ledger.names()) == ("", ["a.pdf"])


@pytest.mark.parametrize("content", [None, b"x"])
def test_rights_are_tried_with_a_file_of_our_own(tmp_path: Path, content: bytes | None) -> None:
    """BEY-40: listed, read, written to and cleared; nothing is left, and no watcher could have taken it."""
    if content is not None:
        (tmp_path / "a.pdf").write_bytes(content)
    seen: list[str] = []
    real = Path.open

    def note(path: Path, *args: Any, **options: Any) -> Any:
        seen.append(path.name)
        return real(path, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", note)
        assert abs(LocalFolder(tmp_path).probe_rights()) < 2
    [probe] = seen
    assert probe.startswith(PRIVATE_PREFIX)
    assert [path.name for path in tmp_path.iterdir()] == (["a.pdf"] if content else [])


def refuse(*_: Any, **__: Any) -> Any:
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize(
    ("owner", "call", "words"),
    [
        (os, "scandir", "cannot be listed"),
        (os, "open", "a.pdf cannot be read by this account"),
        (Path, "open", "cannot be written to by this account"),
        (Path, "unlink", "cannot be cleared of files by this account"),
    ],
)
def test_each_right_that_is_missing_is_named(tmp_path: Path, owner: Any, call: str, words: str) -> None:
    """BEY-40: list, read, create, delete."""
    (tmp_path / "a.pdf").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, call, refuse)
        with pytest.raises(TemporaryFailure, match=words):
            LocalFolder(tmp_path).probe_rights()


def test_missing_rights_stop_the_watch_until_they_are_there(tmp_path: Path) -> None:
    """BEY-40: tried again half a minute later, not at each look; once they are there, never again."""

    class Guarded(LocalFolder):
        probes = 0
        fault = "no right to write"

        def probe_rights(self) -> float:
            self.probes += 1
            if self.fault:
                raise TemporaryFailure(self.fault)
            return 90.0

    now, folder = [0.0], Guarded(tmp_path)
    guard = FolderGuard(tmp_path, folder, clock=lambda: now[0])
    assert guard.find_fault() is None
    assert folder.probes == 0
    assert guard.begin() == "no right to write"
    now[0] = 29.0
    assert (guard.find_fault(), folder.probes) == ("no right to write", 1)
    folder.fault = ""
    for now[0] in (30.0, 90.0, 900.0):
        assert guard.find_fault() is None
    assert (folder.probes, guard.clock_difference_seconds) == (2, 90.0)


def test_a_folder_that_is_missing_at_boot_is_tried_when_it_comes(tmp_path: Path) -> None:
    """BEY-40: nothing is made in its place."""
    path = tmp_path / "later"
    guard = FolderGuard(path, LocalFolder(path))
    assert guard.begin() is None
    assert not path.exists()
    path.mkdir()
    assert guard.find_fault() is None
    assert guard.clock_difference_seconds is not None


def test_missing_rights_are_told_at_boot(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """BEY-40: by the name of the folder, and no start is refused for it."""
    (tmp_path / "in").mkdir()
    storage = StorageSettings(root=tmp_path / "data", inputs=(InputFolder(name="in", path=tmp_path / "in"),))
    folders = open_folders(storage, ONE_SAMPLE, lambda _: LocalFileSystem())
    with caplog.at_level(logging.WARNING), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        folders.try_rights()
    assert "Input folder in: " in caplog.text
    assert "cannot be cleared of files by this account" in caplog.text
    folders.settle_leftovers()
    assert list((tmp_path / "in").iterdir()) == []


def test_a_share_is_polled_never_probed_and_says_why(tmp_path: Path) -> None:
    """BEY-40, AZF-60, PIPE-40: a provider that does not notify has no events, an interval, and no file of ours."""
    memory = MemoryStorage()
    inputs = (
        InputFolder(name="share", path=Path("share")),
        InputFolder(name="fast", path=Path("f"), poll_interval_seconds=5),
    )
    storage = StorageSettings(root=tmp_path, provider="Memory", inputs=inputs)
    folders = open_folders(storage, ONE_SAMPLE, lambda _: memory)
    folders.try_rights()
    assert [(opened.has_events, opened.poll_interval_seconds, opened.guard) for opened in folders] == [
        (False, 30, None),
        (False, 5, None),
    ]
    assert [opened.watched_by for opened in folders] == [
        "listed every 30 s, as Memory reports no changes",
        "listed every 5 s, as Memory reports no changes",
    ]
    assert [list(folder.entries()) for folder in memory.folders.values()] == [[], []]


def test_a_share_is_looked_at_by_interval_only(desk: Any, polled: Any) -> None:
    """PIPE-40, PIPE-113: idle, the next look is an interval away; what it finds is sampled."""
    memory = MemoryStorage().open("share", {})
    desk.opened = attrs.evolve(desk.opened, folder=memory, has_events=False, poll_interval_seconds=30)
    desk.folder, now = memory, [0.0]
    settings = attrs.evolve(ONE_SAMPLE, stability_required_samples=2)
    watcher = desk.watcher(settings=settings, notices=polled(), clock=lambda: now[0], poll_interval_seconds=30)
    assert watcher.step() == 30
    memory.put("a.pdf", b"x")
    now[0] = 30.0
    assert watcher.step() == pytest.approx(0.05)
    now[0] = 30.06
    assert watcher.step() == 30
    assert desk.ledger.names() == ["a.pdf"]


def test_what_waits_is_counted_with_the_age_of_the_oldest(desk: Any) -> None:
    """BEY-40, DSH-96: candidates only, and one listing for many questions."""
    now = [0.0]
    files = WaitingFiles(desk.folder.entries, desk.opened.is_candidate_name, clock=lambda: now[0])
    assert files.count().count == 0
    for number, name in enumerate(("b.pdf", "a.pdf", "x.tmp")):
        os.utime(desk.drop(name), (1000 - number, 1000 - number))
    assert files.count().count == 0
    now[0] = 5.0
    waiting = files.count()
    assert (waiting.count, waiting.oldest_at) == (2, datetime.datetime.fromtimestamp(999, datetime.UTC))
    assert desk.folder.listings == 2


def test_a_watcher_tells_when_it_looked_and_what_it_took(desk: Any, polled: Any) -> None:
    """PIPE-46, BEY-40: nothing yet, then the scan, then the job; what is secret in an error is not shown."""
    watcher = desk.watcher(settings=ONE_SAMPLE, notices=polled())
    watcher._scrub = lambda text: text.replace("hunter2", "***")
    status = watcher.status
    assert (status.state, status.last_scan_at, status.last_enqueue_at) == (WatcherState.INITIALIZING, None, None)
    watcher.step()
    assert watcher.status.last_scan_at is not None
    assert watcher.status.last_enqueue_at is None
    desk.drop("a.pdf")
    desk.drop("b.pdf")
    watcher.step()
    assert (watcher.status.enqueued_count, watcher.status.state) == (2, WatcherState.RUNNING)
    assert watcher.status.last_enqueue_at is not None

    def fail() -> Any:
        raise TemporaryFailure("password hunter2 refused")

    desk.folder.entries = fail
    watcher.step()
    assert watcher.status.last_error == "password *** refused"


def test_the_guard_goes_before_the_claim(desk: Any) -> None:
    """BEY-40: a folder that shows in the place of a lost mount is not locked as if it were the one."""

    class Lost:
        def find_fault(self) -> str:
            return "is not mounted any more"

    class Claimed:
        def find_fault(self) -> str:
            pytest.fail("the claim was asked")

    opened = attrs.evolve(desk.opened, guard=Lost(), claim=Claimed())
    assert OpenedFolders([opened]).get("in").find_fault() == "is not mounted any more"
