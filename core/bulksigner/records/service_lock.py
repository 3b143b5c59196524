"""One service on one database: a lock that dies with its process or its connection (DEP-26, OPS-60)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Protocol

import attrs

from bulksigner.contract.errors import StartRefused
from bulksigner.locks import HeldLock, LockHeld, lock_file
from bulksigner.records.errors import StoreFailed
from bulksigner.records.postgresql import PostgresqlStore
from bulksigner.records.sqlite import SqliteStore
from bulksigner.records.store import Store

__all__ = ["DatabaseLock", "hold_database", "hold_database_file"]

log = logging.getLogger(__name__)

EXIT_HELD = 75
EXIT_CANNOT_CREATE = 73
_LOCK_KEY = 0x62756C73
_TRY = "SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))"
_HOLDER = """
    SELECT a.application_name, a.client_addr::text, a.backend_start::text FROM pg_locks l
    JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.classid = %s AND l.granted AND d.datname = current_database()
    AND l.objid = (hashtext(current_schema())::bigint & 4294967295)::oid"""


class DatabaseLock(Protocol):
    """The right to be the one service on a database."""

    def find_loss(self) -> str | None:
        """Say why the database is not this service's any more, or None; a lock that was lost is taken back if free.

        Raises `StoreFailed` when the database does not answer. For one thread only.
        """
        ...

    def release(self) -> None:
        """Give it up; harmless the second time."""
        ...


@attrs.frozen
class _SideHeldLock:
    """SQLite: a lock on a file beside the database, which services with other data directories meet too."""

    _store: SqliteStore
    _lock: HeldLock

    def find_loss(self) -> str | None:
        return self._store.find_loss()

    def release(self) -> None:
        self._lock.release()


@attrs.define
class _AdvisoryLock:
    """PostgreSQL: held by a session of its own; a restart of the server takes it away (DEP-28)."""

    _store: PostgresqlStore
    _session: Any

    def find_loss(self) -> str | None:
        if self._session is not None and self._store.answers(self._session):
            return None
        self.release()
        self._session, holder = _try_lock(self._store)
        if holder is not None:
            return f"{self._store.label} was lost to {holder}; one database serves one service, stop one of them"
        log.info("The lock on %s was lost with its connection and has been taken back", self._store.label)
        return None

    def release(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def hold_database(store: Store) -> DatabaseLock:
    """Take the lock or raise `StartRefused`: 75 naming who has it, or a server that does not answer."""
    if isinstance(store, SqliteStore):
        return _SideHeldLock(store, hold_database_file(store.path, store.label))
    if not isinstance(store, PostgresqlStore):
        raise TypeError(f"no lock is known for {store.label}")
    try:
        store.probe()
        session, holder = _try_lock(store)
    except StoreFailed as error:
        raise StartRefused(
            f"The database cannot be reached: {error.message} See that the server runs and that "
            "ConnectionStrings:Default names it and an account it lets in, then start again.",
            exit_code=EXIT_HELD,
        ) from error
    if holder is not None:
        raise _refusal(store.label, holder)
    return _AdvisoryLock(store, session)


def hold_database_file(path: Path, label: str) -> HeldLock:
    """Take the lock of a SQLite file that nobody has open; raises `StartRefused` 75 naming who has it."""
    real = path.resolve()
    side = real.with_name(real.name + ".lock")
    try:
        return lock_file(side)
    except LockHeld as held:
        raise _refusal(label, f"{held} (lock {side})") from held
    except OSError as error:
        raise StartRefused(
            f"The lock file {side} cannot be opened: {error.strerror}. Give the service's account the right to write.",
            exit_code=EXIT_CANNOT_CREATE,
        ) from error


def _try_lock(store: PostgresqlStore) -> tuple[Any, str | None]:
    """Return the session that has the lock, or None and who has it. Raises `StoreFailed`."""
    session = store.connect_alone()
    try:
        if store.ask(session, _TRY, _LOCK_KEY)[0]:
            return session, None
        found = store.ask(session, _HOLDER, _LOCK_KEY)
    except BaseException:
        session.close()
        raise
    session.close()
    if found is None:
        return None, "another service"
    return None, f"{found[0] or 'a client'} ({found[1] or 'local'}, since {found[2]})"


def _refusal(label: str, holder: str) -> StartRefused:
    return StartRefused(
        f"{label} is already in use by {holder}. Stop that service first; one database serves one service, and a "
        "second one needs its own in ConnectionStrings:Default.",
        exit_code=EXIT_HELD,
    )
