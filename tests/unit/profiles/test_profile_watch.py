"""The look for edits outlives a database that is away, and asks for nothing while nothing was saved."""

from __future__ import annotations

import logging
import threading
from typing import Any

import attrs
import pytest

from bulksigner.profiles.live import ProfileWatch
from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.opened import OpenedProfiles, ProfileOpener
from bulksigner.records.errors import StoreFailed
from bulksigner.testing.rows import stored_profile

PROFILE = stored_profile("contracts", certificate_block={"Path": "/good"})


class Rows:
    """A profile table in memory; `away` makes it fail, `looks` counts the times its rows were read."""

    def __init__(self) -> None:
        self.stored = [PROFILE]
        self.count = 1
        self.looks = 0
        self.away = False
        self.asked = threading.Semaphore(0)

    def saves(self) -> int:
        self.asked.release()
        if self.away:
            raise StoreFailed("no answer")
        return self.count

    def all(self) -> list[StoredProfile]:
        self.looks += 1
        return self.stored


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def watch_with(rows: Rows, registry: Any, sealer_with: Any) -> Any:
    """Make a watch over `rows` with what it told and the keys it handed to the engine."""

    def make(seen: int | None = None, poll_interval_seconds: float = 3600) -> Any:
        opened, keys, told = OpenedProfiles([]), list[str](), list[int]()
        watch = ProfileWatch(
            rows,  # type: ignore[arg-type]
            opened,
            ProfileOpener(registry, sealer_with("")),
            seen=seen,
            open_key=lambda reference, _: keys.append(reference.profile),
            tell=lambda: told.append(len(opened.all)),
            poll_interval_seconds=poll_interval_seconds,
        )
        return watch, opened, keys, told

    return make


def test_rows_are_read_only_when_something_was_saved(rows: Rows, watch_with: Any, source: Any) -> None:
    """CFG-85: one small read at each look; a save brings the rows, a key goes to the engine before its first job."""
    watch, opened, keys, told = watch_with(seen=None)
    assert watch.step()
    assert (keys, told, rows.looks) == (["contracts"], [1], 1)
    assert not watch.step()
    assert (told, rows.looks) == ([1], 1)
    rows.count += 1
    rows.stored = [attrs.evolve(PROFILE, verify=False, row_version=2)]
    assert watch.step()
    assert not opened.get("contracts").stored.verify
    assert (keys, len(source.blocks)) == (["contracts"], 1)


def test_a_database_that_is_away_is_told_once_and_asked_again(
    rows: Rows, watch_with: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """CFG-85, PIPE-64: the thread goes on, and takes over what was saved when the answer comes."""
    watch, opened, _, _ = watch_with(seen=None, poll_interval_seconds=0.001)
    rows.away = True
    with caplog.at_level(logging.ERROR, logger="bulksigner.profiles"):
        watch.start()
        for _ in range(3):
            assert rows.asked.acquire(timeout=10)
        arrived = threading.Event()
        watch._tell = arrived.set
        rows.away = False
        assert arrived.wait(10)
        watch.stop()
    assert opened.get("contracts").key is not None
    assert [record.getMessage() for record in caplog.records] == ["Edits of profiles cannot be taken over"]
