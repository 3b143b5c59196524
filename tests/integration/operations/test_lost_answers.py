"""A commit whose answer was lost is found in the rows, and never told as a failure (DEP-29)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bulksigner.jobs.model import utc_now
from bulksigner.jobs.removal import Removed
from bulksigner.operations.people import Person
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.records.events import Event

OPERATOR = Person("operator", "ApiKey")


@pytest.fixture
def lose(desk: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[object]]:
    """Have the next writes be settled by their rows, after a commit or without one; returns what settling found."""
    write = type(desk.store).write
    found: list[object] = []

    def start(is_committed: bool) -> list[object]:
        def lost(store: Any, act: Any, *, settle: Any = None) -> Any:
            if is_committed:
                write(store, act)
            found.append(settle())
            return found[-1]

        monkeypatch.setattr(type(desk.store), "write", lost)
        return found

    return start


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_deletion(desk: Any, lose: Any, is_committed: bool) -> None:
    """PIPE-101: the row is gone, or nothing was recorded."""
    job = desk.completed()
    found = lose(is_committed)
    desk.operations.deletion._removal.remove(job, Event("JobDeleted", "Job deleted."))
    assert found == [True if is_committed else None]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_clear(desk: Any, lose: Any, is_committed: bool) -> None:
    """PIPE-103: the event at the time of the clear has the counts."""
    desk.completed()
    found = lose(is_committed)
    desk.operations.clearing._removal.remove_all(utc_now(), lambda _: Event("JobsCleared", "Jobs cleared."))
    assert found == [Removed(jobs=1, events=0) if is_committed else None]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_pause(desk: Any, lose: Any, is_committed: bool) -> None:
    """PIPE-68: the row is the one that was to be written, or still the old one."""
    found = lose(is_committed)
    state = desk.operations.pausing.pause(OPERATOR, "why")
    assert found == [PauseFlag(desk.store).read() if is_committed else None]
    assert state is found[0]
