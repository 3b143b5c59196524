"""One service on one server database: an advisory lock that dies with its connection (DEP-26, OPS-60)."""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from bulksigner.contract.errors import StartRefused
from bulksigner.records.postgresql import PostgresqlStore
from bulksigner.records.store import Store

__all__ = ["DatabaseLock", "hold_database"]

EXIT_HELD = 75
_LOCK_KEY = 0x62756C73
_TRY = "SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))"
_HOLDER = """
    SELECT a.application_name, a.client_addr::text, a.backend_start::text FROM pg_locks l
    JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.classid = %s AND l.granted AND d.datname = current_database()
    AND l.objid = (hashtext(current_schema())::bigint & 4294967295)::oid"""


class DatabaseLock(Protocol):
    """The right to be the one service on a database."""

    def is_held(self) -> bool:
        """Tell whether it is still ours; a server restart takes it away."""
        ...

    def release(self) -> None:
        """Give it up; harmless the second time."""
        ...


class _FileLock:
    """SQLite: the lock of the data directory already guards the file (OPS-23)."""

    def is_held(self) -> bool:
        return True

    def release(self) -> None:
        return


@attrs.frozen
class _AdvisoryLock:
    _store: PostgresqlStore
    _connection: Any

    def is_held(self) -> bool:
        return self._store.answers(self._connection)

    def release(self) -> None:
        self._connection.close()


def hold_database(store: Store) -> DatabaseLock:
    """Take the lock or raise `StartRefused` 75 naming who has it."""
    if not isinstance(store, PostgresqlStore):
        return _FileLock()
    connection = store.connect_alone()
    try:
        if connection.execute(_TRY, (_LOCK_KEY,)).fetchone()[0]:
            return _AdvisoryLock(store, connection)
        holder = connection.execute(_HOLDER, (_LOCK_KEY,)).fetchone()
    except BaseException:
        connection.close()
        raise
    connection.close()
    who = "another service"
    if holder is not None:
        who = f"{holder[0] or 'a client'} ({holder[1] or 'local'}, since {holder[2]})"
    raise StartRefused(
        f"{store.label} is already in use by {who}. Stop that service first; one database serves one service.",
        exit_code=EXIT_HELD,
    )
