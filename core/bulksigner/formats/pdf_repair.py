"""Repair of PDF files that carry no signature: junk before the header, a cross-reference that leads astray (BEY-11).

What is repaired is where objects are found, never an object: nothing that is shown is made up or left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from bulksigner.formats.model import CheckFailed
from bulksigner.formats.pdf_sections import decode_stream
from bulksigner.formats.pdf_syntax import PdfDict, PdfString, PdfValue, Reference, Stream, parse_value

__all__ = ["repairs_of"]

_HEADER_SEARCH_BYTES = 1024
_END_SEARCH_BYTES = 2048
_MOST_OBJECTS = 8_388_607
_BLANK = rb"[\0\t\n\f\r ]"
_HEADER = b"%PDF-"
_OBJECT = re.compile(rb"(?<![^\0\t\n\f\r >])(\d{1,10})" + _BLANK + rb"++(\d{1,5})" + _BLANK + rb"++obj(?![A-Za-z])")
_STREAM = re.compile(_BLANK + rb"*+stream(?:\r\n|\n)")
_STREAM_END = re.compile(_BLANK + rb"*+endstream")
_TRAILER = re.compile(_BLANK + rb"trailer(?=" + _BLANK + rb"*+<<)")
_END = re.compile(rb"[\r\n]startxref[\0\t\n\f\r ]++\d{1,15}[\0\t\f ]*+[\r\n][\r\n]*+%%EOF")


def repairs_of(content: bytes) -> Iterator[bytes]:
    """Yield the file without what stands before its header, then with a new cross-reference behind its end.

    Nothing comes of a file that may be signed or encrypted, or that is cut off.
    """
    start = content.find(_HEADER, 0, _HEADER_SEARCH_BYTES)
    if start < 0 or b"/ByteRange" in content or b"/Encrypt" in content:
        return
    if _END.search(content, max(0, len(content) - _END_SEARCH_BYTES)) is None:
        return
    body = content[start:]
    if start:
        yield body
    try:
        yield body + _cross_reference(_survey(body), len(body))
    except CheckFailed:
        return


@attrs.define
class _Survey:
    """What stands in a file: rows of a cross-reference by object, and trailers in their order."""

    rows: dict[int, tuple[int, int, int]] = attrs.field(factory=dict)
    trailers: list[PdfDict] = attrs.field(factory=list)
    catalog: Reference | None = None


def _survey(body: bytes) -> _Survey:
    """Read a file from its start to its end; a later object takes the place of an earlier one of its number."""
    found = _Survey()
    position = 0
    while (header := _OBJECT.search(body, position)) is not None:
        _read_trailers(body, position, header.start(), found)
        number, generation = int(header[1]), int(header[2])
        value, position = parse_value(body, header.end())
        if not 0 < number < _MOST_OBJECTS:
            raise CheckFailed(f"The PDF has an object of the number {number}.")
        found.rows[number] = (1, header.start(1), generation)
        if not isinstance(value, dict):
            continue
        if value.get("/Type") == "/Catalog":
            found.catalog = Reference(number, generation)
        stream = _STREAM.match(body, position)
        if stream is not None:
            position = _read_stream(body, Stream(value, stream.end(), number, generation), found)
    _read_trailers(body, position, len(body), found)
    return found


def _read_stream(body: bytes, stream: Stream, found: _Survey) -> int:
    """Pass a stream, so that nothing inside counts as an object; return where it ends."""
    length = stream.entries.get("/Length")
    end = stream.start + length if isinstance(length, int) and length >= 0 else -1
    if not 0 <= end < len(body) or _STREAM_END.match(body, end) is None:
        end = body.find(b"endstream", stream.start)
        if end < 0:
            raise CheckFailed(f"The PDF has a stream without end at byte {stream.start}.")
    if stream.entries.get("/Type") == "/XRef":
        found.trailers.append(stream.entries)
    if stream.entries.get("/Type") == "/ObjStm":
        _read_packed(stream, body[stream.start : end], found)
    return end


def _read_packed(stream: Stream, content: bytes, found: _Survey) -> None:
    decoded = decode_stream(stream, content, lambda value: (value, -1))
    first, count = stream.entries.get("/First"), stream.entries.get("/N")
    if not isinstance(first, int) or not isinstance(count, int) or not 0 <= count < _MOST_OBJECTS:
        raise CheckFailed(f"The PDF has an object stream without its index at byte {stream.start}.")
    try:
        index = [int(part) for part in decoded[:first].split()[: 2 * count]]
    except ValueError as error:
        raise CheckFailed(f"The PDF has a damaged object stream at byte {stream.start}.") from error
    for place, (number, offset) in enumerate(zip(index[::2], index[1::2], strict=False)):
        if not 0 < number < _MOST_OBJECTS:
            raise CheckFailed(f"The PDF has an object of the number {number}.")
        found.rows[number] = (2, stream.number, place)
        value, _ = parse_value(decoded, first + offset)
        if isinstance(value, dict) and value.get("/Type") == "/Catalog":
            found.catalog = Reference(number, 0)


def _read_trailers(body: bytes, start: int, end: int, found: _Survey) -> None:
    for mark in _TRAILER.finditer(body, start, end):
        value, _ = parse_value(body, mark.end())
        if isinstance(value, dict):
            found.trailers.append(value)


def _cross_reference(found: _Survey, length: int) -> bytes:
    """Write a cross-reference of all objects that goes behind `length` bytes; a stream where objects are packed."""
    entries = _trailer_entries(found)
    rows = {0: (0, 0, 65535)} | found.rows
    if all(kind < 2 for kind, _, _ in rows.values()):
        out = b"\nxref\n"
        for first, part in _runs(rows):
            lines = b"".join(b"%010d %05d %b \n" % (row[1], row[2], b"fn"[row[0] : row[0] + 1]) for row in part)
            out += b"%d %d\n%b" % (first, len(part), lines)
        out += b"trailer\n<</Size %d %b>>\n" % (max(rows) + 1, entries)
    else:
        number = max(rows) + 1
        rows[number] = (1, length + 1, 0)
        runs = list(_runs(rows))
        index = b" ".join(b"%d %d" % (first, len(part)) for first, part in runs)
        packed = b"".join(
            bytes([kind]) + second.to_bytes(8, "big") + third.to_bytes(4, "big")
            for _, part in runs
            for kind, second, third in part
        )
        head = b"/Type /XRef /Size %d /W [1 8 4] /Index [%b] /Length %d %b" % (number + 1, index, len(packed), entries)
        out = b"\n%d 0 obj\n<<%b>>\nstream\n%b\nendstream\nendobj\n" % (number, head, packed)
    return out + b"startxref\n%d\n%%%%EOF\n" % (length + 1)


def _runs(rows: dict[int, tuple[int, int, int]]) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    part: list[tuple[int, int, int]] = []
    first = before = -1
    for number in sorted(rows):
        if part and number != before + 1:
            yield first, part
            part = []
        if not part:
            first = number
        part.append(rows[number])
        before = number
    yield first, part


def _trailer_entries(found: _Survey) -> bytes:
    root, info, identity = found.catalog, None, None
    for trailer in found.trailers:
        named = trailer.get("/Root")
        if isinstance(named, Reference) and named.number in found.rows:
            root = named
            info, identity = trailer.get("/Info", info), trailer.get("/ID", identity)
    if root is None:
        raise CheckFailed("The PDF has no document catalog.")
    out = b"/Root %d %d R" % root
    if isinstance(info, Reference) and info.number in found.rows:
        out += b" /Info %d %d R" % info
    return out + _written_identity(identity)


def _written_identity(identity: PdfValue) -> bytes:
    if not isinstance(identity, list):
        return b""
    parts = [part.written for part in identity if isinstance(part, PdfString)]
    return b" /ID [%b %b]" % (parts[0], parts[1]) if len(parts) == 2 else b""
