"""PDF files that are unusual, protected, signed before or broken, each with what must come of it (BEY-11).

Files are laid out by `pdf_sample` or by hand; pyHanko, which is not under test here, encrypts and signs them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import attrs
from pyhanko.pdf_utils.crypt import StandardSecurityHandler, StandardSecuritySettingsRevision
from pyhanko.pdf_utils.crypt.permissions import StandardPermissions
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.pdf_utils.writer import copy_into_new_writer

from bulksigner.testing.pdf_sample import PdfSample, stream_object

__all__ = ["ALLOWING", "AWKWARD", "CERTIFIED", "PROTECTIONS", "RESTRICTING", "Awkward", "protect"]

CERTIFIED = (
    b"/Perms <</DocMDP <</Type /Sig /Reference [<</Type /SigRef /TransformMethod /DocMDP"
    b" /TransformParams <</Type /TransformParams /V /1.2 /P %d>>>>]>>>>"
)
_PAGE = b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 11 0 R %b>>"
_NOTE = b"<</Type /Annot /Subtype /Text /Rect [0 0 9 9] /Contents (note)>>"

ALLOWING = StandardPermissions.allow_everything()
RESTRICTING = StandardPermissions.ALLOW_PRINTING | StandardPermissions.TOLERATE_MISSING_PDF_MAC
PROTECTIONS = ("rc4-40", "rc4-128", "aes-128", "aes-256")


@attrs.frozen
class Awkward:
    """A file, and the words of its refusal and its place; None for both where it must be signed."""

    make: Callable[[], bytes]
    refusal: str | None = None
    place: str | None = None


def protect(
    content: bytes,
    kind: str,
    *,
    user: str = "",
    permissions: StandardPermissions = ALLOWING,
    owner: str = "owner",
    sealed: bool = False,
) -> bytes:
    """Encrypt a file anew by one of `PROTECTIONS`; without a `user` password anybody can open it."""
    writer = copy_into_new_writer(PdfFileReader(io.BytesIO(content)))
    if kind == "aes-256":
        handler = StandardSecurityHandler.build_from_pw(owner, user, perms=permissions, pdf_mac=sealed)
    else:
        revision = {
            "rc4-40": StandardSecuritySettingsRevision.RC4_BASIC,
            "rc4-128": StandardSecuritySettingsRevision.RC4_EXTENDED,
            "aes-128": StandardSecuritySettingsRevision.RC4_OR_AES128,
        }[kind]
        handler = StandardSecurityHandler.build_from_pw_legacy(
            revision,
            writer._document_id[0].original_bytes,
            owner,
            user,
            keylen_bytes=5 if kind == "rc4-40" else 16,
            use_aes128=kind == "aes-128",
            perms=permissions,
        )
    writer._assign_security_handler(handler)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _replaced(sample: PdfSample, pattern: bytes, by: bytes) -> Callable[[], bytes]:
    """Change bytes of a built file, the same number of them or behind the cross-reference."""

    def make() -> bytes:
        changed, count = re.subn(pattern, by, sample.build(), count=1)
        if not count:
            raise ValueError(f"the sample has no {pattern!r}")
        return changed

    return make


def _linearized() -> bytes:
    """Lay a file out for the web: the first page's cross-reference stands before the main one (Annex F)."""
    page = {
        1: b"<</Type /Catalog /Pages 2 0 R>>",
        3: _PAGE.replace(b"11 0", b"4 0") % b"",
        4: stream_object(b"BT ET"),
    }
    rest = {2: b"<</Type /Pages /Count 1 /Kids [3 0 R]>>"}
    first_length = len(b"xref\n1 1\n") + 20 + len(b"3 3\n") + 60
    head = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"

    def lay_out(length: int, main: int) -> tuple[bytes, int]:
        linear = b"<</Linearized 1 /L %010d /H [0 0] /O 3 /E %010d /N 1 /T %010d>>" % (length, main, main)
        out = bytearray(head)
        places = {5: len(out)}
        out += b"5 0 obj\n%b\nendobj\n" % linear
        first_at = len(out)
        trailer = b"trailer\n<</Size 6 /Root 1 0 R /Prev %010d /ID [<11> <22>]>>\nstartxref\n0\n%%%%EOF\n" % main
        out += b" " * first_length + trailer
        for number, body in page.items():
            places[number] = len(out)
            out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
        rows = [b"xref\n1 1\n%010d 00000 n \n3 3\n" % places[1]]
        rows += [b"%010d 00000 n \n" % places[number] for number in (3, 4, 5)]
        out[first_at : first_at + first_length] = b"".join(rows)
        places[2] = len(out)
        out += b"2 0 obj\n%b\nendobj\n" % rest[2]
        main = len(out)
        out += b"xref\n0 1\n0000000000 65535 f \n2 1\n%010d 00000 n \ntrailer\n<</Size 3>>\n" % places[2]
        return bytes(out) + b"startxref\n%d\n%%%%EOF\n" % first_at, main

    content, main = lay_out(0, 0)
    return lay_out(len(content), main)[0]


