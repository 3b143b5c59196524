"""How often one address may call: fixed windows, counted in this process (API-13 to API-18)."""

from __future__ import annotations

import enum
import math
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

import attrs

from bulksigner.settings.hosting import RateLimitingSettings, WindowSettings

__all__ = ["ROUTE_LIMITS", "LimitName", "RateLimits"]

_MOST_WINDOWS = 50_000
"""Addresses counted at once; beyond that the windows that began first are forgotten."""


class LimitName(enum.Enum):
    """The limits there are, by the name of their section below `RateLimiting`."""

    UPLOAD = "Upload"
    ACTIONS = "Actions"
    EXPORT = "Export"
    LOGIN = "Login"


ROUTE_LIMITS: Mapping[tuple[str, str], LimitName] = MappingProxyType(
    {
        ("POST", "/api/files"): LimitName.UPLOAD,
        ("POST", "/api/files/check"): LimitName.UPLOAD,
        ("POST", "/api/jobs/{id}/retry"): LimitName.ACTIONS,
        ("POST", "/api/jobs/{id}/cancel"): LimitName.ACTIONS,
        ("DELETE", "/api/jobs"): LimitName.ACTIONS,
        ("GET", "/api/pipeline/state"): LimitName.ACTIONS,
        ("POST", "/api/pipeline/pause"): LimitName.ACTIONS,
        ("POST", "/api/pipeline/resume"): LimitName.ACTIONS,
        ("POST", "/api/rescan"): LimitName.ACTIONS,
        ("POST", "/api/cleanup"): LimitName.ACTIONS,
        ("POST", "/api/backup"): LimitName.ACTIONS,
        ("POST", "/api/backup/cancel"): LimitName.ACTIONS,
        ("GET", "/api/jobs/export"): LimitName.EXPORT,
        ("POST", "/api/auth/login"): LimitName.LOGIN,
    }
)
"""Which limit a route is under; a route that is not here has none."""


@attrs.define
class _Window:
    ends_at: float
    taken: int = 0
    waiting: int = 0


class RateLimits:
    """Counts requests by limit and client.

    A request that waits for the next window holds the thread that would answer it, so at most half of the threads
    may wait at once, whatever the settings say.
    """

    def __init__(
        self, settings: RateLimitingSettings, *, threads: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings: Mapping[LimitName, WindowSettings] = {
            LimitName.UPLOAD: settings.upload,
            LimitName.ACTIONS: settings.actions,
            LimitName.EXPORT: settings.export,
            LimitName.LOGIN: settings.login,
        }
        self._is_on = settings.enabled
        self._clock = clock
        self._windows: dict[tuple[LimitName, str], _Window] = {}
        self._places = threads // 2
        self._changed = threading.Condition()
        self._is_closed = False

    def take(self, limit: LimitName, client: str) -> int | None:
        """Count one request; return None when it may go on, else in how many seconds the window ends."""
        if not self._is_on:
            return None
        with self._changed:
            left = self._try(limit, client)
            if left is not None and self._may_wait(limit, client):
                left = self._wait(limit, client, left)
            return None if left is None else max(math.ceil(left), 1)

    def close(self) -> None:
        """Refuse what waits, so that a stop waits for nobody."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _try(self, limit: LimitName, client: str) -> float | None:
        now, rule = self._clock(), self._settings[limit]
        window = self._windows.get((limit, client))
        if window is None or window.ends_at <= now:
            waiting = 0 if window is None else window.waiting
            # Put last, so that the first of the mapping is the one that began first.
            self._windows.pop((limit, client), None)
            window = self._windows[limit, client] = _Window(now + rule.window_seconds, waiting=waiting)
            self._forget(now)
        if window.taken < rule.permits_per_window:
            window.taken += 1
            return None
        return window.ends_at - now

    def _may_wait(self, limit: LimitName, client: str) -> bool:
        window = self._windows[limit, client]
        return window.waiting < self._settings[limit].queue_limit and self._places > 0 and not self._is_closed

    def _wait(self, limit: LimitName, client: str, left: float) -> float | None:
        self._windows[limit, client].waiting += 1
        self._places -= 1
        try:
            until = self._clock() + left
            while not self._is_closed and (remaining := until - self._clock()) > 0:
                self._changed.wait(remaining)
            return self._try(limit, client)
        finally:
            self._places += 1
            if (window := self._windows.get((limit, client))) is not None:
                window.waiting = max(window.waiting - 1, 0)

    def _forget(self, now: float) -> None:
        if len(self._windows) <= _MOST_WINDOWS:
            return
        gone = [key for key, window in self._windows.items() if window.ends_at <= now and not window.waiting]
        for key in gone or [next(iter(self._windows))]:
            del self._windows[key]
