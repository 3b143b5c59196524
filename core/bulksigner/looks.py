"""Looks at things that may never answer, such as a folder on a mount that hangs: each on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

__all__ = ["Look", "Looks"]

T = TypeVar("T")


class Look(Generic[T]):
    """One look under way; several may wait for the same one. `act` raises nothing."""

    def __init__(self, name: str, act: Callable[[], T]) -> None:
        self._act = act
        self._finished = threading.Event()
        self._began = time.monotonic()
        self._seen: list[T] = []
        threading.Thread(target=self._look, name=name, daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Tell whether there is an answer."""
        return self._finished.is_set()

    def _look(self) -> None:
        self._seen.append(self._act())
        self._finished.set()

    def wait(self, limit_seconds: float) -> T | None:
        """Return the answer, or None when there is none so long after the look began."""
        remaining = self._began + limit_seconds - time.monotonic()
        return self._seen[0] if self._finished.wait(max(remaining, 0.0)) else None


class Looks(Generic[T]):
    """Looks by key: one that hangs costs one thread, as it is not begun again before it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, Look[T]] = {}

    def begin(self, key: Hashable, name: str, act: Callable[[], T]) -> Look[T]:
        """Return a new look, or the one of this key that has not ended."""
        with self._lock:
            look = self._under_way.get(key)
            if look is None or look.is_over:
                look = self._under_way[key] = Look(name, act)
            return look

    def forget_others(self, keys: Collection[Hashable]) -> None:
        """Drop what ended and is not among `keys`."""
        with self._lock:
            for key in self._under_way.keys() - set(keys):
                if self._under_way[key].is_over:
                    del self._under_way[key]
