"""Query parameters of routes: each declared once, read by its handler and shown in the reference (API-57, API-92)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import attrs
import falcon

from bulksigner.web.problems import InvalidRequest
from bulksigner.web.query import FILTER_INVALID, read_number, read_several, read_single
from bulksigner.web.schema import Schema

__all__ = ["Choice", "Day", "Moment", "Number", "Parameter", "Text", "Texts", "refuse_inverted"]

T = TypeVar("T")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Parameter(Protocol):
    """What the reference shows of a parameter; how it is read differs by kind."""

    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def schema(self) -> Schema: ...


@attrs.frozen
class Text:
    """A text that may be given once; a blank one is refused with `code` unless `may_be_blank`."""

    name: str
    summary: str
    code: str = FILTER_INVALID
    may_be_blank: bool = False

    @property
    def schema(self) -> Schema:
        """Describe the values."""
        return {"type": "string"} if self.may_be_blank else {"type": "string", "minLength": 1}

    def read(self, request: falcon.Request) -> str | None:
        """Return the text, None when it is absent."""
        given = read_single(request, self.name, code=self.code)
        if given is not None and not self.may_be_blank and not given.strip():
            raise InvalidRequest(self.name, "must not be blank", code=self.code)
        return given


@attrs.frozen
class Texts:
    """A text that may be repeated; given only blank it is refused, as a filter that was meant must not show all."""

    name: str
    summary: str

    @property
    def schema(self) -> Schema:
        """Describe the values."""
        return {"type": "array", "items": {"type": "string"}}

    def read(self, request: falcon.Request) -> tuple[str, ...]:
        """Return the distinct values without the blank ones, in their order."""
        given = [value.strip() for value in read_several(request, self.name)]
        if given and not any(given):
            raise InvalidRequest(self.name, "must not be blank", code=FILTER_INVALID)
        return tuple(dict.fromkeys(value for value in given if value))


@attrs.frozen
class Choice(Generic[T]):
    """One of several words, spelled exactly."""

    name: str
    summary: str
    choices: Mapping[str, T]
    code: str = FILTER_INVALID

    @property
    def schema(self) -> Schema:
        """Describe the values."""
        return {"type": "string", "enum": list(self.choices)}

    def read(self, request: falcon.Request) -> T | None:
        """Return what the word stands for, None when it is absent."""
        given = read_single(request, self.name, code=self.code)
        if given is not None and given not in self.choices:
            raise InvalidRequest(self.name, f"must be one of {', '.join(self.choices)}", code=self.code)
        return None if given is None else self.choices[given]


@attrs.frozen
class Number:
    """A whole number; below 1 reads as 1, above `highest` is refused, above `cap` reads as `cap`."""

    name: str
    summary: str
    default: int
    highest: int | None = None
    cap: int | None = None

    @property
    def schema(self) -> Schema:
        """Describe the values."""
        schema: dict[str, Any] = {"type": "integer", "minimum": 1, "default": self.default}
        highest = self.cap if self.highest is None else self.highest
        return schema if highest is None else {**schema, "maximum": highest}

    def read(self, request: falcon.Request) -> int:
        """Return the number."""
        number = read_number(request, self.name, default=self.default, highest=self.highest)
        return number if self.cap is None else min(number, self.cap)


@attrs.frozen
class Day:
    """A day of the UTC calendar, `yyyy-MM-dd`."""

    name: str
    summary: str

    @property
    def schema(self) -> Schema:
        """Describe the values."""
        return {"type": "string", "format": "date"}

    def read(self, request: falcon.Request) -> datetime.date | None:
        """Return the day, None when it is absent."""
        given = read_single(request, self.name)
        if given is None:
            return None
        try:
            if _DAY.fullmatch(given):
                return datetime.date.fromisoformat(given)
        except ValueError:
            pass
        raise InvalidRequest(self.name, "must be a day as yyyy-MM-dd", code=FILTER_INVALID)


@attrs.frozen
class Moment:
    """A time of ISO 8601; without an offset it is UTC."""

    name: str
    summary: str

    @property
    def schema(self) -> Schema:
        """Describe the values: no format, as a date alone and a time without offset pass too."""
        return {"type": "string", "examples": ["2026-03-02T12:00:00Z"]}

    def read(self, request: falcon.Request) -> datetime.datetime | None:
        """Return the time in UTC, None when it is absent."""
        given = read_single(request, self.name)
        if given is None:
            return None
        try:
            at = datetime.datetime.fromisoformat(given)
            return at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at.astimezone(datetime.UTC)
        except (ValueError, OverflowError) as error:
            raise InvalidRequest(self.name, "must be a date or time of ISO 8601", code=FILTER_INVALID) from error


def refuse_inverted(first: datetime.date | None, last: datetime.date | None, name: str) -> None:
    """Refuse a range that ends before it begins; `name` is the parameter of its end."""
    if first is not None and last is not None and first > last:
        raise InvalidRequest(name, "must not be before from", code=FILTER_INVALID)
