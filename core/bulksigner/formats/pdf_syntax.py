"""PDF objects read from bytes (ISO 32000-1 7.3), for the check only."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from bulksigner.formats.model import CheckFailed

__all__ = ["PdfDict", "PdfString", "PdfValue", "Reference", "Stream", "parse_value"]


class Reference(NamedTuple):
    """A reference to an indirect object."""

    number: int
    generation: int


class PdfString(NamedTuple):
    """A string as it stands in the file, delimiters included, and where."""

    written: bytes
    start: int
    end: int


class Stream(NamedTuple):
    """A stream: its dictionary, the offset of its content, and the object that it is."""

    entries: dict[str, PdfValue]
    start: int
    number: int
    generation: int


PdfValue: TypeAlias = "bool | int | float | str | PdfString | Reference | Stream | list[PdfValue] | PdfDict | None"
"""A name is a `str` with its slash."""
PdfDict: TypeAlias = "dict[str, PdfValue]"

_MOST_DEPTH = 64
_BLANK = rb"(?:[\0\t\n\f\r ]++|%[^\r\n]*+)*+"
_VALUE = rb"""(?:
    (?P<dict><<)|(?P<end>>>)|(?P<array>\[)|(?P<close>\])
    |(?P<name>/[^\0\t\n\f\r ()<>\[\]{}/%]*+)
    |(?P<hex><[^<>]*+>)
    |(?P<reference>(?P<number>\d{1,10})[\0\t\n\f\r ]++(?P<generation>\d{1,5})[\0\t\n\f\r ]++R
        (?![^\0\t\n\f\r ()<>\[\]{}/%]))
    |(?P<integer>[+-]?\d{1,19}+(?![.\d]))
    |(?P<real>[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40}))
    |(?P<word>true|false|null)
    |(?P<literal>\()
    )"""
_TOKEN = re.compile(_BLANK + _VALUE, re.VERBOSE)
# Key and value of an entry in one step: dictionaries are nearly all that is read.
_ENTRY = re.compile(_BLANK + rb"(?P<key>/[^\0\t\n\f\r ()<>\[\]{}/%]*+)" + _BLANK + _VALUE, re.VERBOSE)
_HEXADECIMAL = b"<>0123456789ABCDEFabcdef\0\t\n\f\r "
_LITERAL_MARK = re.compile(rb"\\.|[()]", re.DOTALL)
_NAME_ESCAPE = re.compile(r"#([0-9A-Fa-f]{2})")
_WORDS: dict[bytes, bool | None] = {b"true": True, b"false": False, b"null": None}


def parse_value(data: bytes | memoryview, position: int) -> tuple[PdfValue, int]:
    """Parse the object at `position`; return it and where it ends. Raises `CheckFailed`."""
    return _parse_token(data, _take(data, position), 0)


def _parse_token(data: bytes | memoryview, token: re.Match[bytes], depth: int) -> tuple[PdfValue, int]:
    kind, end = token.lastgroup, token.end()
    if kind == "name":
        return _decode_name(token["name"]), end
    if kind == "integer":
        return int(token["integer"]), end
    if kind == "reference":
        return Reference(int(token["number"]), int(token["generation"])), end
    if kind == "dict":
        return _parse_dict(data, end, depth + 1)
    if kind == "array":
        return _parse_array(data, end, depth + 1)
    if kind == "hex":
        return _parse_hexadecimal(token), end
    if kind == "real":
        return float(token["real"]), end
    if kind == "word":
        return _WORDS[token["word"]], end
    if kind == "literal":
        return _parse_literal(data, token.start("literal"))
    raise CheckFailed(f"The PDF has an unexpected closing mark at byte {end}.")


def _parse_hexadecimal(token: re.Match[bytes]) -> PdfString:
    written, start = token["hex"], token.start("hex")
    # A set of characters in the pattern would take five times as long, and a signature has thousands.
    if written.translate(None, _HEXADECIMAL):
        raise CheckFailed(f"The PDF has no object at byte {start}, where one should be.")
    return PdfString(written, start, token.end())


def _take(data: bytes | memoryview, position: int) -> re.Match[bytes]:
    # Beyond the end of the data a place may be too large for the matcher.
    token = _TOKEN.match(data, position) if position < len(data) else None
    if token is None:
        raise CheckFailed(f"The PDF has no object at byte {position}, where one should be.")
    return token


def _parse_dict(data: bytes | memoryview, position: int, depth: int) -> tuple[PdfDict, int]:
    _limit(depth, position)
    entries: PdfDict = {}
    while (entry := _ENTRY.match(data, position)) is not None:
        name = _decode_name(entry["key"])
        if name in entries:
            raise CheckFailed(f"The PDF has a dictionary with {name} twice at byte {position}.")
        entries[name], position = _parse_token(data, entry, depth)
    last = _take(data, position)
    if last.lastgroup != "end":
        raise CheckFailed(f"The PDF has a dictionary whose entry is not a name and a value at byte {position}.")
    return entries, last.end()


def _parse_array(data: bytes | memoryview, position: int, depth: int) -> tuple[list[PdfValue], int]:
    _limit(depth, position)
    members: list[PdfValue] = []
    while True:
        token = _take(data, position)
        if token.lastgroup == "close":
            return members, token.end()
        member, position = _parse_token(data, token, depth)
        members.append(member)


def _parse_literal(data: bytes | memoryview, start: int) -> tuple[PdfString, int]:
    depth = 0
    position = start
    while mark := _LITERAL_MARK.search(data, position):
        position = mark.end()
        depth += {b"(": 1, b")": -1}.get(mark[0], 0)
        if depth == 0:
            return PdfString(bytes(data[start:position]), start, position), position
    raise CheckFailed(f"The PDF has a string without end at byte {start}.")


def _decode_name(written: bytes) -> str:
    name = written.decode("latin-1")
    return _NAME_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), name) if "#" in name else name


def _limit(depth: int, position: int) -> None:
    if depth > _MOST_DEPTH:
        raise CheckFailed(f"The PDF has objects nested deeper than {_MOST_DEPTH} at byte {position}.")
