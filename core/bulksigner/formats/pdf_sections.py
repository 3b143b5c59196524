"""Cross-reference sections of a PDF, looked up entry by entry, never read as a whole (ISO 32000-1 7.5.4, 7.5.8)."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import attrs

from bulksigner.formats.model import CheckFailed
from bulksigner.formats.pdf_syntax import PdfDict, PdfValue, Stream, parse_value

__all__ = ["Entry", "Section", "StreamSection", "TableSection", "decode_stream"]

_SUBSECTION = re.compile(rb"[\0\t\n\f\r ]*+(\d{1,10})[ ]++(\d{1,10})[ ]*+(?:\r\n|\r|\n)")
_TRAILER = re.compile(rb"[\0\t\n\f\r ]*+trailer")
_ENTRY = re.compile(rb"(\d{10}) (\d{5}) ([nf])[\r\n ]{1,3}")
_DECODED_LIMIT_BYTES = 64 * 1024 * 1024


class Entry(NamedTuple):
    """Where an object is: kind 0 free, 1 offset and generation, 2 object stream and index."""

    kind: int
    first: int
    second: int


class Section(Protocol):
    """One cross-reference section."""

    @property
    def trailer(self) -> PdfDict:
        """Return its trailer dictionary."""
        ...

    def find(self, data: bytes | memoryview, number: int) -> Entry | None:
        """Find the entry of an object, or None where the section does not have it."""
        ...

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all objects that have an entry."""
        ...


