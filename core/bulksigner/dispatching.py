"""Which thread answers which request: nobody who asks whether the service is alive stands in line (API-46).

Waitress gives every request to the next free thread of one pool. While fifty clients upload, each of its threads is
busy making a file durable, and everything else waits for all the uploads that came before it. Here uploads may take
most of the threads, never all, and the question for health has a thread of its own, as its answer needs nothing.
"""

from __future__ import annotations

import enum
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Dispatcher", "Errand", "errand_of"]

log = logging.getLogger("bulksigner.web")

HEALTH_PATH = "/api/health"
UPLOAD_PATHS = ("/api/files",)
"""Requests below these paths bring whole files."""


class Errand(enum.Enum):
    """What a request asks for, as far as it matters to the line it stands in."""

    HEALTH = enum.auto()
    UPLOAD = enum.auto()
    OTHER = enum.auto()


def errand_of(method: str, path: str) -> Errand:
    """Tell the errand of a request by its first line."""
    if path == HEALTH_PATH and method in ("GET", "HEAD"):
        return Errand.HEALTH
    if method == "POST" and any(path == one or path.startswith(f"{one}/") for one in UPLOAD_PATHS):
        return Errand.UPLOAD
    return Errand.OTHER


class Dispatcher:
    """Hands the channels of Waitress, each with a complete request, to threads; the oldest that may go goes first."""

    def __init__(self, threads: int) -> None:
        self._uploads_limit = max(1, threads - max(1, threads // 4))
        self._uploads_under_way = 0
        self._numbers = itertools.count()
        self._waiting: dict[Errand, deque[tuple[int, Any]]] = {errand: deque() for errand in Errand}
        self._guard = threading.Lock()
        self._work, self._health = threading.Condition(self._guard), threading.Condition(self._guard)
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._serve, args=(self._work, self._next), name=f"http-{number}", daemon=True)
            for number in range(1, threads + 1)
        ]
        own = (self._health, self._next_for_health)
        self._threads.append(threading.Thread(target=self._serve, args=own, name="http-health", daemon=True))
        for thread in self._threads:
            thread.start()

    def add_task(self, channel: Any) -> None:
        """Put a channel in line for its first request."""
        request = channel.requests[0]
        # A request that could not be parsed has neither.
        errand = errand_of(getattr(request, "command", ""), getattr(request, "path", ""))
        with self._guard:
            self._waiting[errand].append((next(self._numbers), channel))
            (self._health if errand is Errand.HEALTH else self._work).notify()

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        """Let requests under way be answered, and send away those in line; True when there were none of the latter."""
        with self._guard:
            self._is_closed = True
            left = [channel for line in self._waiting.values() for _, channel in line]
            for line in self._waiting.values():
                line.clear()
            self._work.notify_all()
            self._health.notify_all()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if cancel_pending:
            for channel in left:
                channel.cancel()
        return not left

    def _serve(self, changed: threading.Condition, choose: Callable[[], Errand | None]) -> None:
        while True:
            with self._guard:
                while (errand := choose()) is None:
                    if self._is_closed:
                        return
                    changed.wait()
                _, channel = self._waiting[errand].popleft()
                self._uploads_under_way += errand is Errand.UPLOAD
            try:
                channel.service()
            except BaseException:
                # A channel answers for its own faults; whatever comes here must not cost the thread.
                log.exception("A request could not be answered")
            # Nobody is woken: this thread itself is free now, and takes the next.
            with self._guard:
                self._uploads_under_way -= errand is Errand.UPLOAD

    def _next(self) -> Errand | None:
        errands = [Errand.OTHER]
        if self._uploads_under_way < self._uploads_limit:
            errands.append(Errand.UPLOAD)
        waiting = [(self._waiting[errand][0][0], errand) for errand in errands if self._waiting[errand]]
        return min(waiting, key=lambda one: one[0])[1] if waiting else None

    def _next_for_health(self) -> Errand | None:
        return Errand.HEALTH if self._waiting[Errand.HEALTH] else None
