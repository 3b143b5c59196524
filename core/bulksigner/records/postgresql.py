"""PostgreSQL through psycopg 3: a pool, and one rule for lost connections (DEP-17, DEP-29)."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import peewee
from playhouse.pool import MaxConnectionsExceeded, PooledPostgresqlDatabase

from bulksigner.contract.errors import StartRefused
from bulksigner.contract.settings import Secret
from bulksigner.lanes import Done, Lanes
from bulksigner.records.errors import ActMisused, CommitUnknown, StoreFailed, UniqueViolation, one_line
from bulksigner.records.store import Act, EngineKind, Store
from bulksigner.records.times import UTC_TYPE

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError:  # the extra `postgres` is not installed
    psycopg = None  # type: ignore[assignment]

__all__ = ["PostgresqlStore", "open_postgresql"]

T = TypeVar("T")

STATEMENT_TIMEOUT_MS = 15_000
CONNECT_TIMEOUT_SECONDS = 2
UNANSWERED_LIMIT_MS = 15_000
"""How long sent data may stay unacknowledged before a connection counts as broken."""
POOL_WAIT_SECONDS = 30
FURTHER_ATTEMPTS = 6
LANES = 6
"""Threads, and so connections, that write submitted acts."""
SILENCE_SECONDS = 1.0
"""How often those who are prompt try to connect to a server that does not answer."""
LOWEST_SERVER = 130000
EXIT_DATA = 65
EXIT_CONFIGURATION = 78
_UNIQUE_VIOLATION = "23505"
_DEADLOCK = "40P01"


class _Pool(PooledPostgresqlDatabase):  # type: ignore[misc]  # peewee has no types
    """The pool without its round trip at each check-out: a dead connection is found and replaced by its first use."""

    def _is_closed(self, conn: Any) -> bool:
        return bool(conn.closed)


class PostgresqlStore(Store):
    """A database on a server; each thread writes on a connection of the pool."""

    kind = EngineKind.POSTGRESQL

    def __init__(
        self, name: str, conninfo: str, label: str, max_connections: int, sleep: Callable[[float], None]
    ) -> None:
        database = _Pool(
            name,
            conninfo=conninfo,
            prefer_psycopg3=True,
            max_connections=max_connections,
            timeout=POOL_WAIT_SECONDS,
            autoconnect=False,
            field_types={UTC_TYPE: "TIMESTAMPTZ"},
        )
        super().__init__(database, label)
        self._conninfo = conninfo
        self._sleep = sleep
        self._local = threading.local()
        self._prompt_gate = threading.Lock()
        self._silent_until = 0.0
        self._lanes: Lanes[Act[Any]] = Lanes(
            "writes", LANES, self.carry_out, lambda: StoreFailed(f"{label} takes no more writes: it is being closed.")
        )

    def write(self, act: Callable[[], T], *, settle: Callable[[], T | None] | None = None) -> T:
        """Run `act` in a READ COMMITTED transaction on this thread's connection; see `Store.write`."""
        if self.is_writing:
            raise ActMisused("a write inside a write: an act must not call Store.write")

        def attempt() -> T:
            with self.reading():
                self._local.is_writing = True
                try:
                    self._begin()
                    value = act()
                except BaseException:
                    self._roll_back()
                    raise
                finally:
                    self._local.is_writing = False
                self._commit()
                return value

        return self._repeat(attempt, settle)

    def submit(self, act: Act[Any], done: Done) -> None:
        """Have one of a few threads write the act; commits at the same time share the server's flush."""
        self._lanes.put(act, done)

    def read(self, act: Callable[[], T]) -> T:
        """Run `act` on a connection of the pool; inside an act, on that act's own."""
        if not self.database.is_closed():
            return act()

        def attempt() -> T:
            with self.reading():
                return act()

        return self._repeat(attempt, None)

    @contextmanager
    def promptly(self) -> Iterator[None]:
        """Give this thread one further attempt, at once, instead of the patience of DEP-29."""
        was_prompt = self._is_prompt
        self._local.is_prompt = True
        try:
            yield
        finally:
            self._local.is_prompt = was_prompt

    def probe(self) -> None:
        """Connect once, without patience, and look at the server's version (DEP-32)."""
        with self.reading():
            version = self.database.connection().info.server_version
        if version < LOWEST_SERVER:
            raise StartRefused(
                f"{self.label} is version {version // 10000}; 13 or newer is needed. Upgrade the server.",
                exit_code=EXIT_DATA,
            )

    def connect_alone(self) -> Any:
        """Return a connection outside of the pool, in autocommit; the caller closes it (DEP-26, DEP-28)."""
        try:
            return psycopg.connect(self._conninfo, autocommit=True)
        except psycopg.Error as error:
            raise self._translate(error) from error

    def ask(self, connection: Any, sql: str, *values: object) -> Any:
        """Return the first row of a query on a connection of `connect_alone`, or None. Raises `StoreFailed`."""
        try:
            return connection.execute(sql, values).fetchone()
        except psycopg.Error as error:
            raise self._translate(error) from error

    def answers(self, connection: Any) -> bool:
        """Tell whether a connection of `connect_alone` is still good."""
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def close(self) -> None:
        """Finish the acts that wait and close every connection."""
        self._lanes.close()
        self.database.close_all()

    @property
    def is_writing(self) -> bool:
        """Tell whether the caller runs inside an act."""
        return getattr(self._local, "is_writing", False)

    @property
    def _driver_errors(self) -> tuple[type[Exception], ...]:
        return (psycopg.Error, peewee.PeeweeException, MaxConnectionsExceeded)

    def _translate(self, error: Exception) -> Exception:
        state = getattr(_driver_error(error), "sqlstate", None)
        if state == _UNIQUE_VIOLATION:
            return UniqueViolation(one_line(error))
        return StoreFailed(f"{self.label} failed: {one_line(error)}.")

    def _run(self, sql: str, values: Sequence[object]) -> Any:
        return self.database.connection().execute(sql, values or None, prepare=True)

    def _run_each(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        with self.database.connection().cursor() as cursor:
            cursor.executemany(sql, rows)
            touched: int = cursor.rowcount
            return touched

    def _begin(self) -> None:
        try:
            self.database.connection().execute("BEGIN")
        except psycopg.Error as error:
            raise self._translate(error) from error

    def _commit(self) -> None:
        connection = self.database.connection()
        try:
            connection.execute("COMMIT")
        except psycopg.Error as error:
            if connection.closed:
                raise CommitUnknown(
                    f"{self.label}: the connection broke during a commit: {one_line(error)}."
                ) from error
            raise self._translate(error) from error

    def _roll_back(self) -> None:
        connection = self.database.connection()
        if connection.closed:
            return
        try:
            connection.rollback()
        except psycopg.Error:
            connection.close()

    def _repeat(self, attempt: Callable[[], T], settle: Callable[[], T | None] | None) -> T:
        """Attempt until the connection holds: 6 further times, 0.5 s to 30 s apart (DEP-29).

        An attempt is repeated only when the server cannot have kept anything of it.
        """
        for tried in itertools.count():
            try:
                return attempt()
            except CommitUnknown:
                self._forget_connections()
                if settle is None:
                    raise
                found = self.read(settle)
                if found is not None:
                    return found
            except StoreFailed as error:
                is_last = tried >= FURTHER_ATTEMPTS or (self._is_prompt and (tried > 0 or self._silent_until > 0))
                if is_last or not self._is_passing(error):
                    raise
                self._forget_connections()
            if not self._is_prompt:
                self._sleep(min(0.5 * 2**tried, 30.0))
        raise AssertionError("unreachable")

    @property
    def _is_prompt(self) -> bool:
        return getattr(self._local, "is_prompt", False)

    def _connect(self) -> bool:
        """Connect; of those who are prompt one at a time, and what it met is the answer for those behind it."""
        if not self._is_prompt:
            return super()._connect()
        patience_seconds = 0.0 if self._silent_until else CONNECT_TIMEOUT_SECONDS
        if not self._prompt_gate.acquire(timeout=patience_seconds):
            raise StoreFailed(f"{self.label} does not answer.")
        try:
            if time.monotonic() < self._silent_until:
                raise StoreFailed(f"{self.label} did not answer a moment ago.")
            try:
                is_opened = super()._connect()
            except self._driver_errors:
                self._silent_until = time.monotonic() + SILENCE_SECONDS
                raise
            self._silent_until = 0.0
            return is_opened
        finally:
            self._prompt_gate.release()

    def _forget_connections(self) -> None:
        """Drop this thread's connection and the idle ones: what ended one has mostly ended them all."""
        self.database.manual_close()
        self.database.close_idle()

    def _is_passing(self, error: StoreFailed) -> bool:
        cause = _driver_error(error.__cause__)
        state = getattr(cause, "sqlstate", None)
        if state == _DEADLOCK:
            return True
        # No state: the server never answered. Class 57P0x: it is stopping or starting. Class 08: connection lost.
        is_lost = state is None or state.startswith(("57P0", "08"))
        return isinstance(cause, psycopg.OperationalError) and is_lost


def _driver_error(error: BaseException | None) -> BaseException | None:
    """Return the driver's own error inside the one peewee wraps around it."""
    found: BaseException | None = getattr(error, "orig", error)
    return found


def open_postgresql(
    url: Secret, max_connections: int, *, sleep: Callable[[float], None] = time.sleep
) -> PostgresqlStore:
    """Make the store for a URL of DEP-30; connects at the first use only, see `Store.probe` (CFG-64)."""
    if psycopg is None:
        raise StartRefused(
            "Database:Provider = PostgreSql needs the driver psycopg. Install it: pip install 'bulksigner[postgres]'.",
            exit_code=EXIT_CONFIGURATION,
        )
    try:
        given = conninfo_to_dict(url.reveal())
    except psycopg.Error as error:
        raise StartRefused(
            "ConnectionStrings:Default is not a PostgreSQL URL. Write postgresql://user@host:5432/database.",
            exit_code=EXIT_CONFIGURATION,
        ) from error
    if not given.get("dbname"):
        raise StartRefused(
            "ConnectionStrings:Default names no database. Write postgresql://user@host:5432/database.",
            exit_code=EXIT_CONFIGURATION,
        )
    name = str(given["dbname"])
    fixed = (
        f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC -c default_transaction_isolation=read\\ committed"
    )
    conninfo = make_conninfo(
        url.reveal(),
        application_name=f"bulksigner {socket.gethostname()} pid {os.getpid()}"[:63],
        connect_timeout=given.get("connect_timeout") or CONNECT_TIMEOUT_SECONDS,
        tcp_user_timeout=given.get("tcp_user_timeout") or UNANSWERED_LIMIT_MS,
        options=f"{given.get('options') or ''} {fixed}".strip(),
    )
    label = f"PostgreSQL ({given.get('host') or 'local'}/{name})"
    return PostgresqlStore(name, conninfo, label, max_connections, sleep)
