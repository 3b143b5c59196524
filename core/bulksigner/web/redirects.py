"""Where a browser may be sent: places of this service only (SEC-23)."""

from __future__ import annotations

import unicodedata
import urllib.parse

__all__ = ["local_place"]

_LONGEST = 2048


def local_place(wanted: str | None) -> str:
    """Return a path of this service, with its query, ready for `Location`; anything else becomes `/`."""
    if not wanted or len(wanted) > _LONGEST or not wanted.startswith("/") or wanted[1:2] in ("/", "\\"):
        return "/"
    if any(unicodedata.category(mark) in ("Cc", "Cs") for mark in wanted):
        return "/"
    try:
        parts = urllib.parse.urlsplit(wanted)
    except ValueError:
        return "/"
    if parts.scheme or parts.netloc:
        return "/"
    # Browsers read a backslash as a slash wherever it stands.
    return urllib.parse.quote(wanted, safe="/?&=%#+:@,;!*'()~$-._")
