"""The own append path: the update that adds an empty signature to an ordinary PDF, written as text (PERF-03).

It does what `pdf_update` does through pyHanko, at a tenth of the cost, for files that have nothing unusual: no
encryption, no hybrid cross-reference, no permissions, locks or XFA, no claim of PDF/A, fields without children.
Whatever it does not know for certain it leaves to pyHanko, also what is to be refused. Objects that change are written
anew with all their entries as they were.
"""

from __future__ import annotations

import datetime
import io
import re
import secrets
from typing import Protocol

from bulksigner.formats.model import CheckFailed
from bulksigner.formats.pades_check import require_readable
from bulksigner.formats.pdf_base import Base
from bulksigner.formats.pdf_tokens import (
    Entries,
    Unusual,
    integer_of,
    members_of,
    read_entries,
    reference_of,
    write_entries,
)

__all__ = ["Empty", "append_ordinary"]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9._]+")
_VERSION = re.compile(rb"/(\d\.\d)")
_STRING = re.compile(rb"<[0-9A-Fa-f]+>|\([^\\]*\)")
_CLAIM = re.compile(rb"pdfaid", re.IGNORECASE)
_ESIC = b"<</Type /DeveloperExtensions /BaseVersion /1.7 /ExtensionLevel 1>>"
_ESIC_WRITTEN = re.compile(rb"<<\s*/Type\s*/DeveloperExtensions\s*/BaseVersion\s*/1\.7\s*/ExtensionLevel\s*1\s*>>")
_BYTE_RANGE_CHARACTERS = 48
_SIGNATURES_EXIST_APPEND_ONLY = b"3"
_PRINT_AND_LOCKED = 0b1000_0100
_MOST_FIELDS = 64
# Readers know objects up to 8,388,607 (ISO 32000-1 Annex C); an update adds fewer than twenty.
_MOST_SIZE = 8_388_588
_MOST_LEVELS = 24
_NOT_IN_A_CATALOG = frozenset({b"/Perms", b"/DSS"})
_NOT_IN_A_FORM = frozenset({b"/XFA", b"/NeedAppearances"})
_NOT_IN_A_FIELD = frozenset({b"/Kids", b"/Lock", b"/Parent"})


class Empty(Protocol):
    """What goes into the signature dictionary, and how many bytes of CMS to keep room for."""

    @property
    def field_name(self) -> str: ...
    @property
    def filter(self) -> str: ...
    @property
    def sub_filter(self) -> str: ...
    @property
    def signed_at(self) -> datetime.datetime | None: ...
    @property
    def reserved_bytes(self) -> int: ...


def append_ordinary(document: io.BytesIO, signature: Empty) -> tuple[int, int] | None:
    """Append the update and return the offsets of `/Contents`, as `append_signature` does.

    None where the file is not ordinary; it is as it was then.
    """
    length = document.seek(0, io.SEEK_END)
    try:
        with document.getbuffer() as content:
            update = _Update(Base(content), length, content[-1] in b"\r\n", signature)
        place = update.write(document)
        with document.getbuffer() as content:
            require_readable(content, length)
    except (Unusual, CheckFailed):
        document.truncate(length)
        return None
    return place


