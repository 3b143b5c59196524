"""A few threads that write submitted acts, for an engine whose commits are best made side by side."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from bulksigner.records.errors import StoreFailed
from bulksigner.records.store import Act, Done

__all__ = ["Lanes"]

_CLOSE_LIMIT_SECONDS = 5.0


class Lanes:
    """Threads that carry out acts; each is started when the ones before are all busy."""

    def __init__(self, carry_out: Callable[[Act[Any]], Any], limit: int) -> None:
        self._carry_out = carry_out
        self._limit = limit
        self._waiting: queue.SimpleQueue[tuple[Act[Any], Done] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._is_closed = False

    def put(self, act: Act[Any], done: Done) -> None:
        """Hand over an act; `done` is called in a thread of these. Raises `StoreFailed` once they are closed."""
        with self._guard:
            if self._is_closed:
                raise StoreFailed("The database takes no more writes: it is being closed.")
            self._under_way += 1
            if self._under_way > len(self._threads) < self._limit:
                thread = threading.Thread(target=self._run, name=f"writes-{len(self._threads) + 1}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._waiting.put((act, done))

    def close(self) -> None:
        """Take no more acts and wait a moment for those under way, which may be waiting for a server."""
        with self._guard:
            self._is_closed = True
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join(_CLOSE_LIMIT_SECONDS)

    def _run(self) -> None:
        while (found := self._waiting.get()) is not None:
            act, done = found
            value: Any = None
            error: BaseException | None = None
            try:
                value = self._carry_out(act)
            except BaseException as raised:  # noqa: BLE001 - it is raised again where the act is waited for
                error = raised
            with self._guard:
                self._under_way -= 1
            done(value, error)
