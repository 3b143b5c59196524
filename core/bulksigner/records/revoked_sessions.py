"""Browser sessions that were ended before their time, kept while a copy of their ticket could still be shown."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import SessionRevocationRow

__all__ = ["RevokedSessions"]

_IS_THERE = Prepared(
    SessionRevocationRow.select(SessionRevocationRow.ticket_id).where(
        SessionRevocationRow.ticket_id == slot("ticket_id")
    )
)
_INSERT = Prepared(
    SessionRevocationRow.insert(
        {SessionRevocationRow.ticket_id: slot("ticket_id"), SessionRevocationRow.until: slot("until")}
    ).on_conflict_ignore()
)
_FORGET = Prepared(SessionRevocationRow.delete().where(SessionRevocationRow.until < slot("now")))


class RevokedSessions:
    """The table `session_revocation`; both acts fail at once while the database is away."""

    def __init__(self, store: Store, clock: Callable[[], datetime.datetime]) -> None:
        self._store = store
        self._clock = clock

    def revoke(self, ticket_id: str, until: datetime.datetime) -> None:
        """Record that a session has ended, and forget those whose tickets have all expired."""

        def act() -> None:
            self._store.execute(_FORGET, now=self._clock())
            self._store.execute(_INSERT, ticket_id=ticket_id, until=until)

        with self._store.promptly():
            # Doing it twice is doing it once, so a lost answer to the commit needs no more than a look.
            self._store.write(act, settle=lambda: None)

    def is_revoked(self, ticket_id: str) -> bool:
        """Tell whether a session was ended."""
        with self._store.promptly():
            return bool(self._store.read(lambda: self._store.execute(_IS_THERE, ticket_id=ticket_id)).rows)
