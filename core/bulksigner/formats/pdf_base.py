"""The file that the own append path extends: cross-references, trailer and single objects of an ordinary PDF (PERF-03).

Everything that pyHanko would refuse in a cross-reference is `Unusual` here, so that nothing is signed that was refused.
"""

from __future__ import annotations

import functools
import itertools
import re
import zlib

import attrs

from bulksigner.formats.pdf_tokens import (
    Entries,
    Unusual,
    integer_of,
    members_of,
    read_entries,
    read_value,
    reference_of,
)

__all__ = ["Base"]

_END = re.compile(rb"[\n\r]startxref *+[\n\r]++(\d{1,9}) *+[\n\r]++%%EOF[\n\r]*+\Z")
_END_SEARCH_BYTES = 64
_HEADER = re.compile(rb"%PDF-(\d\.\d)[\r\n]")
_TABLE = re.compile(rb"xref ?(?:\r\n|[\r\n])")
_SUBSECTION = re.compile(rb"(\d{1,9}) (\d{1,9}) ?(?:\r\n|[\r\n])")
_ROWS = re.compile(rb"(?:\d{10} (?:00000 n|(?:0\d{4}|65535) f)(?: \n| \r|\r\n))*+")
_FREE_ROW = re.compile(rb" \d{5} f")
_TRAILER = re.compile(rb"trailer[\n\r ]*+")
_OBJECT = re.compile(rb"(\d{1,9}) 0 obj[\n\r ]*+")
_OBJECT_END = re.compile(rb"[\n\r ]*+endobj(?=[\n\r ])")
_STREAM = re.compile(rb"[\n\r ]*+stream\r?\n")
_STREAM_END = re.compile(rb"[\n\r]*+endstream[\n\r ]++endobj(?=[\n\r ])")
_ROW_BYTES = 20
_MOST_SECTIONS = 16
# Runs are looked through one by one.
_MOST_RUNS = 1024
_MOST_UPDATED = 4096
_MOST_DECODED_BYTES = 16 * 1024 * 1024
_OF_THE_STREAM = frozenset({b"/Type", b"/W", b"/Index", b"/Length", b"/Filter", b"/DecodeParms"})
_OF_THE_TRAILER = frozenset({b"/Size", b"/Root", b"/Info", b"/ID", b"/Prev", b"/DocChecksum"})


@attrs.frozen
class _Section:
    """One cross-reference section: runs of first number, count and offset of the first row; rows by their widths."""

    trailer: Entries
    runs: list[tuple[int, int, int]]
    rows: bytes | memoryview
    widths: tuple[int, int, int] | None
    number: int
    """That of the cross-reference stream; 0 is a table."""

    def find(self, number: int) -> tuple[int, int, int] | None:
        """Find the row of an object: kind, and the two values that follow."""
        for first, count, start in self.runs:
            if not first <= number < first + count:
                continue
            if self.widths is None:
                at = start + (number - first) * _ROW_BYTES
                return int(self.rows[at + 17] == ord("n")), int(bytes(self.rows[at : at + 10])), 0
            one, two, three = self.widths
            at = start + (number - first) * (one + two + three)
            kind, value, rest = (
                int.from_bytes(self.rows[begin : begin + width], "big")
                for begin, width in ((at, one), (at + one, two), (at + one + two, three))
            )
            return kind, value, rest
        return None


