"""Query parameters, read strictly: a bad value is refused and never widens a filter (API-57)."""

from __future__ import annotations

import re

import falcon

from bulksigner.web.problems import InvalidRequest

__all__ = [
    "DEFAULT_PAGE_SIZE",
    "FILTER_INVALID",
    "MAX_PAGE",
    "MAX_PAGE_SIZE",
    "read_number",
    "read_several",
    "read_single",
]

MAX_PAGE = 10_737_418
MAX_PAGE_SIZE = 200
DEFAULT_PAGE_SIZE = 50
FILTER_INVALID = "validation.filter-invalid"
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def read_single(request: falcon.Request, name: str, *, code: str = FILTER_INVALID) -> str | None:
    """Return a parameter that may be given once; None when it is absent."""
    given = request.get_param_as_list(name)
    if not given:
        # Falcon's list of a blank parameter is empty or holds an empty text, by its options.
        return "" if request.has_param(name) else None
    if len(given) > 1:
        raise InvalidRequest(name, "may be given once", code=code)
    _refuse_nul(name, given[0], code)
    return given[0]


def read_several(request: falcon.Request, name: str) -> list[str]:
    """Return every value of a parameter that may be repeated; a blank one counts as an empty text."""
    given = request.get_param_as_list(name) or ([""] if request.has_param(name) else [])
    for value in given:
        _refuse_nul(name, value, FILTER_INVALID)
    return given


def _refuse_nul(name: str, value: str, code: str) -> None:
    """Refuse what no name has and PostgreSQL takes for no text."""
    if "\0" in value:
        raise InvalidRequest(name, "must not have a NUL character", code=code)


def read_number(request: falcon.Request, name: str, *, default: int, highest: int | None = None) -> int:
    """Return a whole number; below 1 reads as 1, above `highest` is refused."""
    text = read_single(request, name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise InvalidRequest(name, "must be a whole number", code=FILTER_INVALID)
    number = int(text)
    if highest is not None and number > highest:
        raise InvalidRequest(name, f"must be at most {highest}", code=FILTER_INVALID)
    return max(number, 1)
