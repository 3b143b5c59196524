"""SQLite: one file, one writer thread, readers beside it (CFG-62, PERF-07)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import peewee
from playhouse.pool import MaxConnectionsExceeded, PooledSqliteDatabase

from bulksigner.contract.errors import StartRefused
from bulksigner.lanes import Done
from bulksigner.mounts import network_type
from bulksigner.records.committer import Committer
from bulksigner.records.errors import FileLost, StoreFailed, UniqueViolation
from bulksigner.records.store import Act, EngineKind, Store
from bulksigner.records.times import UTC_TYPE

__all__ = ["SqliteStore", "hold_side_file", "open_sqlite"]

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 30
QUICK_CHECK_LIMIT_BYTES = 2 * 1024**3
READER_LIMIT = 64
EXIT_DATA = 65
EXIT_CANNOT_CREATE = 73

_UNIQUE_CODES = (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)

CHECKPOINT_PAGES = 4_000
"""Pages in the log before they move into the file: 16 MiB, what some seventy jobs write."""

PRAGMAS = (
    ("journal_mode", "wal"),
    ("synchronous", "full"),
    ("wal_autocheckpoint", CHECKPOINT_PAGES),
    ("busy_timeout", BUSY_TIMEOUT_SECONDS * 1000),
    ("foreign_keys", "on"),
    ("secure_delete", "on"),
)


class SqliteStore(Store):
    """A database in one file; writes of all threads go through one committer."""

    kind = EngineKind.SQLITE
    shares_commits = True

    def __init__(self, path: Path) -> None:
        database = PooledSqliteDatabase(
            str(path),
            pragmas=PRAGMAS,
            max_connections=READER_LIMIT,
            timeout=BUSY_TIMEOUT_SECONDS,
            check_same_thread=False,
            autoconnect=False,
            field_types={UTC_TYPE: "TEXT"},
        )
        super().__init__(database, f"SQLite ({path})")
        self.path = path
        self._opened = _identity(path)
        self._committer = Committer(self._connect_committer, database.close, self.label)

    def write(self, act: Callable[[], T], *, settle: Callable[[], T | None] | None = None) -> T:  # noqa: ARG002  # a local commit always answers
        """Have the committer run `act`; see `Store.write`."""
        return self._committer.submit(act)

    def submit(self, act: Act[Any], done: Done) -> None:
        """Have the committer run the act with those that wait beside it."""
        self._committer.post(act.run, done)

    def submit_all(self, acts: Sequence[tuple[Act[Any], Done]]) -> None:
        """Have the committer run the acts in one group."""
        try:
            self._committer.post_all([(act.run, done) for act, done in acts])
        except BaseException as refused:  # noqa: BLE001 - it is raised where the acts are waited for
            for _, done in acts:
                done(None, refused)

    def read(self, act: Callable[[], T]) -> T:
        """Run `act` on a reader's connection, or on the committer's inside an act."""
        with self.reading():
            return act()

    def probe(self) -> None:
        """Read once from the file; raises `FileLost` when it is not the one that was opened."""
        if (loss := self.find_loss()) is not None:
            raise FileLost(loss)
        with self.reading():
            try:
                self._run("SELECT COUNT(*) FROM sqlite_master", ())
            except sqlite3.Error as error:
                raise self._translate(error) from error

    def find_loss(self) -> str | None:
        """Say that the file was removed or replaced since it was opened, or None."""
        if _identity(self.path) == self._opened:
            return None
        return (
            f"{self.label} was removed or replaced while the service runs; what is recorded now will be lost. "
            "Stop the service, put the right file in its place, and start again"
        )

    def close(self) -> None:
        """Finish the writes that wait and close every connection."""
        self._committer.close()
        self.database.close_all()

    @property
    def is_writing(self) -> bool:
        """Tell whether the caller runs inside an act."""
        return self._committer.is_current_thread

    @property
    def _driver_errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error, peewee.PeeweeException, MaxConnectionsExceeded)

    def _connect_committer(self) -> sqlite3.Connection:
        self.database.connect()
        connection: sqlite3.Connection = self.database.connection()
        return connection

    def _translate(self, error: Exception) -> Exception:
        if getattr(error, "sqlite_errorcode", None) in _UNIQUE_CODES:
            return UniqueViolation(str(error))
        return StoreFailed(f"{self.label} failed: {error}.")

    def _run(self, sql: str, values: Sequence[object]) -> Any:
        return self.database.connection().execute(sql, values)

    def _run_each(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        touched: int = self.database.connection().executemany(sql, rows).rowcount
        return touched


def open_sqlite(path: Path, *, network: Callable[[Path], str | None] = network_type) -> SqliteStore:
    """Open the database file, making it (0640) and its folder (0700) when absent.

    Raises `StartRefused`: 65 for a damaged file (OPS-160), 73 for a network file system (BEY-41) or a place that
    cannot be written.
    """
    kind = network(path)
    if kind is not None:
        raise StartRefused(
            f"The SQLite database {path} lies on a network file system ({kind}), where its locks do not hold. "
            "Put it on a local disk, or use Database:Provider = PostgreSql.",
            exit_code=EXIT_CANNOT_CREATE,
        )
    try:
        _make_file(path)
    except OSError as error:
        raise StartRefused(
            f"The SQLite database {path} cannot be created: {error}. Give the service's account the right to write.",
            exit_code=EXIT_CANNOT_CREATE,
        ) from error
    _check_file(path)
    return SqliteStore(path)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def hold_side_file(path: Path) -> Iterator[None]:
    """Hold the one lock of those who open or migrate this database (DEP-27); waits for others at most 2 minutes."""
    side = path.with_name(path.name + ".migrate")
    _make_file(side)
    connection = sqlite3.connect(side, timeout=120, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        connection.close()


def _make_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o640))
    except FileExistsError:
        return
    path.chmod(0o640)


def _check_file(path: Path) -> None:
    """Refuse a file that is damaged or no database; the switch to WAL happens here too, where nobody disturbs it."""
    found = "ok"
    try:
        with hold_side_file(path):
            connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = wal")
                if path.stat().st_size < QUICK_CHECK_LIMIT_BYTES:
                    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            finally:
                connection.close()
    except sqlite3.OperationalError as error:
        is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        remedy = "Free space on its volume" if is_full else "Look at its rights, and for who else has it open"
        raise StartRefused(
            f"The SQLite database {path} cannot be opened: {error}. {remedy}.",
            exit_code=EXIT_CANNOT_CREATE,
        ) from error
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise StartRefused(
            f"The SQLite database {path} is damaged: {found}. Restore the newest good backup, or move the file away.",
            exit_code=EXIT_DATA,
        )