class Base:
    """An ordinary PDF; the constructor and every look at an object raise `Unusual` where it is none."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        end = _END.search(data, max(0, len(data) - _END_SEARCH_BYTES))
        header = _HEADER.match(data)
        if end is None or header is None:
            raise Unusual("head or end")
        self.version = header[1]
        self.newest_at = int(end[1])
        self._sections: list[_Section] = []
        self._packed: dict[int, tuple[bytes, list[tuple[int, int]]]] = {}
        start: int | None = self.newest_at
        while start is not None:
            section = self._read_section(start)
            self._sections.append(section)
            previous = section.trailer.get(b"/Prev")
            start = None if previous is None else integer_of(previous)
            if len(self._sections) > _MOST_SECTIONS:
                raise Unusual("many updates")
        self._require_consistent()
        self.trailer = self._flatten()
        self.size = integer_of(self.trailer[b"/Size"])
        self.has_streams = any(section.number for section in self._sections)

    def dictionary(self, number: int) -> Entries:
        """Return an object that is a dictionary and no stream."""
        source, position, is_packed = self._place(number)
        entries, end = read_entries(source, position)
        self._require_end(source, end, is_packed)
        return entries

    def array(self, number: int) -> bytes:
        """Return an object that is an array, as it is written."""
        source, position, is_packed = self._place(number)
        value, end = read_value(source, position)
        self._require_end(source, end, is_packed)
        if not value.startswith(b"["):
            raise Unusual("no array")
        return value

    def stream(self, number: int) -> tuple[Entries, bytes]:
        """Return an object that is a stream: its dictionary, and what is in it, decoded."""
        source, position, is_packed = self._place(number)
        if is_packed:
            raise Unusual("a stream in a stream")
        entries, end = read_entries(source, position)
        return entries, self._content(entries, end)

    def _content(self, entries: Entries, end: int) -> bytes:
        head = _STREAM.match(self._data, end)
        length = integer_of(entries.get(b"/Length", b""))
        if head is None or _STREAM_END.match(self._data, head.end() + length) is None:
            raise Unusual("a stream of another length")
        content = bytes(self._data[head.end() : head.end() + length])
        packing = entries.get(b"/Filter")
        if packing is None:
            if b"/DecodeParms" in entries:
                raise Unusual("parameters of no filter")
            return content
        if packing not in (b"/FlateDecode", b"[/FlateDecode]", b"[ /FlateDecode ]"):
            raise Unusual("filter")
        return _undo_predictor(_inflate(content), entries.get(b"/DecodeParms"))

    def _place(self, number: int) -> tuple[bytes | memoryview, int, bool]:
        """Find where an object's value begins: in the file, or in a decoded object stream."""
        kind, value, index = self._find(number)
        if kind == 1:
            return self._data, self._begin(value, number), False
        if kind != 2 or self._find(value)[0] != 1:
            raise Unusual("an object that is not there")
        if value not in self._packed:
            self._packed[value] = self._unpack(value)
        content, places = self._packed[value]
        if index >= len(places) or places[index][0] != number:
            raise Unusual("an object stream with another object")
        return content, places[index][1], True

    def _find(self, number: int) -> tuple[int, int, int]:
        for section in self._sections:
            row = section.find(number)
            if row is not None:
                return row
        raise Unusual("an object that is not there")

    def _begin(self, offset: int, number: int) -> int:
        header = _OBJECT.match(self._data, offset) if offset < len(self._data) else None
        if header is None or int(header[1]) != number:
            raise Unusual("an object at another place")
        return header.end()

    def _require_end(self, source: bytes | memoryview, end: int, is_packed: bool) -> None:
        if not is_packed and _OBJECT_END.match(source, end) is None:
            raise Unusual("an object that goes on")

    def _unpack(self, number: int) -> tuple[bytes, list[tuple[int, int]]]:
        entries, content = self.stream(number)
        first, count = integer_of(entries.get(b"/First", b"")), integer_of(entries.get(b"/N", b""))
        numbers = content[:first].split()
        if entries.get(b"/Type") != b"/ObjStm" or len(numbers) != 2 * count or not all(map(bytes.isdigit, numbers)):
            raise Unusual("an object stream's index")
        index = list(map(int, numbers))
        return content, [(one, first + at) for one, at in zip(index[::2], index[1::2], strict=True)]

    def _read_section(self, start: int) -> _Section:
        table = _TABLE.match(self._data, start) if start < len(self._data) else None
        if table is not None:
            return self._read_table(table.end())
        header = _OBJECT.match(self._data, start) if start < len(self._data) else None
        if header is None:
            raise Unusual("no cross-reference")
        entries, end = read_entries(self._data, header.end())
        rows = self._content(entries, end)
        widths = [integer_of(width) for width in members_of(entries.get(b"/W", b""))]
        index = entries.get(b"/Index", b"[0 %b]" % entries.get(b"/Size", b""))
        bounds = [integer_of(bound) for bound in members_of(index)]
        if entries.get(b"/Type") != b"/XRef" or len(widths) != 3 or len(bounds) % 2:
            raise Unusual("cross-reference stream")
        if widths[0] > 1 or max(widths) > 8 or sum(widths) == 0 or len(bounds) > 2 * _MOST_RUNS:
            raise Unusual("cross-reference stream")
        runs, at = [], 0
        for first, count in zip(bounds[::2], bounds[1::2], strict=True):
            runs.append((first, count, at))
            at += count * sum(widths)
        one, two, three = widths
        if at != len(rows) or _rows_by_width(one, two, three).fullmatch(rows) is None:
            raise Unusual("rows of a cross-reference stream")
        return _Section(entries, runs, rows, (one, two, three), int(header[1]))

    def _read_table(self, position: int) -> _Section:
        runs = []
        while (head := _SUBSECTION.match(self._data, position)) is not None:
            count, start = int(head[2]), head.end()
            position = start + count * _ROW_BYTES
            if position > len(self._data) or _ROWS.fullmatch(self._data, start, position) is None:
                raise Unusual("rows of a table")
            runs.append((int(head[1]), count, start))
            if len(runs) > _MOST_RUNS:
                raise Unusual("many runs")
        trailer = _TRAILER.match(self._data, position)
        if trailer is None or not runs:
            raise Unusual("trailer")
        return _Section(read_entries(self._data, trailer.end())[0], runs, self._data, None, 0)

    def _require_consistent(self) -> None:
        """Demand that sizes grow, that runs do, and that updates free no object and use none that was free."""
        streams = {section.number for section in self._sections if section.number}
        *updates, oldest = self._sections
        runs = [(first, count) for section in updates for first, count, _ in section.runs]
        if sum(count for _, count in runs) > _MOST_UPDATED:
            raise Unusual("many updated objects")
        updated = {number for first, count in runs for number in range(first, first + count)} - {0}
        if any((oldest.find(number) or (1,))[0] == 0 for number in updated):
            raise Unusual("objects that were free")
        least = None
        for section in self._sections:
            size = integer_of(section.trailer.get(b"/Size", b""))
            ends = [0, *(first + count for first, count, _ in section.runs)]
            grows = all(run[0] >= end for run, end in zip(section.runs, ends, strict=False))
            if not grows or ends[-1] > size or (least is not None and size > least):
                raise Unusual("sizes")
            least = size
            if not section.trailer.keys() <= (_OF_THE_TRAILER | _OF_THE_STREAM if section.number else _OF_THE_TRAILER):
                raise Unusual("trailer")
            if section is not oldest and any(self._frees(section, run) for run in section.runs):
                raise Unusual("freed objects")
            if any(section.find(number) is not None for number in streams - {section.number}):
                raise Unusual("a cross-reference stream that another section names")

    @staticmethod
    def _frees(section: _Section, run: tuple[int, int, int]) -> bool:
        """Tell whether a run of rows calls an object free, other than number 0, which always is."""
        first, count, start = run
        row_bytes = _ROW_BYTES if section.widths is None else sum(section.widths)
        begin, end = start + row_bytes * (first == 0), start + row_bytes * count
        if section.widths is None:
            return _FREE_ROW.search(section.rows, begin, end) is not None
        return section.widths[0] == 1 and 0 in bytes(section.rows[begin:end:row_bytes])

    def _flatten(self) -> Entries:
        """Join the trailers, the newest first, without what is of one section alone."""
        trailer: Entries = {}
        for section in self._sections:
            trailer = section.trailer | trailer
        trailer = {name: value for name, value in trailer.items() if name not in _OF_THE_STREAM and name != b"/Prev"}
        reference_of(trailer.get(b"/Root", b""))
        if b"/Info" in trailer:
            reference_of(trailer[b"/Info"])
        return trailer


