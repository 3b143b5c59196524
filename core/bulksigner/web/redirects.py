"""Where a browser may be sent: to a path of this service and nowhere else."""

from __future__ import annotations

import urllib.parse

__all__ = ["local_path"]

_HOME = "/"


def local_path(wanted: str | None) -> str:
    """Return the path if it is one of this service, else `/`.

    Browsers read a backslash as a slash and drop control characters, so that neither may come (open redirect).
    """
    given = wanted or _HOME
    if not given.startswith("/") or given[1:2] in ("/", "\\") or "\\" in given or not given.isprintable():
        return _HOME
    # The header is ASCII; what is encoded already stays.
    return urllib.parse.quote(given, safe="/?#[]@!$&'()*+,;=:%~-._")
