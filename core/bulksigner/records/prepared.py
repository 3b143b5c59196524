"""Statements compiled once: building a query costs more than running it on the hot path (PERF-08)."""

from __future__ import annotations

import datetime
import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import peewee

from bulksigner.records.times import write_time

__all__ = ["Asked", "Prepared", "Result", "literal", "slot"]


@attrs.frozen
class Result:
    """What a statement gave: its rows (empty for a statement without result) and how many rows it touched."""

    rows: list[tuple[Any, ...]]
    count: int


class _Slot:
    """The place of a named value in a compiled statement."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def slot(name: str) -> Any:
    """Return a node for a value that is given by name at each execution."""
    return peewee.Value(_Slot(name), converter=False)


class Asked:
    """A table of texts inside a statement, so that one, compiled once, asks about all of them."""

    def __init__(self, count: int) -> None:
        self._names = [f"asked_{number}" for number in range(count)]
        self._table = peewee.ValuesList([(slot(name),) for name in self._names], alias="asked")

    @property
    def text(self) -> Any:
        """Return the column of the texts."""
        # Engines name it so by themselves, and SQLite lets nobody else do it.
        return self._table.c.column1

    def where(self, condition: Any) -> Prepared:
        """Return the statement that answers with those of the texts for which the condition holds."""
        return Prepared(peewee.Select([self._table], [self.text]).where(condition))

    def groups(self, texts: Sequence[str]) -> Iterator[dict[str, str]]:
        """Yield the values of the statement for each group of texts; places that are left over repeat its last one."""
        for first in range(0, len(texts), len(self._names)):
            group = texts[first : first + len(self._names)]
            yield dict(zip(self._names, itertools.chain(group, itertools.repeat(group[-1])), strict=False))


def literal(value: enum.Enum) -> Any:
    """Return a node with the enum's text inside the statement.

    A planner proves that a partial index applies from literals only, never from bound values.
    """
    return peewee.SQL("'" + str(value.value).replace("'", "''") + "'")


_PLAIN_TYPES = frozenset((str, int, bool, type(None)))


def _plain(value: object) -> object:
    if isinstance(value, datetime.datetime):
        return write_time(value)
    if isinstance(value, enum.Enum):
        return value._value_
    return value


class _Compiled:
    """The text of a statement for one dialect, and where its values come from."""

    def __init__(self, sql: str, values: list[Any]) -> None:
        self.sql = sql
        # A union begins with a bracket on some engines.
        self.writes = not sql.lstrip("(").startswith("SELECT")
        self._sources = [(value.name, None) if isinstance(value, _Slot) else (None, _plain(value)) for value in values]

    def bind(self, values: Mapping[str, object]) -> list[object]:
        return [
            # A call for each value would cost more than all the rest of this.
            value if (value := constant if name is None else values[name]).__class__ in _PLAIN_TYPES else _plain(value)
            for name, constant in self._sources
        ]


class Prepared:
    """A peewee query with named slots, compiled at its first execution on each kind of engine."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self._compiled: dict[str, _Compiled] = {}

    def compiled(self, database: Any) -> _Compiled:
        """Return the statement for this database's dialect."""
        found = self._compiled.get(database.param)
        if found is None:
            found = _Compiled(*database.get_sql_context().sql(self._query).query())
            self._compiled[database.param] = found
        return found