@functools.lru_cache(maxsize=32)
def _rows_by_width(one: int, two: int, three: int) -> re.Pattern[bytes]:
    """Make the pattern of all rows: in use with generation 0, packed, or free with a generation that can be."""
    if one == 0:
        return re.compile(rb"(?:.{%d}\x00{%d})*+" % (two, three), re.DOTALL)
    free = b"\\x00.{%d}\\x00{%d}.{%d}" % (two, max(0, three - 2), min(2, three))
    used = b"\\x01.{%d}\\x00{%d}" % (two, three)
    return re.compile(b"(?:%b|\\x02.{%d}|%b)*+" % (used, two + three, free), re.DOTALL)


def _inflate(content: bytes) -> bytes:
    inflating = zlib.decompressobj()
    try:
        decoded = inflating.decompress(content, _MOST_DECODED_BYTES)
    except zlib.error as error:
        raise Unusual("a damaged stream") from error
    if not inflating.eof or inflating.unused_data:
        raise Unusual("a long or damaged stream")
    return decoded


def _undo_predictor(decoded: bytes, parameters: bytes | None) -> bytes:
    """Undo the PNG filter Up, a column at a time (RFC 2083 6.4); cross-reference streams know no other in practice."""
    if parameters is None:
        return decoded
    entries, _ = read_entries(parameters, 0)
    if entries.get(b"/Predictor", b"1") == b"1":
        return decoded
    columns = integer_of(entries.get(b"/Columns", b""))
    if not entries.keys() <= {b"/Predictor", b"/Columns"} or entries[b"/Predictor"] != b"12" or not 0 < columns <= 32:
        raise Unusual("predictor")
    if len(decoded) % (columns + 1) or decoded[:: columns + 1].strip(b"\x02"):
        raise Unusual("predictor")
    out = bytearray(len(decoded) // (columns + 1) * columns)
    for column in range(columns):
        sums = itertools.accumulate(decoded[column + 1 :: columns + 1])
        out[column::columns] = bytes([total & 0xFF for total in sums])
    return bytes(out)
