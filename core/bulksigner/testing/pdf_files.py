"""A small PDF writer for test inputs: real text pages, both kinds of cross-reference (ISO 32000-1, 7.5).

It shares nothing with the code under test, so a misreading of the format there is not repeated here.
"""

from __future__ import annotations

import enum
import functools
import random
import textwrap
import unicodedata
import zlib
from collections.abc import Iterator, Sequence

import attrs

from bulksigner.testing.prose import contract_clauses

__all__ = ["CrossReference", "pdf_file"]

_PAGE_WIDTH, _PAGE_HEIGHT = 595, 842
_MARGIN = 64
_TEXT_WIDTH = _PAGE_WIDTH - 2 * _MARGIN
_BODY_SIZE, _LEADING = 11, 15
_LINES_PER_PAGE = 45
_OBJECTS_PER_STREAM = 100
_SLACK_BYTES = 64

# Advance widths of Helvetica for the characters 32 to 126, in thousandths of the type size (Adobe core 14 metrics).
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip


class CrossReference(enum.Enum):
    """Ways a PDF lists its objects: a table (to 1.4) or a stream with packed objects (1.5 on)."""

    CLASSIC = "classic"
    STREAM = "stream"


@attrs.frozen
class _Body:
    """Numbered objects, the first with number 1; those in `streams` cannot be packed into object streams."""

    objects: list[bytes]
    streams: set[int]
    root: int
    info: int


@functools.lru_cache(maxsize=4096)
def _width(text: str, size: float) -> float:
    total = 0
    for char in text:
        base = unicodedata.normalize("NFD", char)[0]
        total += _WIDTHS[ord(base) - 32] if 32 <= ord(base) < 127 else 556
    return total * size / 1000


def _literal(text: str) -> bytes:
    escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return b"(" + escaped.encode("cp1252") + b")"


def _wrap(paragraph: str) -> Iterator[tuple[str, bool]]:
    """Break a paragraph into lines of the text width; the flag tells the last one."""
    line: list[str] = []
    used = 0.0
    for word in paragraph.split():
        if line and used + _width(word, _BODY_SIZE) > _TEXT_WIDTH:
            yield " ".join(line), False
            line, used = [], 0.0
        line.append(word)
        used += _width(f"{word} ", _BODY_SIZE)
    yield " ".join(line), True


def _body_lines(paragraphs: Sequence[str]) -> list[tuple[str, bool]]:
    lines: list[tuple[str, bool]] = []
    for paragraph in paragraphs:
        lines += [*_wrap(paragraph), ("", True)]
    return lines


def _text(font: str, size: float, x: float, y: float, text: str, *, word_gap: float = 0) -> bytes:
    shown = _literal(text)
    return b"BT /%s %g Tf %.3f Tw 1 0 0 1 %.2f %.2f Tm %s Tj ET\n" % (font.encode(), size, word_gap, x, y, shown)


def _page_content(title: str, lines: Sequence[tuple[str, bool]], number: int, count: int) -> bytes:
    top = _PAGE_HEIGHT - _MARGIN
    out = [b"0.13 0.24 0.42 rg\n", _text("F2", 15, _MARGIN, top, title), b"0.13 0.24 0.42 RG 0.8 w\n"]
    out += [b"%d %d m %d %d l S\n0 g\n" % (_MARGIN, top - 9, _PAGE_WIDTH - _MARGIN, top - 9)]
    y = top - 36
    for line, is_last in lines:
        gaps = line.count(" ")
        slack = 0.0 if is_last or not gaps else (_TEXT_WIDTH - _width(line, _BODY_SIZE)) / gaps
        font = "F2" if line.startswith("CLÁUSULA") else "F1"
        if line:
            out.append(_text(font, _BODY_SIZE, _MARGIN, y, line, word_gap=0 if font == "F2" else slack))
        y -= _LEADING
    foot = f"Página {number} de {count}"
    out.append(b"0.45 g\n" + _text("F1", 8, _PAGE_WIDTH - _MARGIN - _width(foot, 8), _MARGIN / 2, foot))
    return b"".join(out)


def _stream(dictionary: bytes, content: bytes, *, compressed: bool) -> bytes:
    if compressed:
        content = zlib.compress(content)
        dictionary += b" /Filter /FlateDecode"
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (dictionary.strip(), len(content), content)


