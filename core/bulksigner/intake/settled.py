"""Files of a folder that were answered for, and need no second answer while they look the same."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from bulksigner.contract.storage import Entry

__all__ = ["Settled"]


@attrs.frozen
class _Answer:
    entry: Entry
    until: float | None


class Settled:
    """Remembers answers by name; one thread sifts and keeps, any thread may forget.

    An answer holds while the entry compares equal, and, when it has one, until its time. Providers whose entries say
    more than length and time (inode, change time) so have a file that was dropped again told apart from the first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, _Answer] = {}
        self._being_answered: set[str] = set()
        self._forgotten: set[str] = set()
        self.next_at: float | None = None
        """When the first answer that has a time ends, as of the last sift or keep."""

    def sift(self, entries: Iterable[Entry], now: float, is_candidate_name: Callable[[str], bool]) -> list[Entry]:
        """Return the entries that need an answer, and drop the answers of files that are gone."""
        fresh: list[Entry] = []
        listed: dict[str, _Answer] = {}
        with self._lock:
            answers = self._answers
            self.next_at = None
            for entry in entries:
                answer = answers.get(entry.name)
                if answer is not None and answer.entry == entry and (answer.until is None or now < answer.until):
                    listed[entry.name] = answer
                    self._note(answer.until)
                elif is_candidate_name(entry.name):
                    fresh.append(entry)
            self._answers = listed
        return fresh

    def keep(self, entry: Entry, *, until: float | None = None) -> None:
        """Remember an answer, for good or until a time of the same clock as `sift`."""
        with self._lock:
            if entry.name not in self._forgotten:
                self._answers[entry.name] = _Answer(entry, until)
                self._note(until)

    def forget(self, name: str) -> bool:
        """Drop the answer of a file; tell whether someone waits for that: it is due again, or is just being asked."""
        with self._lock:
            if name in self._being_answered:
                self._forgotten.add(name)
                return True
            answer = self._answers.pop(name, None)
            return answer is not None and answer.until is not None

    @contextlib.contextmanager
    def answering(self, batch: Sequence[Entry]) -> Iterator[None]:
        """Hold back answers that news overtook: a name forgotten meanwhile keeps none, and is looked at again."""
        with self._lock:
            self._being_answered = {entry.name for entry in batch}
            self._forgotten.clear()
        try:
            yield
        finally:
            with self._lock:
                self._being_answered = set()
                self._forgotten.clear()

    def _note(self, until: float | None) -> None:
        if until is not None and (self.next_at is None or until < self.next_at):
            self.next_at = until
