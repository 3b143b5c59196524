"""Names that may not be signed again, and a turn for each name among the doors of this process (PIPE-48, PIPE-51)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from bulksigner.jobs.names import Holder, name_key

__all__ = ["Holders", "TakenNames"]


class Holders(Protocol):
    """Finds the jobs that hold names."""

    def holder_of(self, file_name: str, *, besides: str | None = None) -> Holder | None:
        """Return the job that holds a name, leaving out the job `besides`; None when nobody does."""
        ...

    def held_among(self, file_names: Collection[str]) -> Collection[str]:
        """Return those of the names that somebody holds."""
        ...


class TakenNames:
    """Asks whether a name is taken; off, none ever is (CFG-122)."""

    def __init__(self, holders: Holders, *, is_on: bool) -> None:
        self._holders = holders
        self._is_on = is_on
        self._busy: set[str] = set()
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, file_names: Iterable[str]) -> Iterator[None]:
        """Have these names to oneself from the question to the commit, so that no other door takes one in between."""
        keys = {name_key(name) for name in file_names} if self._is_on else set()
        with self._changed:
            # All at once, so that two doors cannot wait for each other.
            self._changed.wait_for(lambda: self._busy.isdisjoint(keys))
            self._busy |= keys
        try:
            yield
        finally:
            with self._changed:
                self._busy -= keys
                self._changed.notify_all()

    def holder_of(self, file_name: str, *, besides: str | None = None) -> Holder | None:
        """Return the job that holds a name, but for the job `besides`; None when the name is free or the rule off."""
        return self._holders.holder_of(file_name, besides=besides) if self._is_on else None

    def taken_among(self, file_names: Collection[str]) -> Collection[str]:
        """Return those of the names for which `holder_of` has an answer; none when the rule is off."""
        return self._holders.held_among(file_names) if self._is_on else ()

    def rounds(self, names: Iterable[tuple[int, str]]) -> Iterator[list[int]]:
        """Divide numbered names into rounds in which no name comes twice; the second is decided after the first."""
        left: list[tuple[int, str]] = list(names)
        while left:
            seen: set[str] = set()
            now: list[tuple[int, str]] = []
            later: list[tuple[int, str]] = []
            for index, name in left:
                key = name_key(name)
                (later if self._is_on and key in seen else now).append((index, name))
                seen.add(key)
            yield [index for index, _ in now]
            left = later
