"""Times keep their instant and their order, as text and as timestamptz."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulksigner.records.times import UtcField, read_time, write_time

AWARE = st.datetimes(
    min_value=datetime.datetime(1900, 1, 2), max_value=datetime.datetime(2500, 1, 1), timezones=st.just(datetime.UTC)
)


@given(AWARE)
def test_a_time_comes_back_as_it_was(time: datetime.datetime) -> None:
    """PIPE-05, DEP-25: nothing is lost on the way through the text."""
    assert read_time(write_time(time)) == time


@given(AWARE, AWARE)
def test_texts_sort_as_their_times(first: datetime.datetime, second: datetime.datetime) -> None:
    """DEP-25: SQLite orders by the text."""
    assert (write_time(first) < write_time(second)) == (first < second)


def test_another_zone_is_stored_as_utc() -> None:
    """PIPE-05: all stored times are UTC."""
    brasilia = datetime.timezone(datetime.timedelta(hours=-3))
    assert write_time(datetime.datetime(2026, 3, 2, 22, tzinfo=brasilia)) == "2026-03-03T01:00:00.000000Z"


def test_a_server_time_is_read_as_utc() -> None:
    """DEP-25: a timestamptz in the session's zone is the same instant in UTC."""
    brasilia = datetime.timezone(datetime.timedelta(hours=-3))
    read = read_time(datetime.datetime(2026, 3, 2, 22, tzinfo=brasilia))
    assert read == datetime.datetime(2026, 3, 3, 1, tzinfo=datetime.UTC)
    assert read is not None
    assert read.tzinfo is datetime.UTC


def test_a_naive_time_is_refused() -> None:
    """DEP-25: a time without zone would be read as whatever the host thinks."""
    with pytest.raises(ValueError, match="needs a time zone"):
        write_time(datetime.datetime(2026, 3, 2))


def test_no_time_is_no_time() -> None:
    """An empty column stays empty."""
    assert read_time(None) is None
    assert UtcField().db_value(None) is None


def test_other_values_are_refused() -> None:
    """A column of another type is a programming error."""
    with pytest.raises(TypeError, match="not a stored time"):
        read_time(5)
