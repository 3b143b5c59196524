"""A few threads for calls that may take their time, and how one hears of their end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Done", "Lanes"]

T = TypeVar("T")
Done = Callable[[Any, BaseException | None], None]
"""Hears once, from any thread, how something ended: its value, or its error."""

_CLOSE_LIMIT_SECONDS = 5.0


class Lanes(Generic[T]):
    """Up to `limit` threads that `act` on what is put in; each is started when the ones before are all busy."""

    def __init__(self, name: str, limit: int, act: Callable[[T], Any], closed: Callable[[], Exception]) -> None:
        self._name = name
        self._limit = limit
        self._act = act
        self._closed = closed
        self._waiting: queue.SimpleQueue[tuple[T, Done] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._is_closed = False

    def put(self, item: T, done: Done) -> None:
        """Hand over an item; `done` is called in a thread of these. Raises `closed()` once they are closed."""
        with self._guard:
            if self._is_closed:
                raise self._closed()
            self._under_way += 1
            if self._under_way > len(self._threads) < self._limit:
                name = f"{self._name}-{len(self._threads) + 1}"
                # A daemon, since a call that never returns must not hold up the exit of the process.
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
        self._waiting.put((item, done))

    def close(self, patience_seconds: float = _CLOSE_LIMIT_SECONDS) -> None:
        """Take no more, and give each thread a while to finish what was put in."""
        with self._guard:
            self._is_closed = True
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join(patience_seconds)

    def _run(self) -> None:
        while (found := self._waiting.get()) is not None:
            item, done = found
            value: Any = None
            error: BaseException | None = None
            try:
                value = self._act(item)
            except BaseException as raised:  # noqa: BLE001 - it is raised again where the value is waited for
                error = raised
            with self._guard:
                self._under_way -= 1
            done(value, error)
