"""The one door to pyHanko: an incremental update of a PDF that adds an empty signature (ISO 32000-1 12.7.4.5, 12.8).

Importing this module takes a third of a second, which `pades` spends when a signer is made.
"""

from __future__ import annotations

import datetime
import io
import re
from typing import Any

import attrs
from pyhanko.pdf_utils import generic
from pyhanko.pdf_utils.extensions import DeveloperExtension, DevExtensionMultivalued
from pyhanko.pdf_utils.generic import pdf_name
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader

from bulksigner.formats.model import CheckFailed, FormatRefused, PdfRules
from bulksigner.formats.pades_check import require_readable
from bulksigner.formats.pdf_claims import archival_claim
from bulksigner.formats.pdf_locks import require_uncertified, require_unlocked, signed_fields
from bulksigner.formats.pdf_protection import open_protected
from bulksigner.formats.stamp import Stamp
from bulksigner.formats.stamp_place import Spot, find_spot

__all__ = ["EmptySignature", "append_signature", "end_last_line", "entry_of", "open_update"]

# ETSI EN 319 142-1 5.5 asks for this mark of a PAdES signature in a PDF 1.7.
_ESIC = DeveloperExtension(
    prefix_name=pdf_name("/ESIC"),
    base_version=pdf_name("/1.7"),
    extension_level=1,
    compare_by_level=True,
    multivalued=DevExtensionMultivalued.NEVER,
)
_BYTE = re.compile(r"byte \d+")
_BYTE_RANGE_CHARACTERS = 48
# Readers know objects up to 8,388,607 (ISO 32000-1 Annex C); an update adds fewer than twenty.
_MOST_SIZE = 8_388_588
_PRINT_AND_LOCKED = 0b1000_0100
_SIGNATURES_EXIST_APPEND_ONLY = 3


@attrs.frozen
class EmptySignature:
    """What goes into the signature dictionary, and how many bytes of CMS to keep room for.

    Without `signed_at` it is that of a document time stamp.
    """

    field_name: str
    filter: str
    sub_filter: str
    signed_at: datetime.datetime | None
    reserved_bytes: int
    stamp: Stamp | None = None
    """What is shown of it on a page; None for nothing."""


def append_signature(
    document: io.BytesIO, signature: EmptySignature, rules: PdfRules, *, is_repaired: bool = False
) -> tuple[int, int]:
    """Append the update to `document` and return the offsets of `/Contents` from `<` to after `>`.

    `/ByteRange` is filled in. Raises `FormatRefused` for whatever the PDF does not allow or pyHanko cannot read.
    """
    place = "cross-reference"
    before = document.seek(0, io.SEEK_END)
    try:
        reader = PdfFileReader(document, strict=True)
        if "/Encrypt" in reader.trailer:
            place = "trailer, /Encrypt"
            open_protected(reader, rules)
        place = "document catalog"
        writer = _Update(document, prev=reader)
        _require_numbers(int(reader.trailer["/Size"]))
        require_uncertified(writer.root, entry_of)
        place = "page tree"
        spot = _choose_spot(writer, signature)
        place = "form"
        if is_repaired and any(signed_fields(writer.root, entry_of)):
            raise FormatRefused("The PDF is signed and would need repair.", place="form")
        name = signature.field_name if spot.field is None else str(spot.field["/T"])
        require_unlocked(writer.root, name, entry_of)
        contents, byte_range = _add_field(writer, signature, spot)
        place = "object written again"
        end_last_line(document)
        writer.write_in_place()
    except FormatRefused:
        raise
    except Exception as error:
        # pyHanko lets through whatever a malformed file provokes: AssertionError, RecursionError, TypeError.
        raise FormatRefused(
            f"The PDF is damaged ({place}): {_describe(error)}.", place=place, remedy="Repair the file and submit it."
        ) from error
    start, end = contents.offset, contents.offset + len(contents.encoded)
    length = document.seek(0, io.SEEK_END)
    document.seek(byte_range.offset)
    document.write(f"[0 {start} {end} {length - end}]".encode().ljust(_BYTE_RANGE_CHARACTERS))
    if signature.signed_at is not None:
        _require_readable(document, before, rules)
    return start, end


def open_update(document: io.BytesIO, rules: PdfRules) -> Any:
    """Return the writer of one more update of a document that this process signed; raises `FormatRefused`."""
    reader = PdfFileReader(document, strict=True)
    if "/Encrypt" in reader.trailer:
        open_protected(reader, rules)
    return _Update(document, prev=reader)


