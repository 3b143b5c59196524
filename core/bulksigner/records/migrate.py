"""Bring a database to the schema this build knows, once, however many processes start (CLU-02, CLU-71, DEP-27)."""

from __future__ import annotations

import datetime
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import peewee

from bulksigner.contract.errors import StartRefused
from bulksigner.records import migrations
from bulksigner.records.errors import StoreFailed, one_line
from bulksigner.records.sqlite import SqliteStore, hold_side_file
from bulksigner.records.store import EngineKind, Store
from bulksigner.records.times import write_time

__all__ = ["Migration", "known_migrations", "migrate", "require_current_schema", "schema_version"]

EXIT_DATA = 65
_LOCK_KEY = 0x62756C6B
_CURRENT = "SELECT COALESCE(MAX(version), 0) FROM schema_version"
Act = Callable[[Callable[..., Any], str], None]
_NAME = re.compile(r"(\d{4})_\w+")


@attrs.frozen
class Migration:
    """One step of the schema; `statements(engine)` of its module yields what it runs.

    Where no statement can work a value out, it yields a function instead, which is called with what runs a statement
    and with the mark of a value in one.
    """

    version: int
    name: str

    def statements(self, kind: EngineKind) -> Iterable[str | Act]:
        """Return the statements for one engine."""
        module: Any = importlib.import_module(f"{migrations.__name__}.{self.name}")
        found: Iterable[str | Act] = module.statements(kind.value)
        return found


def known_migrations() -> list[Migration]:
    """Return the steps this build has, in order."""
    names = (_NAME.fullmatch(module.name) for module in pkgutil.iter_modules(migrations.__path__))
    return sorted((Migration(int(name[1]), name[0]) for name in names if name), key=lambda step: step.version)


def migrate(store: Store, steps: Iterable[Migration] | None = None) -> int:
    """Apply what is missing in one transaction and return the schema's version.

    Raises `StartRefused` 65 when a step fails, and when the schema is newer than this build.
    """
    wanted = known_migrations() if steps is None else list(steps)
    newest = wanted[-1].version
    current = newest
    step = "lock the schema"
    try:
        with _locked(store) as run:
            run(
                "CREATE TABLE IF NOT EXISTS schema_version "
                "(version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL)"
            )
            current = run(_CURRENT).fetchone()[0]
            for migration in wanted:
                if migration.version > current:
                    step = migration.name
                    for statement in migration.statements(store.kind):
                        if callable(statement):
                            statement(run, store.database.param)
                        else:
                            run(statement)
                    now = write_time(datetime.datetime.now(datetime.UTC))
                    run(f"INSERT INTO schema_version VALUES ({migration.version}, '{step}', '{now}')")  # noqa: S608  # our own literals
    except (peewee.PeeweeException, StoreFailed) as error:
        raise StartRefused(
            f"{store.label} could not be brought to schema version {newest} (step: {step}): {one_line(error)}. "
            "Nothing was changed. On a server the account needs the right to create tables.",
            exit_code=EXIT_DATA,
        ) from error
    if current > newest:
        raise StartRefused(
            f"{store.label} has schema version {current}, this build knows {newest}. "
            "Start the newer build, or restore the backup made before its migration.",
            exit_code=EXIT_DATA,
        )
    return newest


def schema_version(store: Store) -> int:
    """Return the version the database has now; 0 for one that was never migrated."""
    with store.reading():
        if not store.database.table_exists("schema_version"):
            return 0
        found: int = store.database.execute_sql(_CURRENT).fetchone()[0]
        return found


def require_current_schema(store: Store) -> None:
    """Raise `StoreFailed` unless the database is as this build reads it; for commands that change nothing."""
    version, newest = schema_version(store), known_migrations()[-1].version
    if version != newest:
        raise StoreFailed(
            f"{store.label} has schema version {version}, this build reads {newest}. The service of this build brings "
            "an older database up to date when it starts."
        )


@contextmanager
def _locked(store: Store) -> Iterator[Any]:
    """Give one process a transaction in which the schema stands still."""
    database = store.database
    if isinstance(store, SqliteStore):
        with hold_side_file(store.path), store.reading(), database.atomic("IMMEDIATE"):
            yield database.execute_sql
        return
    with store.reading(), database.atomic():
        # A step may take as long as it needs, and so may waiting for another process's.
        database.execute_sql("SET LOCAL statement_timeout = 0")
        database.execute_sql("SELECT pg_advisory_xact_lock(%s, hashtext(current_schema()))", (_LOCK_KEY,))
        yield database.execute_sql
