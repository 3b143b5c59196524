from __future__ import annotations

import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bulksigner.intake.notices import InotifyNotices, WatchdogNotices


def is_candidate(name: str) -> bool:
    return not name.endswith(".tmp")


def returns_within(notices: Any, seconds: float, act: Callable[[], object]) -> bool:
    """Do something while a thread waits; tell whether that ended the wait early."""
    woken = threading.Event()

    def wait() -> None:
        started = time.monotonic()
        notices.wait(seconds)
        if time.monotonic() - started < seconds * 0.9:
            woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    act()
    thread.join()
    return woken.is_set()


@pytest.fixture(params=[InotifyNotices, WatchdogNotices])
def notices(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param is InotifyNotices and sys.platform != "linux":
        pytest.skip("inotify is of Linux")
    notices = request.param(tmp_path, is_candidate)
    assert not notices.is_watching
    notices.open()
    assert notices.is_watching
    yield notices
    notices.close()
    notices.close()
    notices.ring()


def test_a_new_file_ends_the_wait(notices: Any, tmp_path: Path) -> None:
    """PIPE-40: written or renamed into place."""
    assert returns_within(notices, 3, (tmp_path / "a").touch)
    (tmp_path / "b.tmp").touch()
    notices.wait(0.3)
    assert returns_within(notices, 3, lambda: (tmp_path / "b.tmp").rename(tmp_path / "b"))


def test_an_event_before_the_wait_is_not_lost(notices: Any, tmp_path: Path) -> None:
    """PIPE-40: what happens between two waits ends the next one."""
    (tmp_path / "a").touch()
    time.sleep(0.2)
    started = time.monotonic()
    notices.wait(3)
    assert time.monotonic() - started < 1


def test_a_ring_ends_the_wait(notices: Any) -> None:
    """PIPE-94: the present one, or the next."""
    assert returns_within(notices, 3, notices.ring)
    notices.ring()
    started = time.monotonic()
    notices.wait(3)
    assert time.monotonic() - started < 1


def test_ignored_names_and_reads_do_not_end_it(notices: Any, tmp_path: Path) -> None:
    """PIPE-42: nor do they prolong it."""
    (tmp_path / "a").write_bytes(b"x")
    time.sleep(0.2)
    notices.wait(0.1)

    def bustle() -> None:
        for number in range(20):
            (tmp_path / f"{number}.tmp").touch()
            (tmp_path / "a").read_bytes()
            time.sleep(0.02)

    started = time.monotonic()
    assert not returns_within(notices, 1, bustle)
    assert time.monotonic() - started < 1.5


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
def test_a_stream_of_ignored_names_wakes_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PERF-10: each input that was signed is renamed to such a name; news among them, and a ring, come through."""
    notices = InotifyNotices(tmp_path, is_candidate)
    notices.open()
    (tmp_path / "a.tmp").touch()
    wakes, drain = [], notices._drain
    monkeypatch.setattr(notices, "_drain", lambda: wakes.append(time.monotonic()) or drain())

    def bustle() -> None:
        for number in range(500):
            (tmp_path / "a.tmp").rename(tmp_path / f"{number}.tmp")
            (tmp_path / f"{number}.tmp").rename(tmp_path / "a.tmp")
            time.sleep(0.001)

    thread = threading.Thread(target=bustle)
    thread.start()
    notices.wait(0.5)
    assert 2 <= len(wakes) <= 12
    thread.join()
    for news in (notices.ring, (tmp_path / "b").touch):
        (tmp_path / "c.tmp").touch()
        assert returns_within(notices, 3, news)
    notices.close()


def test_a_folder_that_goes_ends_the_watch(notices: Any, tmp_path: Path) -> None:
    """PIPE-41: noticed, so that the next look takes up the watch again."""
    assert returns_within(notices, 3, tmp_path.rmdir)
    assert not notices.is_watching
    tmp_path.mkdir()
    notices.open()
    assert returns_within(notices, 3, (tmp_path / "a").touch)


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    """PIPE-47: said as the system says it."""
    for kind in (InotifyNotices, WatchdogNotices):
        notices = kind(tmp_path / "gone", is_candidate)
        with pytest.raises(FileNotFoundError):
            notices.open()
        assert not notices.is_watching
        notices.close()


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
def test_an_overflow_ends_the_wait(tmp_path: Path) -> None:
    """PIPE-41, BEY-41: events that were dropped call for a look at once, unlike those of ignored names."""
    notices = InotifyNotices(tmp_path, is_candidate)
    reader, writer = os.pipe2(os.O_NONBLOCK)
    notices._descriptor = reader
    ignored = struct.pack("iIII", 1, 0x100, 0, 16) + b"a.tmp".ljust(16, b"\0")
    overflow = struct.pack("iIII", -1, 0x4000, 0, 0)
    assert not returns_within(notices, 0.5, lambda: os.write(writer, ignored))
    assert returns_within(notices, 3, lambda: os.write(writer, ignored + overflow))
    notices.close()
    os.close(writer)