def _require_numbers(size: int) -> None:
    """Refuse a file whose new objects would have numbers that readers do not know."""
    if size > _MOST_SIZE:
        raise FormatRefused(
            f"The PDF says that it has {size} objects (trailer, /Size); those that a signature adds would have numbers "
            "that readers do not know.",
            place="trailer, /Size",
            remedy="Have the file written anew by a PDF program and submit it.",
        )


def _require_readable(document: io.BytesIO, original_length: int, rules: PdfRules) -> None:
    """Refuse, before the key is used, what pyHanko reads and the check would not."""
    with document.getbuffer() as content:
        try:
            require_readable(content, original_length, rules.choice.passwords)
        except CheckFailed as failed:
            byte = _BYTE.search(failed.message)
            raise FormatRefused(
                failed.message, place=byte[0] if byte else "document", remedy="Repair the file and submit it."
            ) from failed


class _Update(IncrementalPdfFileWriter):  # type: ignore[misc]  # pyHanko is seen without its types
    """The incremental writer, without the note of the machine's clock and of pyHanko in the document's metadata."""

    def _update_meta(self) -> None:
        """Leave Info and XMP as they are, so that a PDF/A claim and both their dates still agree (BEY-11)."""


class _Verbatim(generic.PdfObject):  # type: ignore[misc]  # pyHanko is seen without its types
    """Bytes that are written as they are, and remember where."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded
        self.offset = -1

    def write_to_stream(self, stream: Any, handler: Any = None, container_ref: Any = None) -> None:  # noqa: ARG002
        self.offset = stream.tell()
        stream.write(self.encoded)


def entry_of(dictionary: Any, key: str, default: Any) -> Any:
    """Look up an entry and follow its reference, which pyHanko's `get` does not; null is no entry (7.3.9)."""
    if key not in dictionary or dictionary.raw_get(key) == generic.NullObject():
        return default
    try:
        return dictionary[key]
    except KeyError:
        # What pyHanko says where the reference leads to null.
        return default


def _find_first_page(writer: Any) -> Any:
    if entry_of(writer.root["/Pages"], "/Count", 0) < 1:
        raise FormatRefused(
            "The PDF has no pages (page tree, /Count); there is nothing to sign.", place="page tree, /Count"
        )
    return writer.find_page_for_modification(0)[0]


def _choose_spot(writer: Any, signature: EmptySignature) -> Spot:
    first = _find_first_page(writer)
    stamp = signature.stamp
    if stamp is None:
        return Spot(first, (0, 0, 0, 0), 0, (0, 0))
    claim = archival_claim(writer.root, entry_of) if stamp.needs_font else None
    if claim is not None:
        raise FormatRefused(
            f"The PDF claims {claim}, which asks for embedded letters, and the visible signature has none to embed.",
            place="catalog, /Metadata",
            remedy="Name a TrueType file in Appearance:FontPath of the profile.",
        )
    return find_spot(writer, stamp, entry_of)


def _add_field(writer: Any, signature: EmptySignature, spot: Spot) -> tuple[_Verbatim, _Verbatim]:
    """Add field, widget and signature dictionary, or fill the field that is there; form and page keep all they have."""
    if writer.output_version < (2, 0):
        writer.register_extension(_ESIC)
    contents = _Verbatim(b"<" + b"0" * (2 * signature.reserved_bytes) + b">")
    byte_range = _Verbatim(b" " * _BYTE_RANGE_CHARACTERS)
    value = generic.DictionaryObject(
        {
            pdf_name("/Type"): pdf_name("/DocTimeStamp" if signature.signed_at is None else "/Sig"),
            pdf_name("/Filter"): pdf_name("/" + signature.filter),
            pdf_name("/SubFilter"): pdf_name("/" + signature.sub_filter),
            pdf_name("/Contents"): contents,
            pdf_name("/ByteRange"): byte_range,
        }
    )
    if signature.signed_at is not None:
        value[pdf_name("/M")] = _time(writer, signature.signed_at)
    if signature.stamp is not None:
        for key, text in (("/Reason", signature.stamp.choice.reason), ("/Location", signature.stamp.choice.location)):
            if text:
                value[pdf_name(key)] = generic.pdf_string(text)
    looks = _draw(writer, signature, spot)
    if spot.field is not None:
        _fill_field(writer, spot, writer.add_object(value), looks)
        return contents, byte_range
    field = generic.DictionaryObject(
        {
            pdf_name("/FT"): pdf_name("/Sig"),
            pdf_name("/T"): generic.pdf_string(signature.field_name),
            pdf_name("/Type"): pdf_name("/Annot"),
            pdf_name("/Subtype"): pdf_name("/Widget"),
            pdf_name("/F"): generic.NumberObject(_PRINT_AND_LOCKED),
            pdf_name("/Rect"): _rectangle(spot),
            pdf_name("/P"): spot.page,
            pdf_name("/V"): writer.add_object(value),
        }
    )
    if looks is None and archival_claim(writer.root, entry_of) is not None:
        # Part 1 wants one for each field (ISO 19005-1 6.9).
        looks = writer.add_object(_empty_appearance())
    if looks is not None:
        field[pdf_name("/AP")] = generic.DictionaryObject({pdf_name("/N"): looks})
    field_reference = writer.add_object(field)
    _extend_form(writer, field_reference)
    _annotate(writer, spot.page, field_reference)
    return contents, byte_range