def _updated(times: int, layout: str = "classic") -> bytes:
    """Give a file as many updates, each with a table of one object."""
    content = PdfSample(layout=layout, trailer=b"/Info 8 0 R", objects={8: b"<<>>"}).build()
    size = int(re.findall(rb"/Size (\d+)", content)[-1])
    for number in range(times):
        previous = int(re.findall(rb"startxref\n(\d+)", content)[-1])
        place = len(content)
        content += b"8 0 obj\n<</Title (version %d)>>\nendobj\n" % number
        start = len(content)
        content += b"xref\n8 1\n%010d 00000 n \n" % place
        content += b"trailer\n<</Size %d /Root 1 0 R /Info 8 0 R /Prev %d /ID [<%b> <22>]>>\n" % (
            size,
            previous,
            b"11" * 16,
        )
        content += b"startxref\n%d\n%%%%EOF\n" % start
    return content


def _by_hand(
    objects: dict[tuple[int, int], bytes],
    *,
    root: bytes = b"1 0 R",
    free: dict[int, tuple[int, int]] | None = None,
    end_of_line: bytes = b"\n",
    trailer: bytes = b"",
    size: int | None = None,
    endings: bytes = b"endobj\n",
    rows: dict[int, bytes] | None = None,
) -> bytes:
    """Write objects of any generation with a table of 20-byte entries; `free` has next free number and generation.

    `rows` are written to the table in place of what is true.
    """
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".replace(b"\n", end_of_line))
    table = {number: b"%010d %05d f" % entry for number, entry in (free or {0: (0, 65535)}).items()}
    for (number, generation), body in objects.items():
        table[number] = b"%010d %05d n" % (len(out), generation)
        out += (b"%d %d obj\n%b\n" % (number, generation, body) + endings).replace(b"\n", end_of_line)
    start = len(out)
    table = dict.fromkeys(range(max(table) + 1), b"0000000000 65535 f") | table | (rows or {})
    out += (b"xref\n0 %d\n" % len(table)).replace(b"\n", end_of_line)
    out += b"".join(table[number] + (b" " + end_of_line)[-2:] for number in sorted(table))
    tail = b"trailer\n<</Size %d /Root %b %b>>\nstartxref\n%d\n%%%%EOF\n"
    return bytes(out) + (tail % (size or len(table), root, trailer, start)).replace(b"\n", end_of_line)


def _small(page: bytes = b"", catalog: bytes = b"") -> dict[tuple[int, int], bytes]:
    return {
        (1, 0): b"<</Type /Catalog /Pages 2 0 R %b>>" % catalog,
        (2, 0): b"<</Type /Pages /Count 1 /Kids [3 0 R] /MediaBox [0 0 595 842] /Resources <<>>>>",
        (3, 0): b"<</Type /Page /Parent 2 0 R %b>>" % page,
    }


def _generations() -> bytes:
    """Free an object in one update and use its number again, one generation later, in the next."""
    content = _by_hand(_small() | {(4, 0): b"<<>>"}, trailer=b"/ID [<11> <22>]")
    for rows, objects in (
        (b"0000000000 00001 f \n", b""),
        (b"%010d 00001 n \n", b"4 1 obj\n<</Again true>>\nendobj\n"),
    ):
        previous = int(re.findall(rb"startxref\n(\d+)", content)[-1])
        start = len(content) + len(objects)
        row = rows % len(content) if objects else rows
        content += (
            objects + b"xref\n4 1\n" + row + b"trailer\n<</Size 5 /Root 1 0 R /Prev %d /ID [<11> <22>]>>\n" % previous
        )
        content += b"startxref\n%d\n%%%%EOF\n" % start
    return content


