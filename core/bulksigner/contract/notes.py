"""Notes: small facts that a plugin keeps in the operational store, across restarts and for every instance."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["KeepsNotes", "Notes"]


class Notes(Protocol):
    """The notes of one plugin, by name; each is a short text, and none is ever shown.

    Both methods wait for the database and raise `BulkSignerError` when it does not answer. Thread-safe.
    """

    def read(self, name: str) -> str | None:
        """Return a note; None where there is none."""
        ...

    def swap(self, name: str, before: str | None, after: str | None) -> bool:
        """Put `after` in the place of `before`, None standing for no note, and tell whether that was done.

        False says that somebody else was first and the note is not, or not any more, `before`.
        """
        ...


@runtime_checkable
class KeepsNotes(Protocol):
    """What a provider of any role may have beside the members of its role, to be given its plugin's notes."""

    def take_notes(self, notes: Notes) -> None:
        """Take the notes, which stay good for life.

        Called once, when the database is open and before the first key is; not in signing worker processes, and not
        by a `bulksigner check` that finds no database yet.
        """
        ...
