"""What differs between the engines, and how to open each; nothing else asks which one it is."""

from __future__ import annotations

from typing import Any

from peewee import fn

from bulksigner.records.postgresql import PostgresqlStore, open_postgresql
from bulksigner.records.sqlite import SqliteStore, open_sqlite
from bulksigner.records.store import Act, EngineKind, Store

__all__ = [
    "Act",
    "EngineKind",
    "PostgresqlStore",
    "SqliteStore",
    "Store",
    "is_picked",
    "open_postgresql",
    "open_sqlite",
]


def is_picked(kind: EngineKind, column: Any, candidates: Any) -> Any:
    """Return the condition that `column` is among the rows `candidates` picks for this writer alone (DEP-21, DEP-22).

    SQLite has one writer. PostgreSQL skips rows that another writer has; the array makes it pick once, where a plain
    `IN` may be planned as a loop that picks, and locks, again for each row.
    """
    if kind is EngineKind.SQLITE:
        return column.in_(candidates)
    return column == fn.ANY(fn.ARRAY(candidates.for_update(skip_locked=True)))
