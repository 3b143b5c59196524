"""Several jobs that need the same folder on disk at the same moment share one flush of it (PERF-09)."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["SharedFlushes"]


class _Flush:
    """One flush, not begun yet or under way, and how it ended."""

    __slots__ = ("_under_way", "error")

    def __init__(self) -> None:
        # Held until it is over; an Event costs more than all else here, and mostly nobody waits for it.
        self._under_way = threading.Lock()
        self._under_way.acquire()
        self.error: BaseException | None = None

    def wait(self) -> None:
        with self._under_way:
            pass

    def end(self) -> None:
        self._under_way.release()


class SharedFlushes:
    """Flushes by key; whoever comes while one is under way waits for the next, with all who came meanwhile.

    A flush under way may have begun before the change of a newcomer, so it never serves for that one.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: dict[str, _Flush] = {}
        self._next: dict[str, _Flush] = {}

    def share(self, key: str, flush: Callable[[], None]) -> None:
        """Return once a flush that began after this call is over; raises what it raised."""
        with self._guard:
            mine = self._next.get(key)
            is_first = mine is None
            if mine is None:
                mine = self._next[key] = _Flush()
            before = self._running.get(key)
        if not is_first:
            mine.wait()
        else:
            if before is not None:
                before.wait()
            self._lead(key, mine, flush)
        if mine.error is not None:
            raise mine.error

    def _lead(self, key: str, mine: _Flush, flush: Callable[[], None]) -> None:
        with self._guard:
            # From here on newcomers form the next group.
            del self._next[key]
            self._running[key] = mine
        try:
            flush()
        except BaseException as error:  # noqa: BLE001 - it is raised again in every thread that shares this flush
            mine.error = error
        finally:
            with self._guard:
                if self._running.get(key) is mine:
                    del self._running[key]
            mine.end()
