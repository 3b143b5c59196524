"""One rule for every path that is built from a name: it stays inside its root (SEC-67)."""

from __future__ import annotations

import os
from pathlib import Path

from bulksigner.contract.errors import BulkSignerError

__all__ = ["NAME_LIMIT_BYTES", "child_of"]

NAME_LIMIT_BYTES = 255
"""Longest name that the file systems in use take."""

_MARKS = frozenset(mark for mark in (os.sep, os.altsep, "\0") if mark)


def child_of(root: Path, name: str) -> Path:
    """Return the path of `name` directly inside `root`; raises `BulkSignerError` for a name that could lead out."""
    if name in ("", os.curdir, os.pardir) or not _MARKS.isdisjoint(name):
        raise BulkSignerError(f"{name!r} is not the name of a file inside {root}.")
    return root / name