class _Update:
    """The objects of one update by number, and where the signature is in its own."""

    def __init__(self, base: Base, length: int, ends_line: bool, signature: Empty) -> None:
        if not all(map(_PLAIN_NAME.fullmatch, (signature.field_name, signature.filter, signature.sub_filter))):
            raise Unusual("a name that needs escapes")
        self._base = base
        self._start = length if ends_line else length + 1
        self._lead = b"" if ends_line else b"\n"
        self._objects: dict[int, bytes] = {}
        if base.size > _MOST_SIZE:
            raise Unusual("numbers that no object has")
        self._next = base.size
        self._identity = _identity(base.trailer.get(b"/ID"))
        root = reference_of(base.trailer[b"/Root"])
        catalog = base.dictionary(root)
        if catalog.get(b"/Type") != b"/Catalog" or not _NOT_IN_A_CATALOG.isdisjoint(catalog):
            raise Unusual("catalog")
        self._require_no_claim(catalog)
        page, page_entries = self._first_page(catalog)
        self._value = self._add(_signature_dictionary(signature))
        field = self._add(_field(signature, page, self._value))
        self._annotate(page, page_entries, b"%d 0 R" % field)
        before = dict(catalog)
        self._extend_form(catalog, b"%d 0 R" % field)
        self._mark(catalog)
        if catalog != before:
            self._objects[root] = write_entries(catalog)

    def write(self, document: io.BytesIO) -> tuple[int, int]:
        """Write it behind the document and fill `/ByteRange` in."""
        out = bytearray(self._lead)
        origin = self._start - len(self._lead)
        rows = {}
        for number, body in sorted(self._objects.items()):
            rows[number] = origin + len(out)
            out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
        value = rows[self._value] - origin
        start = out.index(b"/Contents <", value) + len(b"/Contents ")
        end = out.index(b">", start) + 1
        out += self._cross_reference(rows, origin + len(out))
        byte_range = b"[0 %d %d %d]" % (origin + start, origin + end, len(out) - end)
        at = out.index(b"/ByteRange ", end) + len(b"/ByteRange ")
        out[at : at + _BYTE_RANGE_CHARACTERS] = byte_range.ljust(_BYTE_RANGE_CHARACTERS)
        document.seek(0, io.SEEK_END)
        document.write(out)
        return origin + start, origin + end

    def _cross_reference(self, rows: dict[int, int], at: int) -> bytes:
        """Write a table where the file has tables alone, else a stream; both name object 0, as pyHanko's do."""
        trailer = self._base.trailer | {b"/ID": self._identity, b"/Prev": b"%d" % self._base.newest_at}
        end = b"startxref\n%d\n%%%%EOF\n" % at
        if not self._base.has_streams:
            trailer[b"/Size"] = b"%d" % self._next
            written = [
                b"%d %d\n%b" % (run[0], len(run), b"".join(b"%010d 00000 n \n" % rows[number] for number in run))
                for run in _runs(rows)
            ]
            head = b"xref\n0 1\n0000000000 65535 f \n"
            return head + b"".join(written) + b"trailer\n" + write_entries(trailer) + b"\n" + end
        number = self._next
        rows = rows | {number: at}
        index = b"".join(b" %d %d" % (run[0], len(run)) for run in _runs(rows))
        packed = b"\0\0\0\0\0\xff\xff" + b"".join(
            b"\1" + offset.to_bytes(4, "big") + b"\0\0" for _, offset in sorted(rows.items())
        )
        trailer |= {
            b"/Type": b"/XRef",
            b"/Size": b"%d" % (number + 1),
            b"/W": b"[1 4 2]",
            b"/Index": b"[0 1%b]" % index,
            b"/Length": b"%d" % len(packed),
        }
        return b"%d 0 obj\n%b\nstream\n%b\nendstream\nendobj\n" % (number, write_entries(trailer), packed) + end

    def _add(self, body: bytes) -> int:
        number = self._next
        self._objects[number] = body
        self._next += 1
        return number

    def _require_no_claim(self, catalog: Entries) -> None:
        """Leave claims of PDF/A to pyHanko: their fields need an appearance."""
        if b"/Metadata" in catalog:
            _, content = self._base.stream(reference_of(catalog[b"/Metadata"]))
            if _CLAIM.search(content) is not None:
                raise Unusual("a claim of PDF/A")

    def _first_page(self, catalog: Entries) -> tuple[int, Entries]:
        number = reference_of(catalog.get(b"/Pages", b""))
        node = self._base.dictionary(number)
        if node.get(b"/Resources", b"<<").endswith(b"R"):
            raise Unusual("resources of all pages")
        for level in range(_MOST_LEVELS):
            kind = node.get(b"/Type")
            if kind == b"/Page" and level > 0:
                return number, node
            if kind != b"/Pages" or integer_of(node.get(b"/Count", b"")) < 1:
                break
            found = re.match(rb"\[[\0\t\n\f\r ]*+([1-9]\d{0,8}[\n\r ]0[\n\r ]R)", node.get(b"/Kids", b""))
            if found is None:
                break
            number = reference_of(found[1])
            node = self._base.dictionary(number)
        raise Unusual("page tree")

    def _annotate(self, page: int, entries: Entries, reference: bytes) -> None:
        annotations = entries.get(b"/Annots")
        if annotations is None or annotations.startswith(b"["):
            entries[b"/Annots"] = _appended(annotations or b"[]", reference)
            self._objects[page] = write_entries(entries)
        else:
            number = reference_of(annotations)
            self._objects[number] = _appended(self._base.array(number), reference)

    def _extend_form(self, catalog: Entries, reference: bytes) -> None:
        written = catalog.get(b"/AcroForm")
        if written is None:
            form: Entries = {b"/Fields": b"[ %b ]" % reference, b"/SigFlags": _SIGNATURES_EXIST_APPEND_ONLY}
            catalog[b"/AcroForm"] = b"%d 0 R" % self._add(write_entries(form))
            return
        number = None if written.startswith(b"<<") else reference_of(written)
        form = read_entries(written, 0)[0] if number is None else self._base.dictionary(number)
        if not _NOT_IN_A_FORM.isdisjoint(form):
            raise Unusual("form")
        before = dict(form)
        fields = form.get(b"/Fields", b"[]")
        if fields.startswith(b"["):
            self._require_unlocked(fields)
            form[b"/Fields"] = _appended(fields, reference)
        else:
            holder = reference_of(fields)
            fields = self._base.array(holder)
            self._require_unlocked(fields)
            self._objects[holder] = _appended(fields, reference)
        form[b"/SigFlags"] = _SIGNATURES_EXIST_APPEND_ONLY
        if form == before:
            return
        if number is None:
            catalog[b"/AcroForm"] = write_entries(form)
        else:
            self._objects[number] = write_entries(form)

    def _require_unlocked(self, fields: bytes) -> None:
        """Demand fields that say nothing of others, and signatures that refer to nothing, so that nothing is locked."""
        members = members_of(fields)
        if len(members) > _MOST_FIELDS or len(set(members)) != len(members):
            raise Unusual("fields")
        for member in members:
            field = self._base.dictionary(reference_of(member))
            kind, name, value = (field.get(key, b"") for key in (b"/FT", b"/T", b"/V"))
            if not _NOT_IN_A_FIELD.isdisjoint(field) or not kind.startswith(b"/") or not name.startswith((b"(", b"<")):
                raise Unusual("a field")
            if value.endswith(b"R") and b"/Reference" in self._base.dictionary(reference_of(value)):
                raise Unusual("a signature that may lock")
            if value.startswith(b"<<"):
                raise Unusual("a signature inside its field")

    def _mark(self, catalog: Entries) -> None:
        """Say that the file is PDF 1.7 at least, and has a PAdES signature (ETSI EN 319 142-1 5.5)."""
        version = self._base.version
        if b"/Version" in catalog:
            found = _VERSION.fullmatch(catalog[b"/Version"])
            if found is None:
                raise Unusual("version")
            version = found[1]
        if version < b"1.7":
            catalog[b"/Version"] = b"/1.7"
        if version >= b"2.0":
            return
        extensions, _ = read_entries(catalog.get(b"/Extensions", b"<<>>"), 0)
        if b"/ESIC" not in extensions:
            extensions[b"/ESIC"] = _ESIC
            catalog[b"/Extensions"] = write_entries(extensions)
        elif _ESIC_WRITTEN.fullmatch(extensions[b"/ESIC"]) is None:
            raise Unusual("extension")


