"""PDF files of a few objects, laid out in every way that a file may be, for tests of the corners of the format."""

from __future__ import annotations

import random
import zlib

import attrs

__all__ = ["PdfSample", "stream_object"]


@attrs.frozen
class PdfSample:
    """A PDF to be built: its objects, and how they and the cross-reference are laid out.

    `layout` is `classic` (table), `streams` (object and cross-reference streams) or `hybrid` (ISO 32000-1 7.5.8.4).
    """

    layout: str = "classic"
    pages: int = 1
    filler_bytes: int = 0
    extra_objects: int = 0
    form: str = "none"
    catalog: bytes = b""
    trailer: bytes = b""
    version: str = "1.7"
    end: bytes = b"%%EOF\n"
    objects: dict[int, bytes] = attrs.field(factory=dict)

    def build(self) -> bytes:
        """Write the file."""
        streams, objects, extras = self._compose()
        # In a hybrid file the object stream holds what an old reader can do without.
        packable = {"classic": {}, "streams": objects | extras, "hybrid": extras}[self.layout]
        plain = {number: body for number, body in (streams | objects | extras).items() if number not in packable}
        out = bytearray(f"%PDF-{self.version}\n%\xe2\xe3\xcf\xd3\n".encode("latin-1"))
        places: dict[int, tuple[int, int, int]] = {}
        for number, body in sorted(plain.items()):
            places[number] = (1, len(out), 0)
            out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
        if packable:
            self._pack(out, places, packable)
        if self.layout == "classic":
            start = len(out)
            out += _table(places) + b"trailer\n<</Size %d %b>>\n" % (max(places) + 1, self._trailer_entries())
        else:
            start = self._write_stream(out, places)
        if self.layout == "hybrid":
            start, stream = len(out), start
            out += _table(places) + b"trailer\n<</Size %d /XRefStm %d %b>>\n" % (
                max(places) + 1,
                stream,
                self._trailer_entries(),
            )
        return bytes(out) + b"startxref\n%d\n" % start + self.end

    def _trailer_entries(self) -> bytes:
        return b"/Root 1 0 R /ID [<%b> <%b>] %b" % (b"11" * 16, b"22" * 16, self.trailer)

    def _compose(self) -> tuple[dict[int, bytes], dict[int, bytes], dict[int, bytes]]:
        """Compose streams, objects that a viewer needs, and others."""
        first = 10
        kids = b" ".join(b"%d 0 R" % (first + 2 * page) for page in range(self.pages))
        form = {"none": b"", "indirect": b"/AcroForm 4 0 R", "direct": b"/AcroForm <</Fields [] /DA (/F 0 Tf)>>"}
        objects = {
            1: b"<</Type /Catalog /Pages 2 0 R %b %b>>" % (form[self.form], self.catalog),
            2: b"<</Type /Pages /Count %d /Kids [%b]>>" % (self.pages, kids),
        }
        if self.form == "indirect":
            objects[4] = b"<</Fields 5 0 R /NeedAppearances true /DR <<>>>>"
            objects[5] = b"[6 0 R]"
            objects[6] = b"<</FT /Tx /T (amount) /V (\\(10\\) \\101\\\n) /Kids []>>"
        streams = {}
        extras = {3: b"<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>"}
        for page in range(self.pages):
            number = first + 2 * page
            objects[number] = (
                b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R"
                b" /Resources <</Font <</F 3 0 R>>>>>>" % (number + 1)
            )
            streams[number + 1] = stream_object(b"BT /F 12 Tf 72 720 Td (Page %d) Tj ET" % (page + 1))
        number = first + 2 * self.pages
        if self.filler_bytes:
            streams[number] = stream_object(random.Random(1).randbytes(self.filler_bytes))
            number += 1
        for extra in range(self.extra_objects):
            extras[number + extra] = b"<</Number %d /Text (object %d)>>" % (extra, extra)
        objects.update(self.objects)
        return streams, objects, extras

    def _pack(self, out: bytearray, places: dict[int, tuple[int, int, int]], packable: dict[int, bytes]) -> None:
        container = max([*places, *packable]) + 1
        numbers = sorted(packable)
        for start in range(0, len(numbers), 100):
            batch = numbers[start : start + 100]
            offsets, bodies = [], b""
            for index, number in enumerate(batch):
                places[number] = (2, container, index)
                offsets.append(b"%d %d" % (number, len(bodies)))
                bodies += packable[number] + b" "
            index_part = b" ".join(offsets) + b" "
            places[container] = (1, len(out), 0)
            entries = b"/Type /ObjStm /N %d /First %d" % (len(batch), len(index_part))
            out += b"%d 0 obj\n%b\nendobj\n" % (container, stream_object(index_part + bodies, entries, pack=True))
            container += 1

    def _write_stream(self, out: bytearray, places: dict[int, tuple[int, int, int]]) -> int:
        """Write a cross-reference stream with the PNG predictor that common writers use."""
        number, start = max(places) + 1, len(out)
        places[number] = (1, start, 0)
        rows = [places.get(entry, (0, 0, 0)) for entry in range(number + 1)]
        if self.layout == "hybrid":
            rows = [row if row[0] == 2 else (0, 0, 0) for row in rows]
        plain = [bytes([kind]) + first.to_bytes(4, "big") + second.to_bytes(2, "big") for kind, first, second in rows]
        before, predicted = bytes(7), b""
        for row in plain:
            predicted += b"\x02" + bytes((new - old) & 0xFF for new, old in zip(row, before, strict=True))
            before = row
        entries = b"/Type /XRef /Size %d /W [1 4 2] /DecodeParms <</Predictor 12 /Columns 7>> %b" % (
            number + 1,
            self._trailer_entries(),
        )
        out += b"%d 0 obj\n%b\nendobj\n" % (number, stream_object(predicted, entries, pack=True))
        return start


def stream_object(content: bytes, entries: bytes = b"", *, pack: bool = False) -> bytes:
    """Return a stream object with its dictionary, packed by FlateDecode or not."""
    if pack:
        content, entries = zlib.compress(content), entries + b" /Filter /FlateDecode"
    return b"<<%b /Length %d>>\nstream\n%b\nendstream" % (entries, len(content), content)


def _table(places: dict[int, tuple[int, int, int]]) -> bytes:
    rows = [b"xref\n0 1\n0000000000 65535 f \n"]
    numbers = sorted(places)
    start = 0
    while start < len(numbers):
        end = start
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        rows.append(b"%d %d\n" % (numbers[start], end - start + 1))
        for number in numbers[start : end + 1]:
            kind, offset, _ = places[number]
            rows.append(b"%010d 00000 n \n" % offset if kind == 1 else b"0000000000 65535 f \n")
        start = end + 1
    return b"".join(rows)
