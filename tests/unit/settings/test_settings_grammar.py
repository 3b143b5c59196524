"""Text becomes values of the declared types."""

from __future__ import annotations

import datetime
import enum
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulksigner.contract.settings import Secret
from bulksigner.settings.grammar import Unreadable, in_hours, parse_scalar, parse_time_span, quote, write_time_span
from bulksigner.settings.model import DatabaseProvider, LogLevel


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:20:00", timedelta(minutes=20)),
        ("23:59:59", timedelta(hours=23, minutes=59, seconds=59)),
        ("24:00:00", timedelta(days=24)),
        ("48:00:00", timedelta(days=48)),
        ("48:10:15", timedelta(days=48, hours=10, minutes=15)),
        ("10", timedelta(days=10)),
        (10, timedelta(days=10)),
        ("-10", timedelta(days=-10)),
        ("0", timedelta()),
        ("01:30", timedelta(hours=1, minutes=30)),
        ("1:30", timedelta(hours=1, minutes=30)),
        ("2.01:30", timedelta(days=2, hours=1, minutes=30)),
        ("90.00:00:00", timedelta(days=90)),
        ("-1.02:03:04.5", -timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=500)),
        ("00:00:00.250", timedelta(milliseconds=250)),
        ("00:00:01.1234567", timedelta(seconds=1, microseconds=123456)),
    ],
)
def test_time_spans(text, expected) -> None:
    """CFG-09: three components are days from 24 on; a bare integer is days."""
    assert parse_time_span(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1.5", "1:2:3:4", "24:00", "00:60", "00:00:60", "48:24:00", "1.24:00", "48:00:00.5", "ten",
     "1h", "--1", "+1", "1.", ".5", "٣", "1:٣", "999999999", True, 1.5, None],
)  # fmt: skip
def test_what_is_no_time_span(text) -> None:
    """CFG-09: anything else is refused rather than guessed."""
    with pytest.raises(Unreadable):
        parse_time_span(text)


@given(st.timedeltas(timedelta(days=-99999999), timedelta(days=99999999)))
def test_a_written_time_span_reads_the_same(span) -> None:
    """CFG-09: what a stored block holds is read as it was."""
    assert parse_time_span(write_time_span(span)) == span


def test_figures_in_hours() -> None:
    """CFG-09: ten days that were meant as ten seconds are seen."""
    assert in_hours(parse_time_span("48:00:00")) == "1152h"
    assert in_hours(timedelta(seconds=9)) == "0.0025h"


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("TRUE", bool, True),
        ("false", bool, False),
        (False, bool, False),
        ("-7", int, -7),
        ("007", int, 7),
        (7, int, 7),
        ("postgresql", DatabaseProvider, DatabaseProvider.POSTGRESQL),
        ("SQLITE", DatabaseProvider, DatabaseProvider.SQLITE),
        ("fatal", LogLevel, LogLevel.CRITICAL),
        ("Verbose", LogLevel, LogLevel.TRACE),
        ("none", LogLevel, LogLevel.NONE),
        ("12345678901234567", str, "12345678901234567"),
        ("@int 3", Secret, Secret("@int 3")),
        ("a/b", Path, Path("a/b")),
        ("1", timedelta, timedelta(days=1)),
    ],
)
def test_coercion_by_declared_type(value, kind, expected) -> None:
    """CFG-04, CFG-08: by the type of the key, without regard to case."""
    assert parse_scalar(value, kind) == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("yes", bool), ("1", bool), (1, bool), ("", bool), (" true", bool),
        ("1.0", int), ("1e3", int), ("0x10", int), ("1_000", int), (" 1", int), ("", int), (True, int), (1.0, int),
        ("٣", int), ("9" * 40, int),
        (5, str), (True, str), (5, Secret), (1.5, str), ("a\0b", str), ("a\0b", Path),
        ("\udcff", str), ("\udcff", Secret),
        ("Oracle", DatabaseProvider), (1, DatabaseProvider), ("", DatabaseProvider),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(value, kind) -> None:
    """CFG-08: a number is not a text, a text is not a number, nothing is guessed."""
    with pytest.raises(Unreadable) as caught:
        parse_scalar(value, kind)
    assert str(value) == "" or str(value) not in caught.value.expected


def test_the_expected_enum_names_are_listed() -> None:
    """CFG-60: the refusal names the valid names."""

    class Fruit(enum.Enum):
        APPLE = "Apple"
        PEAR = "Pear"

    with pytest.raises(Unreadable, match="one of Apple, Pear"):
        parse_scalar("Plum", Fruit)


@pytest.mark.parametrize(
    "value", ["postgresql://u:pw@h/d", "Server=x;Password=y", "me@host", "PWD = y", "id|secret", "x" * 61, "a\x1b[2J"]
)
def test_values_that_may_hold_a_secret_are_not_quoted(value) -> None:
    """CFG-13: a connection string in the wrong key is not echoed, nor are control characters."""
    assert value not in quote(value)
    assert quote("Oracle") == '"Oracle"'


def test_levels_have_thresholds() -> None:
    """CFG-138: the names are ordered, and `None` lets nothing through."""
    thresholds = [level.threshold for level in LogLevel]
    assert thresholds == sorted(thresholds)
    assert len(set(thresholds)) == 7


@pytest.mark.parametrize("value", ["2027-12-31", datetime.date(2027, 12, 31)])
def test_dates_are_read(value: object) -> None:
    """CFG-08, CFG-197: as text, or as the syntax of a file has them."""
    assert parse_scalar(value, datetime.date) == datetime.date(2027, 12, 31)


@pytest.mark.parametrize(
    "value", ["", "2027-13-01", "2027-02-30", "31/12/2027", "20271231", 20271231, True, datetime.datetime(2027, 1, 1)]
)
def test_what_is_no_date_is_refused(value: object) -> None:
    """CFG-08: neither another order, nor a day that is none, nor a time of day."""
    with pytest.raises(Unreadable, match="YYYY-MM-DD"):
        parse_scalar(value, datetime.date)
