"""Acts of several jobs go to the database together, and none waits for long (PERF-07)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bulksigner.pipeline.outbox import HOLD_SECONDS, Outbox
from bulksigner.records.store import Act, Store


class Recorder:
    """A store that remembers what was submitted together."""

    def __init__(self, *, shares_commits: bool) -> None:
        self.shares_commits = shares_commits
        self.groups: list[list[str]] = []

    def submit_all(self, acts: Any) -> None:
        self.groups.append([act.label for act, _ in acts])


class Rig:
    """An outbox over a recorder, so many jobs under way, and a clock that is set by hand."""

    def __init__(self, under_way: int, *, shares_commits: bool = True) -> None:
        self.now = 100.0
        self.under_way = under_way
        self.store = Recorder(shares_commits=shares_commits)
        self.outbox = Outbox(cast("Store", self.store), lambda: self.under_way, lambda: self.now)

    def put(self, label: str) -> None:
        self.outbox.put(Act(label, lambda: None), lambda _value, _error: None)


@pytest.mark.parametrize("under_way", [0, 1, 2])
def test_one_job_of_few_never_waits(under_way: int) -> None:
    """PERF-07: no added delay when a job is alone."""
    rig = Rig(under_way)
    rig.put("mark")
    assert rig.outbox.hand_over() is None
    assert rig.store.groups == [["mark"]]


def test_half_of_the_jobs_go_together() -> None:
    """PERF-07: in the order in which they came, and what comes later waits anew."""
    rig = Rig(8)
    for label in ("one", "two", "three"):
        rig.put(label)
        assert rig.outbox.hand_over() == pytest.approx(HOLD_SECONDS)
    rig.put("four")
    assert rig.outbox.hand_over() is None
    assert rig.store.groups == [["one", "two", "three", "four"]]
    assert rig.outbox.hand_over() is None
    rig.now += 1
    rig.put("five")
    assert rig.outbox.hand_over() == pytest.approx(HOLD_SECONDS)


def test_nobody_waits_for_jobs_that_take_long() -> None:
    """PERF-07: beside seven large files a small one goes on at the end of the limit."""
    rig = Rig(8)
    rig.put("small")
    assert rig.outbox.hand_over() == pytest.approx(HOLD_SECONDS)
    rig.now += HOLD_SECONDS / 2
    rig.put("another")
    left_seconds = rig.outbox.hand_over()
    assert left_seconds == pytest.approx(HOLD_SECONDS / 2)
    rig.now += HOLD_SECONDS
    assert rig.outbox.hand_over() is None
    assert rig.store.groups == [["small", "another"]]


def test_jobs_that_end_meanwhile_are_not_waited_for() -> None:
    """PERF-07: half of those that are left is enough."""
    rig = Rig(8)
    rig.put("mark")
    assert rig.outbox.hand_over() is not None
    rig.under_way = 2
    assert rig.outbox.hand_over() is None
    assert rig.store.groups == [["mark"]]


def test_where_commits_are_not_shared_nothing_waits() -> None:
    """PERF-07: connections of a server commit side by side, and would gain nothing."""
    rig = Rig(8, shares_commits=False)
    rig.put("mark")
    assert rig.outbox.hand_over() is None
    assert rig.store.groups == [["mark"]]
