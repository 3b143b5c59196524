"""PDF objects as text, for the own append path: split at their first level, written again byte for byte (PERF-03).

Only what every writer of PDF files puts down is known here: no comments, no escapes in names, one blank within a
reference, generation 0. Anything else is `Unusual`, and pyHanko's affair. Shares no code with the check (PERF-04).
"""

from __future__ import annotations

import re
from typing import TypeAlias

__all__ = [
    "Entries",
    "Unusual",
    "integer_of",
    "members_of",
    "read_entries",
    "read_value",
    "reference_of",
    "write_entries",
]

Entries: TypeAlias = "dict[bytes, bytes]"
"""A dictionary: names with their slash, and values as they are written."""

_MOST_DEPTH = 24
_BLANK = rb"[\0\t\n\f\r ]*+"
_VALUE = rb"""(?:
    (?P<open><<|\[)|(?P<close>>>|\])
    |(?P<name>/[!$&'*-.0-;=?-Z\\^-z|~]++)
    |(?P<scalar>
        (?:[1-9]\d{0,8}[\n\r ]0[\n\r ]R|[+-]?(?:\d{1,15}+(?:\.\d{0,15}+)?|\.\d{1,15}+)|true|false|null)
        (?=[\0\t\n\f\r ()<>\[\]/]|\Z)
        |<(?:[0-9A-Fa-f]{2})*+>
        |\((?:[^()\\\r]++|\\[nrtbf()\\]|\\[0-7]{1,3})*+\)
    ))"""
_TOKEN = re.compile(_BLANK + _VALUE, re.VERBOSE)
# Key and value of an entry in one step: dictionaries are nearly all that is read.
_ENTRY = re.compile(_BLANK + rb"(?P<key>/[!$&'*-.0-;=?-Z\\^-z|~]++)" + _BLANK + _VALUE, re.VERBOSE)
# The children of a page tree may be thousands.
_REFERENCES = re.compile(
    rb"""[\0\t\n\f\r ]*+\[[\0\t\n\f\r ]*+
    (?:[1-9]\d{0,8}[\n\r ]0[\n\r ]R[\0\t\n\f\r ]++)*+(?:[1-9]\d{0,8}[\n\r ]0[\n\r ]R)?\]""",
    re.VERBOSE,
)
_REFERENCE = re.compile(rb"([1-9]\d{0,8})[\n\r ]0[\n\r ]R")
_INTEGER = re.compile(rb"\d{1,10}")


class Unusual(Exception):
    """Leave a file to pyHanko, which knows more of PDF, and knows what to refuse."""


def read_entries(data: bytes | memoryview, position: int) -> tuple[Entries, int]:
    """Read the dictionary at `position` and tell where it ends; raises `Unusual`."""
    token = _take(data, position)
    if token["open"] != b"<<":
        raise Unusual("no dictionary")
    return _read_entries(data, token.end(), 0)


def read_value(data: bytes | memoryview, position: int, depth: int = 0) -> tuple[bytes, int]:
    """Read any value as it is written, and tell where it ends; what is nested in it is looked at, too."""
    return _read_token(data, _take(data, position), depth)


def _read_token(data: bytes | memoryview, token: re.Match[bytes], depth: int) -> tuple[bytes, int]:
    kind, end = token.lastgroup, token.end()
    if kind in ("name", "scalar"):
        return token[kind], end
    if kind != "open" or depth > _MOST_DEPTH:
        raise Unusual("nested too deeply, or closed without being open")
    start = token.start("open")
    if token["open"] == b"<<":
        _, end = _read_entries(data, end, depth + 1)
    elif (references := _REFERENCES.match(data, start)) is not None:
        end = references.end()
    else:
        while (member := _take(data, end)).lastgroup != "close":
            _, end = _read_token(data, member, depth + 1)
        if member["close"] != b"]":
            raise Unusual("an array that a dictionary ends")
        end = member.end()
    return bytes(data[start:end]), end


def members_of(array: bytes) -> list[bytes]:
    """Split an array into its members as they are written."""
    if not array.startswith(b"["):
        raise Unusual("no array")
    members = []
    position = 1
    while (token := _take(array, position)).lastgroup != "close":
        member, position = _read_token(array, token, 0)
        members.append(member)
    return members


def reference_of(value: bytes) -> int:
    """Return the number of the object that a value refers to."""
    found = _REFERENCE.fullmatch(value)
    if found is None:
        raise Unusual("no reference")
    return int(found[1])


def integer_of(value: bytes) -> int:
    """Return a number that counts something or is an offset."""
    if _INTEGER.fullmatch(value) is None:
        raise Unusual("no count")
    return int(value)


def write_entries(entries: Entries) -> bytes:
    """Write a dictionary, one entry a line."""
    return b"<<\n" + b"".join(b"%b %b\n" % entry for entry in entries.items()) + b">>"


def _read_entries(data: bytes | memoryview, position: int, depth: int) -> tuple[Entries, int]:
    entries: Entries = {}
    while (entry := _ENTRY.match(data, position)) is not None:
        name = entry["key"]
        if name in entries:
            raise Unusual("an entry that is there twice")
        entries[name], position = _read_token(data, entry, depth)
    last = _take(data, position)
    if last["close"] != b">>":
        raise Unusual("an entry without a name and a value")
    return entries, last.end()


def _take(data: bytes | memoryview, position: int) -> re.Match[bytes]:
    token = _TOKEN.match(data, position)
    if token is None:
        raise Unusual("something that is not written as usual")
    return token