@attrs.frozen
class TableSection:
    """A classic table: for each subsection the first number, the count, the offset and the width of its entries."""

    trailer: PdfDict
    subsections: list[tuple[int, int, int, int]]

    @classmethod
    def read(cls, data: bytes | memoryview, position: int) -> TableSection:
        """Read subsection heads and trailer; entries are left where they are."""
        subsections = []
        while (end := _TRAILER.match(data, position)) is None:
            head = _SUBSECTION.match(data, position)
            if head is None:
                raise CheckFailed(f"The PDF has a damaged cross-reference table at byte {position}.")
            first, count, position = int(head[1]), int(head[2]), head.end()
            entry = _ENTRY.match(data, position)
            # Entries have 20 bytes, but files with 19 or 21 are about, with one width throughout.
            width = len(entry[0]) if entry is not None else 0
            if count and not width:
                raise CheckFailed(f"The PDF has a damaged cross-reference entry at byte {position}.")
            subsections.append((first, count, position, width))
            position += count * width
        trailer, _ = parse_value(data, end.end())
        if not isinstance(trailer, dict):
            raise CheckFailed(f"The PDF has no trailer dictionary at byte {end.end()}.")
        return cls(trailer, subsections)

    def find(self, data: bytes | memoryview, number: int) -> Entry | None:
        """Find an entry by its place in its subsection."""
        for first, count, offset, width in self.subsections:
            if first <= number < first + count:
                position = offset + (number - first) * width
                entry = _ENTRY.match(data, position)
                if entry is None:
                    raise CheckFailed(f"The PDF has a damaged cross-reference entry at byte {position}.")
                return Entry(int(entry[3] == b"n"), int(entry[1]), int(entry[2]))
        return None

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all entries."""
        for first, count, _, _ in self.subsections:
            yield from range(first, first + count)


@attrs.frozen
class StreamSection:
    """A cross-reference stream: field widths, and its rows by subsection."""

    trailer: PdfDict
    widths: tuple[int, int, int]
    ranges: list[tuple[int, int]]
    rows: bytes

    @classmethod
    def read(cls, stream: Stream, content: bytes) -> StreamSection:
        """Read the stream's dictionary; `content` is decoded."""
        entries = stream.entries
        widths = _integers(entries.get("/W"))
        index = _integers(entries.get("/Index", [0, entries.get("/Size")]))
        if entries.get("/Type") != "/XRef" or len(widths) != 3 or len(index) % 2 or sum(widths) == 0:
            raise CheckFailed("The PDF has a damaged cross-reference stream.")
        return cls(
            entries,
            (widths[0], widths[1], widths[2]),
            list(zip(index[::2], index[1::2], strict=True)),
            content,
        )

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all rows."""
        for first, count in self.ranges:
            yield from range(first, first + count)

    def find(self, data: bytes | memoryview, number: int) -> Entry | None:  # noqa: ARG002 - the rows were decoded
        """Find an entry by its row."""
        kind_width, first_width, _ = self.widths
        row_bytes = sum(self.widths)
        before = 0
        for first, count in self.ranges:
            if first <= number < first + count:
                start = (before + number - first) * row_bytes
                row = self.rows[start : start + row_bytes]
                if len(row) < row_bytes:
                    raise CheckFailed("The PDF has a cross-reference stream that is too short.")
                kind = int.from_bytes(row[:kind_width], "big") if kind_width else 1
                middle = kind_width + first_width
                return Entry(kind, int.from_bytes(row[kind_width:middle], "big"), int.from_bytes(row[middle:], "big"))
            before += count
        return None


def decode_stream(stream: Stream, content: bytes, resolve: Callable[[PdfValue], tuple[PdfValue, int]]) -> bytes:
    """Decode a stream without filter or with FlateDecode and a PNG predictor; cross-references use no other."""
    filters = _single(resolve(stream.entries.get("/Filter"))[0])
    if filters is None:
        return content
    if filters != "/FlateDecode":
        raise CheckFailed(f"The PDF has a stream with another filter than FlateDecode at byte {stream.start}.")
    inflate = zlib.decompressobj()
    try:
        decoded = inflate.decompress(content, _DECODED_LIMIT_BYTES)
    except zlib.error as error:
        raise CheckFailed(f"The PDF has a damaged stream at byte {stream.start}.") from error
    if inflate.unconsumed_tail:
        raise CheckFailed(f"The PDF has a stream of more than {_DECODED_LIMIT_BYTES} bytes at byte {stream.start}.")
    parameters = _single(resolve(stream.entries.get("/DecodeParms"))[0])
    if not isinstance(parameters, dict):
        return decoded
    predictor, columns = parameters.get("/Predictor", 1), parameters.get("/Columns", 1)
    if predictor == 1:
        return decoded
    if not isinstance(predictor, int) or predictor < 10 or not isinstance(columns, int) or not 0 < columns < 1 << 16:
        raise CheckFailed(f"The PDF has a stream with an unknown predictor at byte {stream.start}.")
    return _undo_png(decoded, columns)


def _undo_png(data: bytes, columns: int) -> bytes:
    """Undo the PNG filters None, Sub and Up of one-byte pixels (RFC 2083 6)."""
    out = bytearray()
    before = bytes(columns)
    if len(data) % (columns + 1) == 0 and not data[:: columns + 1].strip(b"\x02"):
        return _undo_png_up(data, columns)
    for start in range(0, len(data) - columns, columns + 1):
        kind = data[start]
        row = bytearray(data[start + 1 : start + 1 + columns])
        if kind == 1:
            for position in range(1, columns):
                row[position] = (row[position] + row[position - 1]) & 0xFF
        elif kind == 2:
            for position in range(columns):
                row[position] = (row[position] + before[position]) & 0xFF
        elif kind:
            raise CheckFailed(f"The PDF has a cross-reference stream with the PNG filter {kind}.")
        out += row
        before = bytes(row)
    return bytes(out)


def _undo_png_up(data: bytes, columns: int) -> bytes:
    """Undo the filter Up on every row, which is what writers of cross-references use, a column at a time."""
    out = bytearray(len(data) // (columns + 1) * columns)
    for column in range(columns):
        sums = itertools.accumulate(data[column + 1 :: columns + 1])
        out[column::columns] = bytes([total & 0xFF for total in sums])
    return bytes(out)


def _single(value: PdfValue) -> PdfValue:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _integers(value: PdfValue) -> list[int]:
    if not isinstance(value, list):
        return []
    numbers = [number for number in value if isinstance(number, int) and 0 <= number < 1 << 32]
    return numbers if len(numbers) == len(value) else []
