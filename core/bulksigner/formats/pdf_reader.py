"""A reader of as much PDF as the check needs: objects by their newest cross-reference (ISO 32000-1 7.5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from bulksigner.contract.settings import Secret
from bulksigner.formats.model import CheckFailed
from bulksigner.formats.pdf_crypt import Decryption, decode_string
from bulksigner.formats.pdf_sections import Entry, Section, StreamSection, TableSection, decode_stream
from bulksigner.formats.pdf_syntax import PdfDict, PdfString, PdfValue, Reference, Stream, parse_value

__all__ = ["PdfFile", "Placed"]

_OBJECT = re.compile(rb"[\0\t\n\f\r ]*+(\d{1,10})[\0\t\n\f\r ]++(\d{1,5})[\0\t\n\f\r ]++obj")
_STREAM = re.compile(rb"[\0\t\n\f\r ]*+stream(?:\r\n|\n)")
_START = re.compile(rb"startxref[\0\t\n\f\r ]++(\d{1,15})[\0\t\n\f\r ]*+%%EOF[\0\t\n\f\r ]*+\Z")
_TABLE = re.compile(rb"[\0\t\n\f\r ]*+xref[\0\t\n\f\r ]++")
_END_SEARCH_BYTES = 1024
_MOST_OFFSET = 1 << 48
_MOST_SECTIONS = 4096
_MOST_REFERENCES = 16


class Placed(NamedTuple):
    """An object, and the offset at which it (or the object stream that holds it) stands."""

    value: PdfValue
    offset: int


class PdfFile:
    """A PDF in memory, read from its newest cross-reference on; older ones are read when an object is not in newer."""

    def __init__(self, data: bytes | memoryview, passwords: Sequence[Secret] = ()) -> None:
        self._data = data
        start = _START.search(data, max(0, len(data) - _END_SEARCH_BYTES))
        if start is None:
            raise CheckFailed("The PDF does not end with startxref and %%EOF.")
        self._sections: list[Section] = []
        self._starts: list[int] = []
        self._pending: list[int] = [int(start[1])]
        self._seen: set[int] = set()
        self._packed: dict[int, dict[int, PdfValue]] = {}
        self.newest_at = int(start[1])
        self._decryption: Decryption | None = None
        self.trailer = self._read_next_section().trailer
        if self.trailer.get("/Encrypt") is not None:
            identity = self.resolve(self.trailer.get("/ID")).value
            first = identity[0] if isinstance(identity, list) and identity else None
            self._decryption = Decryption.open(
                self.dictionary(self.trailer["/Encrypt"], "encryption dictionary"),
                decode_string(first) if isinstance(first, PdfString) else b"",
                passwords,
            )

    def resolve(self, value: PdfValue) -> Placed:
        """Follow references; a direct value has the offset -1."""
        offset = -1
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, Reference):
                return Placed(value, offset)
            value, offset = self._load(value)
        raise CheckFailed("The PDF has references that lead in a circle.")

    def dictionary(self, value: PdfValue, what: str) -> PdfDict:
        """Follow references to a dictionary, or raise `CheckFailed`."""
        found = self.resolve(value).value
        if not isinstance(found, dict):
            raise CheckFailed(f"The PDF has no {what}.")
        return found

    def text(self, string: PdfString, holder: Reference) -> bytes:
        """Return the bytes of a string that stands in an object of the file's body, decrypted where it is encrypted."""
        content = decode_string(string)
        if self._decryption is None:
            return content
        return self._decryption.string(content, holder.number, holder.generation)

    def offset_of(self, reference: Reference) -> int:
        """Tell where the newest version of an object stands, without reading it; -1 where there is none."""
        entry = self._find(reference.number)
        if entry is None or entry.kind == 0:
            return -1
        return entry.first if entry.kind == 1 else self._container_of(entry)

    def numbers_since(self, offset: int) -> set[int]:
        """Return the numbers of the objects that cross-references at or behind an offset list."""
        while self._pending and self._pending[0] >= offset:
            self._read_next_section()
        found = zip(self._starts, self._sections, strict=True)
        return {number for start, section in found if start >= offset for number in section.numbers()}

    def _load(self, reference: Reference) -> Placed:
        entry = self._find(reference.number)
        if entry is None or entry.kind == 0:
            return Placed(None, -1)
        if entry.kind == 1:
            if entry.second != reference.generation:
                return Placed(None, -1)
            return Placed(self._read_object(entry.first, reference.number), entry.first)
        offset = self._container_of(entry)
        return Placed(self._unpack(offset, entry.first).get(reference.number), offset)

    def _container_of(self, entry: Entry) -> int:
        """Tell the offset of the object stream that an entry names; such a stream is in no other (7.5.7)."""
        container = self._find(entry.first)
        if container is None or container.kind != 1:
            raise CheckFailed(f"The PDF has no object stream {entry.first}.")
        return container.first

    def _find(self, number: int) -> Entry | None:
        """Find the newest entry of an object, reading further sections as needed."""
        position = 0
        while True:
            while position < len(self._sections):
                section = self._sections[position]
                entry = section.find(self._data, number)
                # A hybrid file's table calls free what its stream has (7.5.8.4).
                if entry is not None and (entry.kind != 0 or "/XRefStm" not in section.trailer):
                    return entry
                position += 1
            if not self._pending:
                return None
            self._read_next_section()

    def _read_next_section(self) -> Section:
        start = self._pending.pop(0)
        if start in self._seen or len(self._seen) >= _MOST_SECTIONS:
            raise CheckFailed("The PDF has cross-references that lead in a circle.")
        self._seen.add(start)
        section: Section
        table = _TABLE.match(self._data, start)
        if table is not None:
            section = TableSection.read(self._data, table.end())
            # 7.5.8.4: a hybrid file's stream is looked at after its table and before older sections.
            self._pending = _offsets(section.trailer, "/XRefStm") + _offsets(section.trailer, "/Prev")
        else:
            stream = self._read_object(start, None)
            if not isinstance(stream, Stream):
                raise CheckFailed(f"The PDF has no cross-reference at byte {start}.")
            section = StreamSection.read(stream, self.content(stream))
            if not self._pending:
                self._pending = _offsets(section.trailer, "/Prev")
        self._sections.append(section)
        self._starts.append(start)
        return section

    def _read_object(self, offset: int, number: int | None) -> PdfValue:
        header = _OBJECT.match(self._data, offset) if offset < len(self._data) else None
        if header is None or (number is not None and int(header[1]) != number):
            what = "cross-reference" if number is None else f"object {number}"
            raise CheckFailed(f"The PDF has no {what} at byte {offset}, where it should be.")
        value, position = parse_value(self._data, header.end())
        if isinstance(value, dict):
            stream = _STREAM.match(self._data, position)
            if stream is not None:
                return Stream(value, stream.end(), int(header[1]), int(header[2]))
        return value

    def content(self, stream: Stream) -> bytes:
        """Return the decoded content of a stream."""
        length = self.resolve(stream.entries.get("/Length")).value
        if not isinstance(length, int) or not 0 <= length <= len(self._data) - stream.start:
            raise CheckFailed(f"The PDF has a stream without its length at byte {stream.start}.")
        content = bytes(self._data[stream.start : stream.start + length])
        # 7.5.8.2: a cross-reference stream is never encrypted.
        if self._decryption is not None and stream.entries.get("/Type") != "/XRef":
            content = self._decryption.stream(content, stream.number, stream.generation)
        return decode_stream(stream, content, self.resolve)

    def _unpack(self, offset: int, number: int) -> dict[int, PdfValue]:
        """Read all objects of an object stream (7.5.7); kept, as neighbours are mostly wanted too."""
        if offset not in self._packed:
            stream = self._read_object(offset, number)
            if not isinstance(stream, Stream):
                raise CheckFailed(f"The PDF has no object stream at byte {offset}.")
            content = self.content(stream)
            first, count = stream.entries.get("/First"), stream.entries.get("/N")
            if not isinstance(first, int) or not isinstance(count, int):
                raise CheckFailed(f"The PDF has an object stream without its index at byte {offset}.")
            try:
                index = [int(part) for part in content[:first].split()[: 2 * count]]
            except ValueError as error:
                raise CheckFailed(f"The PDF has a damaged object stream at byte {offset}.") from error
            self._packed[offset] = {
                packed: parse_value(content, first + place)[0]
                for packed, place in zip(index[::2], index[1::2], strict=False)
            }
        return self._packed[offset]


def _offsets(trailer: PdfDict, key: str) -> list[int]:
    value = trailer.get(key)
    if value is None:
        return []
    if not isinstance(value, int) or not 0 <= value < _MOST_OFFSET:
        raise CheckFailed(f"The PDF has a trailer whose {key} is not an offset.")
    return [value]
