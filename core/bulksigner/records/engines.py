"""What differs between the engines, and how to open each; nothing else asks which one it is."""

from __future__ import annotations

from typing import Any

from peewee import Select, fn

from bulksigner.records.postgresql import PostgresqlStore, open_postgresql
from bulksigner.records.prepared import Prepared
from bulksigner.records.sqlite import SqliteStore, open_sqlite
from bulksigner.records.store import Act, EngineKind, Store

__all__ = [
    "Act",
    "EngineKind",
    "PostgresqlStore",
    "SqliteStore",
    "Store",
    "has_text",
    "is_picked",
    "lift_time_limit",
    "open_postgresql",
    "open_sqlite",
    "size_bytes",
]

# Until the end of the transaction.
_NO_LIMIT = Prepared(Select(columns=[fn.set_config("statement_timeout", "0", True)]))
_SIZE = Prepared(Select(columns=[fn.pg_database_size(fn.current_database())]))


def is_picked(kind: EngineKind, column: Any, candidates: Any) -> Any:
    """Return the condition that `column` is among the rows `candidates` picks for this writer alone (DEP-21, DEP-22).

    SQLite has one writer. PostgreSQL skips rows that another writer has; the array makes it pick once, where a plain
    `IN` may be planned as a loop that picks, and locks, again for each row.
    """
    if kind is EngineKind.SQLITE:
        return column.in_(candidates)
    return column == fn.ANY(fn.ARRAY(candidates.for_update(skip_locked=True)))


def has_text(kind: EngineKind, column: Any, text: Any) -> Any:
    """Return the condition that a column contains a text literally, letter for letter."""
    find = fn.INSTR if kind is EngineKind.SQLITE else fn.STRPOS
    return find(column, text) > 0


def lift_time_limit(store: Store) -> None:
    """Let the statements of the act under way take as long as the number of rows needs; SQLite has no limit."""
    if store.kind is EngineKind.POSTGRESQL:
        store.execute(_NO_LIMIT)


def size_bytes(store: Store) -> int:
    """Return how much the database takes; that in a file with its write-ahead log (STA-98)."""
    if isinstance(store, SqliteStore):
        files = (store.path, store.path.with_name(f"{store.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())
    return int(store.read(lambda: store.execute(_SIZE).rows[0][0]))
