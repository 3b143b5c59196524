"""Times in the database: always UTC, always aware in Python (PIPE-05, DEP-25).

SQLite keeps ISO text of one fixed width, so that the order of the texts is the order of the times; PostgreSQL keeps
`timestamptz` and accepts the same text.
"""

from __future__ import annotations

import datetime
import functools

import peewee

__all__ = ["UTC_TYPE", "UtcField", "read_time", "write_time"]

UTC_TYPE = "UTCTIME"
"""The column type of `UtcField`; each engine maps it to its own."""


@functools.lru_cache(maxsize=256)
def write_time(value: datetime.datetime) -> str:
    """Render an aware time as `2026-03-02T22:00:00.000000Z`; raises ValueError for a naive one.

    An act writes its time into several columns, hence the cache.
    """
    if value.tzinfo is not datetime.UTC:
        if value.tzinfo is None:
            raise ValueError(f"a stored time needs a time zone: {value!r}")
        value = value.astimezone(datetime.UTC)
    return value.isoformat(timespec="microseconds")[:26] + "Z"


def read_time(value: object) -> datetime.datetime | None:
    """Return a stored time as an aware UTC datetime, whichever engine it comes from."""
    if value is None:
        return None
    if isinstance(value, str):
        return datetime.datetime.fromisoformat(value)
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC)
    raise TypeError(f"not a stored time: {value!r}")


class UtcField(peewee.Field):
    """A column of aware UTC times."""

    field_type = UTC_TYPE

    def db_value(self, value: datetime.datetime | None) -> str | None:
        """Convert for the database."""
        return None if value is None else write_time(value)

    def python_value(self, value: object) -> datetime.datetime | None:
        """Convert from the database."""
        return read_time(value)
