"""What jobs ask of the database, handed over together: a commit of four acts costs little more than one of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bulksigner.lanes import Done
from bulksigner.records.store import Act, Store

__all__ = ["HOLD_SECONDS", "Outbox"]

HOLD_SECONDS = 0.003
"""The longest that an act waits for others, for the case that these are at work on large files."""


class Outbox:
    """Holds acts back until half of the jobs under way wait for one; belongs to one thread (PERF-07).

    A job that is alone never waits, nor one of two. With more, the other half keeps the engine at work meanwhile.
    """

    def __init__(
        self, store: Store, count_under_way: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._count_under_way = count_under_way
        self._clock = clock
        self._held: list[tuple[Act[Any], Done]] = []
        self._held_since = 0.0

    def put(self, act: Act[Any], done: Done) -> None:
        """Take an act; `done` hears of it as of one that is submitted to the store."""
        if not self._held:
            self._held_since = self._clock()
        self._held.append((act, done))

    def hand_over(self) -> float | None:
        """Submit what is held if it is time to; else return in how many seconds to ask again at the latest."""
        if not self._held:
            return None
        left_seconds = self._held_since + HOLD_SECONDS - self._clock()
        if self._store.shares_commits and 2 * len(self._held) < self._count_under_way() and left_seconds > 0:
            return left_seconds
        held, self._held = self._held, []
        self._store.submit_all(held)
        return None