def _signature_dictionary(signature: Empty) -> bytes:
    if signature.signed_at is None:
        raise Unusual("a signature without a time")
    moment = signature.signed_at.astimezone(datetime.UTC)
    time = f"D:{moment.year:04}{moment:%m%d%H%M%S}+00'00'"
    names = f"/Type /Sig\n/Filter /{signature.filter}\n/SubFilter /{signature.sub_filter}\n"
    room = b"0" * (2 * signature.reserved_bytes)
    blank = b" " * _BYTE_RANGE_CHARACTERS
    return b"<<\n%b/Contents <%b>\n/ByteRange %b\n/M (%b)\n>>" % (names.encode(), room, blank, time.encode())


def _field(signature: Empty, page: int, value: int) -> bytes:
    entries = f"/FT /Sig\n/T ({signature.field_name})\n/Type /Annot\n/Subtype /Widget\n/F {_PRINT_AND_LOCKED}\n"
    return f"<<\n{entries}/Rect [ 0 0 0 0 ]\n/P {page} 0 R\n/V {value} 0 R\n>>".encode()


def _appended(array: bytes, member: bytes) -> bytes:
    return b"%b %b ]" % (array[:-1].rstrip(b"\0\t\n\f\r "), member)


def _identity(before: bytes | None) -> bytes:
    """Keep the first part, which names the document, and draw the second anew, which names its version (14.4)."""
    first = b"<%b>" % secrets.token_hex(16).encode()
    if before is not None:
        members = members_of(before)
        if len(members) != 2 or _STRING.fullmatch(members[0]) is None:
            raise Unusual("identity")
        first = members[0]
    return b"[ %b <%b> ]" % (first, secrets.token_hex(16).encode())


def _runs(numbers: dict[int, int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs
