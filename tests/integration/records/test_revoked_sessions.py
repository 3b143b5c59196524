"""Sessions that were ended, on both engines."""

from __future__ import annotations

import datetime

from bulksigner.records.revoked_sessions import RevokedSessions
from bulksigner.records.store import Store

BEGIN = datetime.datetime(2026, 5, 26, 15, 42, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def test_an_ended_session_is_known_until_its_ticket_has_expired(store: Store) -> None:
    """SEC-22: to every instance on the database, twice is once, and the table does not grow for ever."""
    now = BEGIN
    revoked = RevokedSessions(store, lambda: now)
    revoked.revoke("one", BEGIN + 8 * HOUR)
    revoked.revoke("one", BEGIN + 9 * HOUR)
    another = RevokedSessions(store, lambda: now)
    assert another.is_revoked("one")
    assert not another.is_revoked("two")
    now = BEGIN + 8 * HOUR
    revoked.revoke("two", now + 8 * HOUR)
    assert another.is_revoked("one")
    now = BEGIN + 17 * HOUR
    revoked.revoke("three", now + 8 * HOUR)
    assert [another.is_revoked(name) for name in ("one", "two", "three")] == [False, False, True]