def _pages_of_text(title: str, pages: int, paragraphs: Sequence[str] | None, seed: int) -> list[bytes]:
    if paragraphs is not None:
        lines = _body_lines(paragraphs)
        pages = max(pages, -(-len(lines) // _LINES_PER_PAGE))
    else:
        clauses = contract_clauses(seed)
        lines = []
        while len(lines) < pages * _LINES_PER_PAGE:
            lines += _body_lines([next(clauses)])
    cut = [lines[at * _LINES_PER_PAGE : (at + 1) * _LINES_PER_PAGE] for at in range(pages)]
    return [_page_content(title, part, number, pages) for number, part in enumerate(cut, 1)]


def _body(title: str, contents: Sequence[bytes], object_count: int, filler: bytes | None) -> _Body:
    count = len(contents)
    catalog, tree, info, regular, bold = 1, 2, 3, 4, 5
    page_at = [6 + 2 * at for at in range(count)]
    objects = [b""] * 5
    streams: set[int] = set()
    kids = b" ".join(b"%d 0 R" % number for number in page_at)
    for number, content in zip(page_at, contents, strict=True):
        objects.append(
            b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R "
            b"/Resources << /Font << /F1 %d 0 R /F2 %d 0 R >> >> >>"
            % (tree, _PAGE_WIDTH, _PAGE_HEIGHT, number + 1, regular, bold)
        )
        objects.append(_stream(b"", content, compressed=True))
        streams.add(number + 1)
    extra = b""
    if filler is not None:
        objects.append(_stream(b"", filler, compressed=False))
        streams.add(len(objects))
        extra += b" /TestFiller %d 0 R" % len(objects)
    first = len(objects) + 1
    missing = object_count - len(objects) - 1
    if missing > 0:
        objects += [b"<< /Number %d /Label (test object) >>" % number for number in range(missing)]
        members = b" ".join(b"%d 0 R" % number for number in range(first, first + missing))
        objects.append(b"[%s]" % members)
        extra += b" /TestObjects %d 0 R" % len(objects)
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /%s /Encoding /WinAnsiEncoding >>"
    objects[catalog - 1] = b"<< /Type /Catalog /Pages %d 0 R%s >>" % (tree, extra)
    objects[tree - 1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count)
    objects[info - 1] = b"<< /Title %s /CreationDate (D:20260302090000-03'00') >>" % _literal(title)
    objects[regular - 1], objects[bold - 1] = font % b"Helvetica", font % b"Helvetica-Bold"
    return _Body(objects, streams, catalog, info)


def _identity(seed: int) -> bytes:
    value = random.Random(f"identity {seed}").randbytes(16).hex().encode()
    return b"[<%s> <%s>]" % (value, value)


def _tail(start: int, size: int, size_bytes: int | None) -> bytes:
    """Close the file; a comment before `startxref` makes up the exact size without moving an object."""
    end = b"startxref\n%d\n%%%%EOF\n" % start
    gap = 0 if size_bytes is None else size_bytes - size - len(end)
    if gap == 0 or size_bytes is None:
        return end
    return b"%" + b"-" * (gap - 2) + b"\n" + end


def _write_classic(body: _Body, seed: int, size_bytes: int | None) -> bytes:
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, content in enumerate(body.objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start, count = len(out), len(body.objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % count
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = (count, body.root, body.info, _identity(seed))
    out += b"trailer\n<< /Size %d /Root %d 0 R /Info %d 0 R /ID %s >>\n" % trailer
    return bytes(out + _tail(start, len(out), size_bytes))


def _write_streams(body: _Body, seed: int, size_bytes: int | None) -> bytes:
    out = bytearray(b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n")
    rows: dict[int, tuple[int, int, int]] = {0: (0, 0, 65535)}
    packed = [number for number in range(1, len(body.objects) + 1) if number not in body.streams]
    for number in sorted(body.streams):
        rows[number] = (1, len(out), 0)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body.objects[number - 1])
    number = len(body.objects)
    for at in range(0, len(packed), _OBJECTS_PER_STREAM):
        members = packed[at : at + _OBJECTS_PER_STREAM]
        number += 1
        index, content = b"", b""
        for place, member in enumerate(members):
            rows[member] = (2, number, place)
            index += b"%d %d " % (member, len(content))
            content += body.objects[member - 1] + b"\n"
        rows[number] = (1, len(out), 0)
        head = b"/Type /ObjStm /N %d /First %d" % (len(members), len(index))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, _stream(head, index + content, compressed=True))
    number += 1
    start = len(out)
    rows[number] = (1, start, 0)
    table = b"".join(
        kind.to_bytes(1) + second.to_bytes(4) + third.to_bytes(2) for _, (kind, second, third) in sorted(rows.items())
    )
    head = b"/Type /XRef /Size %d /W [1 4 2] /Root %d 0 R /Info %d 0 R /ID %s" % (
        number + 1,
        body.root,
        body.info,
        _identity(seed),
    )
    out += b"%d 0 obj\n%s\nendobj\n" % (number, _stream(head, table, compressed=True))
    return bytes(out + _tail(start, len(out), size_bytes))


def pdf_file(
    *,
    pages: int = 1,
    title: str = "Contrato de prestação de serviços",
    paragraphs: Sequence[str] | None = None,
    cross_reference: CrossReference = CrossReference.CLASSIC,
    object_count: int = 0,
    size_bytes: int | None = None,
    seed: int = 0,
) -> bytes:
    """Build a PDF of justified text; the same arguments give the same bytes.

    Without `paragraphs` the pages carry contract clauses chosen by `seed`; with them, as many pages as they need.
    `object_count` is the least number of objects. `size_bytes` is met exactly by a stream that does not compress;
    raises `ValueError` when the pages alone are larger.
    """
    contents = _pages_of_text(textwrap.shorten(title, 48, placeholder="…"), pages, paragraphs, seed)
    write = _write_classic if cross_reference is CrossReference.CLASSIC else _write_streams
    if size_bytes is None:
        return write(_body(title, contents, object_count, None), seed, None)
    noise = random.Random(f"filler {seed}")
    least = len(write(_body(title, contents, object_count, b""), seed, None))
    if size_bytes < least + _SLACK_BYTES:
        raise ValueError(f"{pages} pages need {least + _SLACK_BYTES} bytes, {size_bytes} were asked for")
    filler = noise.randbytes(size_bytes - least - _SLACK_BYTES)
    return write(_body(title, contents, object_count, filler), seed, size_bytes)
