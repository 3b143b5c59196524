"""A statement is compiled once and takes its values by name."""

from __future__ import annotations

import datetime
import enum

import peewee
import pytest

from bulksigner.records.prepared import Prepared, literal, slot
from bulksigner.records.tables import JobRow


class Colour(enum.Enum):
    """A value with a quote in it."""

    RED = "r'ed"


DATABASE = peewee.SqliteDatabase(":memory:")


def test_slots_are_bound_by_name() -> None:
    """PERF-08: values go where their names stand, in any order, constants with them."""
    query = JobRow.update({JobRow.profile_name: slot("new"), JobRow.row_version: JobRow.row_version + 1})
    compiled = Prepared(query.where(JobRow.id == slot("id"))).compiled(DATABASE)
    assert compiled.sql.count("?") == 3
    assert compiled.bind({"id": "x", "new": "y"}) == ["y", 1, "x"]
    assert compiled.writes


def test_a_statement_is_compiled_once() -> None:
    """PERF-08: the second use finds the first's text."""
    prepared = Prepared(JobRow.select(JobRow.id))
    assert prepared.compiled(DATABASE) is prepared.compiled(DATABASE)
    assert not prepared.compiled(DATABASE).writes


def test_enums_and_times_become_plain() -> None:
    """DEP-25: what the driver gets is text and numbers."""
    compiled = Prepared(JobRow.select(JobRow.id).where(JobRow.id == slot("a"), JobRow.id == slot("b"))).compiled(
        DATABASE
    )
    time = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    assert compiled.bind({"a": Colour.RED, "b": time}) == ["r'ed", "2026-01-02T00:00:00.000000Z"]


def test_a_missing_value_is_an_error() -> None:
    """A slot without a value must not become NULL."""
    compiled = Prepared(JobRow.select(JobRow.id).where(JobRow.id == slot("id"))).compiled(DATABASE)
    with pytest.raises(KeyError):
        compiled.bind({})


def test_a_literal_is_part_of_the_text() -> None:
    """DEP-35: a partial index applies to literals only; quotes are doubled."""
    sql = Prepared(JobRow.select(JobRow.id).where(JobRow.status == literal(Colour.RED))).compiled(DATABASE).sql
    assert "= 'r''ed'" in sql
