"""The notes of plugins, in the operational store."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import attrs

from bulksigner.records.errors import UniqueViolation
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import PluginNoteRow

__all__ = ["StoredNotes"]

_OF_NAME = (PluginNoteRow.plugin == slot("plugin")) & (PluginNoteRow.name == slot("name"))
_AS_IT_WAS = _OF_NAME & (PluginNoteRow.value == slot("before"))
_READ = Prepared(PluginNoteRow.select(PluginNoteRow.value).where(_OF_NAME))
_ADD = Prepared(
    PluginNoteRow.insert(
        {
            PluginNoteRow.plugin: slot("plugin"),
            PluginNoteRow.name: slot("name"),
            PluginNoteRow.value: slot("after"),
            PluginNoteRow.updated_at: slot("at"),
        }
    )
)
_CHANGE = Prepared(
    PluginNoteRow.update({PluginNoteRow.value: slot("after"), PluginNoteRow.updated_at: slot("at")}).where(_AS_IT_WAS)
)
_REMOVE = Prepared(PluginNoteRow.delete().where(_AS_IT_WAS))


@attrs.frozen
class StoredNotes:
    """The notes of the plugin of that name; one transaction each."""

    store: Store
    clock: Callable[[], datetime.datetime]
    plugin: str

    def read(self, name: str) -> str | None:
        """Return a note; None where there is none."""
        return self.store.read(lambda: self._find(name))

    def swap(self, name: str, before: str | None, after: str | None, *, also: Callable[[], None] | None = None) -> bool:
        """Put `after` in the place of `before` and tell whether that was done; `also` writes more in the same act."""

        def act() -> bool:
            is_done = put()
            if is_done and also is not None:
                also()
            return is_done

        def put() -> bool:
            place = {"plugin": self.plugin, "name": name}
            if before is None:
                if after is not None:
                    self.store.execute(_ADD, **place, after=after, at=self.clock())
                return after is not None or self._find(name) is None
            if after is None:
                return self.store.execute(_REMOVE, **place, before=before).count == 1
            return self.store.execute(_CHANGE, **place, before=before, after=after, at=self.clock()).count == 1

        def settle() -> bool | None:
            return True if self._find(name) == after else None

        try:
            return self.store.write(act, settle=settle)
        except UniqueViolation:
            return False

    def _find(self, name: str) -> str | None:
        rows = self.store.execute(_READ, plugin=self.plugin, name=name).rows
        return str(rows[0][0]) if rows else None