def _deep_pages(depth: int) -> bytes:
    objects = {(1, 0): b"<</Type /Catalog /Pages 2 0 R>>"}
    for number in range(2, depth + 2):
        parent = b"/Parent %d 0 R" % (number - 1) if number > 2 else b""
        objects[number, 0] = b"<</Type /Pages /Count 1 /Kids [%d 0 R] %b>>" % (number + 1, parent)
    objects[depth + 2, 0] = b"<</Type /Page /Parent %d 0 R /MediaBox [0 0 9 9]>>" % (depth + 1)
    return _by_hand(objects)


def _many_pages(count: int) -> bytes:
    kids = b" ".join(b"%d 0 R" % (number + 3) for number in range(count))
    objects = {
        (1, 0): b"<</Type /Catalog /Pages 2 0 R>>",
        (2, 0): b"<</Type /Pages /Count %d /Kids [%b]>>" % (count, kids),
    }
    objects |= {(number + 3, 0): b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 9 9]>>" for number in range(count)}
    return _by_hand(objects)


def _archival(part: int) -> Callable[[], bytes]:
    """Claim conformance to a part of PDF/A in metadata that nothing compresses, as the standard asks."""
    claim = (
        b'<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/">'
        b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""'
        b' xmlns:pdfaid="http://www.aiim.org/pdfa/ns/id/"><pdfaid:part>%d</pdfaid:part>'
        b"<pdfaid:conformance>B</pdfaid:conformance></rdf:Description></rdf:RDF></x:xmpmeta>"
        b'<?xpacket end="w"?>' % part
    )
    objects = {8: stream_object(claim, b"/Type /Metadata /Subtype /XML")}
    return PdfSample(version="1.4" if part == 1 else "1.7", catalog=b"/Metadata 8 0 R", objects=objects).build


def _form(entries: bytes, objects: dict[int, bytes] | None = None, layout: str = "classic") -> Callable[[], bytes]:
    return PdfSample(layout=layout, catalog=b"/AcroForm <<%b>>" % entries, objects=objects or {}).build


def _page_with(entries: bytes, objects: dict[int, bytes] | None = None, layout: str = "classic") -> Callable[[], bytes]:
    return PdfSample(layout=layout, objects={10: _PAGE % entries, **(objects or {})}).build


_FIELD = b"<</FT /Tx /T (%b) /Parent 7 0 R>>"
_PLAIN, _STREAMS, _HYBRID = PdfSample(), PdfSample(layout="streams"), PdfSample(layout="hybrid")

