"""The language of a page: what the caller names, a cookie, `Accept-Language`, then English (DSH-57)."""

from __future__ import annotations

import falcon

__all__ = ["COOKIE", "CULTURES", "choose_culture"]

COOKIE = "lbs-culture"
CULTURES = ("en-US", "pt-BR")
_BY_PREFIX = {"en": "en-US", "pt": "pt-BR"}


def choose_culture(request: falcon.Request, wanted: str | None = None) -> str:
    """Return the culture of the page that answers; `wanted` is what the address names, in short or in full."""
    named = _of(wanted or "")
    cookie = (request.get_cookie_values(COOKIE) or [""])[0]
    return named or (cookie if cookie in CULTURES else None) or _accepted(request) or CULTURES[0]


def _of(tag: str) -> str | None:
    return _BY_PREFIX.get(tag.partition("-")[0].strip().lower())


def _accepted(request: falcon.Request) -> str | None:
    weighed: list[tuple[float, str]] = []
    for item in (request.get_header("Accept-Language") or "").split(","):
        tag, _, parameter = item.partition(";")
        culture, weight = _of(tag), _weight(parameter)
        if culture is not None and weight > 0:
            weighed.append((weight, culture))
    # The first of equals, as the browser wrote them.
    return max(weighed, key=lambda pair: pair[0], default=(0.0, None))[1]


def _weight(parameter: str) -> float:
    name, _, value = parameter.partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
