"""How text becomes a value of a declared type (CFG-08, CFG-09)."""

from __future__ import annotations

import datetime
import enum
import re
from pathlib import Path
from typing import Any

from bulksigner.contract.settings import Secret

__all__ = ["Unreadable", "in_hours", "name_type", "parse_scalar", "parse_time_span", "quote", "write_time_span"]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_TIME_SPAN = re.compile(
    r"(?P<sign>-?)(?:(?P<days>\d{1,8})\.)?(?P<a>\d{1,8}):(?P<b>\d{1,2})(?::(?P<c>\d{1,2})(?:\.(?P<fraction>\d{1,7}))?)?",
    re.ASCII,
)
_TEXT_SPAN = "a time span [-][d.]hh:mm[:ss[.fff]], or whole days"
_TEXT_DATE = "a date YYYY-MM-DD"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_SENSITIVE = re.compile(r"://|@|password|pwd\s*=|secret|\|", re.IGNORECASE)
_LONGEST_QUOTED = 60


class Unreadable(Exception):
    """The value is not of the declared type; `expected` describes one that is."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


def quote(value: Any) -> str:
    """Quote a wrong value for a refusal, unless it looks like something that may hold a secret (CFG-13)."""
    text = str(value)
    if len(text) > _LONGEST_QUOTED or _SENSITIVE.search(text) or not text.isprintable():
        return "a value that is not shown"
    return f'"{text}"'


def name_type(kind: Any) -> str:
    """Name a scalar type for refusals and for the settings reference."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "one of " + ", ".join(str(member.value) for member in kind)
    return {
        bool: "true or false",
        int: "a whole number",
        str: "text",
        Secret: "text",
        Path: "a path",
        datetime.timedelta: _TEXT_SPAN,
        datetime.date: _TEXT_DATE,
    }[kind]


def parse_scalar(value: Any, kind: Any) -> Any:
    """Read a value, text or as a file's syntax typed it, as `kind`; raises `Unreadable`."""
    if kind is bool:
        return _parse_bool(value)
    if kind is int:
        return _parse_int(value)
    if kind is datetime.timedelta:
        return parse_time_span(value)
    if kind is datetime.date:
        return _parse_date(value)
    if not isinstance(value, str):
        # A number has lost its leading zeros, its underscores and perhaps digits before we see it.
        raise Unreadable(f"{name_type(kind)}, written in quotes")
    if kind in (str, Path, Secret):
        # A lone surrogate is a byte that was not UTF-8; only a path can still mean something by it.
        if "\0" in value or (kind is not Path and _LONE_SURROGATE.search(value)):
            raise Unreadable(f"{name_type(kind)} in UTF-8, without NUL characters")
        if kind is Path and not value.strip():
            raise Unreadable("a path that is not blank")
        return kind(value)
    return _parse_enum(value, kind)


def _parse_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.casefold() in ("true", "false"):
        return value.casefold() == "true"
    raise Unreadable(name_type(bool))


def _parse_int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    raise Unreadable(name_type(int))


def _parse_date(value: Any) -> datetime.date:
    # TOML and YAML have dates of their own; one with a time of day is none.
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return datetime.date.fromisoformat(value)
    except ValueError:
        raise Unreadable(_TEXT_DATE) from None
    raise Unreadable(_TEXT_DATE)


def _parse_enum(value: str, kind: type[enum.Enum]) -> enum.Enum:
    wanted = value.casefold()
    for name, member in kind.__members__.items():  # aliases included
        if wanted in (str(member.value).casefold(), name.replace("_", "").casefold()):
            return member
    raise Unreadable(name_type(kind))


def parse_time_span(value: Any) -> datetime.timedelta:
    """Read a time span (CFG-09).

    A bare integer is days; three components read `hh:mm:ss` while the first is at most 23, and `d:hh:mm` from 24 on
    (`48:00:00` is 48 days). Raises `Unreadable`.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise Unreadable(_TEXT_SPAN)
    if re.fullmatch(r"-?[0-9]{1,8}", value):
        return datetime.timedelta(days=int(value))
    match = _TIME_SPAN.fullmatch(value)
    if match is None:
        raise Unreadable(_TEXT_SPAN)
    first, second, third = int(match["a"]), int(match["b"]), int(match["c"] or 0)
    days, hours, minutes, seconds = int(match["days"] or 0), first, second, third
    if first > 23 and match["days"] is None and match["c"] is not None and match["fraction"] is None:
        days, hours, minutes, seconds = first, second, third, 0
    if hours > 23 or minutes > 59 or seconds > 59:
        raise Unreadable(f"{_TEXT_SPAN}, with hours to 23 and minutes and seconds to 59")
    microseconds = int((match["fraction"] or "0").ljust(6, "0")[:6])
    span = datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds)
    return -span if match["sign"] else span


def write_time_span(span: datetime.timedelta) -> str:
    """Write a time span so that `parse_time_span` reads the same value."""
    sign, span = ("-", -span) if span < datetime.timedelta(0) else ("", span)
    minutes, seconds = divmod(span.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{span.days}.{hours:02}:{minutes:02}:{seconds:02}.{span.microseconds:06}"


def in_hours(span: datetime.timedelta) -> str:
    """Show the figure a time span came to, in hours, so that `10` read as ten days is noticed (CFG-09)."""
    return f"{span / datetime.timedelta(hours=1):.10g}h"