AWKWARD: dict[str, Awkward] = {
    "table": Awkward(_PLAIN.build),
    "streams": Awkward(_STREAMS.build),
    "streams of 600 objects": Awkward(PdfSample(layout="streams", extra_objects=600).build),
    "hybrid": Awkward(_HYBRID.build),
    "linearized": Awkward(_linearized),
    "20 updates": Awkward(lambda: _updated(20)),
    "a table over streams": Awkward(lambda: _updated(1, "streams")),
    "PDF 1.0": Awkward(PdfSample(version="1.0").build),
    "PDF 2.0": Awkward(PdfSample(version="2.0").build),
    "PDF 2.0 in streams": Awkward(PdfSample(version="2.0", layout="streams", form="indirect").build),
    "no identity": Awkward(lambda: _by_hand(_small())),
    "line ends CR": Awkward(lambda: _by_hand(_small(), end_of_line=b"\r")),
    "line ends CRLF": Awkward(lambda: _by_hand(_small(), end_of_line=b"\r\n")),
    "comments": Awkward(
        lambda: _by_hand(
            {
                (1, 0): b"%(>>\n<<%]\n/Type%x\n/Catalog /Pages%2 0 R\n2 0 R%>>\n>>%endobj",
                (2, 0): b"<</Type /Pages /Kids [%]\n3 0 R%]\n] /Count 1>>",
                (3, 0): b"<</Type /Page /MediaBox [0 0%0\n9 9] /Parent 2 0 R>>",
            }
        )
    ),
    "generations": Awkward(_generations),
    "generation without a past": Awkward(
        lambda: _by_hand(_small() | {(4, 2): b"null"}), "orphaned generation", "cross-reference"
    ),
    "free entries": Awkward(lambda: _by_hand(_small(), free={0: (5, 65535), 5: (7, 2), 7: (0, 1), 9: (0, 65535)})),
    "entry of an object at byte 0": Awkward(
        lambda: _by_hand(_small() | {(4, 0): b"null"}, rows={4: b"0000000000 00000 n"})
    ),
    "entry of an object beyond 4 GiB": Awkward(
        lambda: _by_hand(_small() | {(4, 0): b"null"}, rows={4: b"9999999999 00000 n"})
    ),
    "indirect /Length": Awkward(
        PdfSample(objects={8: b"30", 11: b"<</Length 8 0 R>>\nstream\n" + b"q Q " * 7 + b"q \nendstream"}).build
    ),
    "junk of 500 bytes after the end": Awkward(lambda: _PLAIN.build() + b"\0" * 500),
    "text after the end": Awkward(lambda: _PLAIN.build() + b"<html>sent by mail</html>\n"),
    "inherited page entries": Awkward(lambda: _by_hand(_small())),
    "10,000 pages": Awkward(lambda: _many_pages(10_000)),
    "40 levels of pages": Awkward(lambda: _deep_pages(40)),
    "rotated page": Awkward(_page_with(b"/Rotate 270")),
    "annotations in an indirect array": Awkward(_page_with(b"/Annots 8 0 R", {8: b"[9 0 R]", 9: _NOTE})),
    "annotations in an object stream": Awkward(_page_with(b"/Annots 8 0 R", {8: b"[9 0 R]", 9: _NOTE}, "streams")),
    "annotations in a hybrid file": Awkward(_page_with(b"/Annots 8 0 R", {8: b"[9 0 R]", 9: _NOTE}, "hybrid")),
    "annotations are null": Awkward(_page_with(b"/Annots null")),
    "annotations refer to null": Awkward(_page_with(b"/Annots 8 0 R", {8: b"null"})),
    "empty form": Awkward(_form(b"")),
    "form is null": Awkward(PdfSample(catalog=b"/AcroForm null").build),
    "form refers to nothing": Awkward(PdfSample(catalog=b"/AcroForm 8 0 R").build, "not found", "form"),
    "fields are null": Awkward(_form(b"/Fields null /DA (/F 0 Tf)")),
    "fields refer to null": Awkward(_form(b"/Fields 8 0 R", {8: b"null"})),
    "fields": Awkward(PdfSample(form="indirect").build),
    "fields in streams": Awkward(PdfSample(form="indirect", layout="streams").build),
    "fields in a hybrid file": Awkward(PdfSample(form="indirect", layout="hybrid").build),
    "fields without names": Awkward(_form(b"/Fields [8 0 R]", {8: b"<</FT /Tx>>"})),
    "fields in levels": Awkward(
        _form(
            b"/Fields [7 0 R]",
            {7: b"<</T (Signature1) /Kids [8 0 R 9 0 R]>>", 8: _FIELD % b"a", 9: _FIELD % b"Signature2"},
        )
    ),
    "fields in a circle": Awkward(
        _form(b"/Fields [7 0 R]", {7: b"<</T (a) /Kids [7 0 R 9 0 R]>>", 9: _FIELD % b"b"}),
        "in a circle",
        "form, /Fields",
    ),
    "100 levels of fields": Awkward(
        _form(
            b"/Fields [20 0 R]",
            {number: b"<</T (a) /Kids [%d 0 R]>>" % (number + 1) for number in range(20, 120)} | {120: b"<</FT /Tx>>"},
        ),
        "more than 64 levels",
        "form, /Fields",
    ),
    "appearances to be made": Awkward(_form(b"/Fields [] /NeedAppearances true")),
    "signature field that waits": Awkward(
        _form(b"/Fields [8 0 R] /SigFlags 1", {8: b"<</FT /Sig /T (Signature1) /Subtype /Widget /Rect [0 0 0 0]>>"})
    ),
    "XFA": Awkward(_form(b"/Fields [] /XFA [(template) 8 0 R]", {8: stream_object(b"<template/>")})),
    "rights of use": Awkward(PdfSample(catalog=b"/Perms <</UR3 <</Type /Sig /Filter /Adobe.PPKLite>>>>").build),
    "PDF/A-1b": Awkward(_archival(1)),
    "PDF/A-2b": Awkward(_archival(2)),
    "PDF/A-3b": Awkward(_archival(3)),
    "other extensions": Awkward(
        PdfSample(catalog=b"/Extensions 8 0 R", objects={8: b"<</ADBE <</BaseVersion /1.7 /ExtensionLevel 3>>>>"}).build
    ),
    "permissions are null": Awkward(PdfSample(catalog=b"/Perms null").build),
    "certified 2": Awkward(PdfSample(catalog=CERTIFIED % 2).build),
    "certified 3": Awkward(PdfSample(catalog=CERTIFIED % 3).build),
    "certified 1": Awkward(PdfSample(catalog=CERTIFIED % 1).build, "DocMDP, level 1", "catalog, /Perms /DocMDP"),
    "size too small": Awkward(lambda: _by_hand(_small(), size=2), "size mismatch", "cross-reference"),
    "size too large": Awkward(lambda: _by_hand(_small(), size=5000)),
    "no endobj": Awkward(lambda: _by_hand(_small(), endings=b""), "Expected endobj", "document catalog"),
    "no pages": Awkward(PdfSample(pages=0).build, "no pages", "page tree, /Count"),
    "1,500 levels of pages": Awkward(lambda: _deep_pages(1500), "page tree", "page tree"),
    "pages in a circle": Awkward(
        PdfSample(objects={2: b"<</Type /Pages /Count 1 /Kids [2 0 R]>>"}).build, "page tree", "page tree"
    ),
    "first page is missing": Awkward(
        PdfSample(objects={2: b"<</Type /Pages /Count 1 /Kids [99 0 R]>>"}).build, "page tree", "page tree"
    ),
    "not a PDF": Awkward(lambda: b"CNAB240" * 50, "not a PDF", "byte 0"),
    "junk before the header": Awkward(lambda: b"\xef\xbb\xbf" + _PLAIN.build(), "junk before its header", "byte 0"),
    "junk of 3,000 bytes after the end": Awkward(lambda: _PLAIN.build() + b"\0" * 3000, "cut off or damaged"),
    "cut off": Awkward(lambda: _PLAIN.build()[:-30], "cut off or damaged"),
    "pointer beyond the end": Awkward(_replaced(_PLAIN, rb"startxref\n\d+", b"startxref\n9999999999"), "9999999999"),
    "pointer into an object": Awkward(
        _replaced(_PLAIN, rb"startxref\n\d+", b"startxref\n20"), "cross-reference", "cross-reference"
    ),
    "table in a circle": Awkward(
        lambda: re.sub(rb"/Size", b"/Prev %d /Size" % _PLAIN.build().index(b"xref\n"), _PLAIN.build(), count=1),
        "cross-reference",
        "cross-reference",
    ),
    "table before in a circle": Awkward(
        lambda: _updated(1).replace(
            b"trailer\n<</Size", b"trailer\n<</Prev %d /Size" % _updated(1).rindex(b"xref\n8"), 1
        ),
        "cross-reference",
        "cross-reference",
    ),
    # pyHanko finds it; the check, which is stricter, would not.
    "cross-reference of a number without end": Awkward(
        _replaced(PdfSample(form="indirect", layout="streams"), rb"\d+(?= 0 obj\n<</Type /XRef)", b"1" * 32),
        "no cross-reference at byte",
    ),
    "object at a wrong place": Awkward(
        _replaced(_PLAIN, rb"%\xe2\xe3\xcf\xd3\n", b"%\xe2\xe3\xcf\xd3\n\n\n\n"), "damaged"
    ),
    "root of another generation": Awkward(lambda: _by_hand(_small(), root=b"1 9 R"), "not found", "document catalog"),
    "page beyond 4 GiB": Awkward(lambda: _by_hand(_small(), rows={3: b"9999999999 00000 n"}), "page tree", "page tree"),
}