def _draw(writer: Any, signature: EmptySignature, spot: Spot) -> Any:
    if signature.stamp is None or signature.signed_at is None or 0 in spot.size:
        return None
    return signature.stamp.draw(writer, *spot.size, spot.rotation, signature.signed_at)


def _rectangle(spot: Spot) -> Any:
    if 0 in spot.size:
        return generic.ArrayObject([generic.NumberObject(0)] * 4)
    return generic.ArrayObject(generic.FloatObject(round(side, 2)) for side in spot.rectangle)


def _fill_field(writer: Any, spot: Spot, value: Any, looks: Any) -> None:
    spot.field[pdf_name("/V")] = value
    writer.update_container(spot.field)
    if looks is not None:
        spot.widget[pdf_name("/AP")] = generic.DictionaryObject({pdf_name("/N"): looks})
        writer.update_container(spot.widget)
    _extend_form(writer, None)


def _empty_appearance() -> Any:
    return generic.StreamObject(
        {
            pdf_name("/Type"): pdf_name("/XObject"),
            pdf_name("/Subtype"): pdf_name("/Form"),
            pdf_name("/BBox"): generic.ArrayObject([generic.NumberObject(0)] * 4),
        },
        stream_data=b"",
    )


def _time(writer: Any, moment: datetime.datetime) -> Any:
    moment = moment.astimezone(datetime.UTC)
    text = f"D:{moment.year:04}{moment:%m%d%H%M%S}+00'00'"
    # pyHanko escapes what needs none, but only pyHanko encrypts.
    return _Verbatim(f"({text})".encode()) if writer.security_handler is None else generic.pdf_string(text)


def _annotate(writer: Any, page: Any, field_reference: Any) -> None:
    entries = page.get_object()
    if "/Annots" in entries and entry_of(entries, "/Annots", None) is None:
        del entries["/Annots"]
    writer.register_annotation(page, field_reference)


def _extend_form(writer: Any, field_reference: Any) -> None:
    root = writer.root
    form = entry_of(root, "/AcroForm", None)
    if form is None:
        form = generic.DictionaryObject()
        root[pdf_name("/AcroForm")] = writer.add_object(form)
        writer.update_root()
    fields = entry_of(form, "/Fields", None)
    if field_reference is None:
        pass
    elif fields is not None:
        fields.append(field_reference)
        writer.update_container(fields)
    else:
        form[pdf_name("/Fields")] = generic.ArrayObject([field_reference])
        writer.update_container(form)
    # A viewer that draws the fields anew would change what was signed.
    stale = "/NeedAppearances" in form
    if stale:
        del form["/NeedAppearances"]
    if stale or entry_of(form, "/SigFlags", 0) != _SIGNATURES_EXIST_APPEND_ONLY:
        form[pdf_name("/SigFlags")] = generic.NumberObject(_SIGNATURES_EXIST_APPEND_ONLY)
        writer.update_container(form)


def end_last_line(document: io.BytesIO) -> None:
    """Let what is appended begin on a line of its own."""
    document.seek(-1, io.SEEK_END)
    if document.read(1) not in b"\r\n":
        document.write(b"\n")


def _describe(error: Exception) -> str:
    # pyHanko writes the prefix of some offsets twice.
    text = str(error).strip().rstrip(".").replace("0x0x", "0x")
    return f"{type(error).__name__}: {text}" if isinstance(error, KeyError) or not text else text
