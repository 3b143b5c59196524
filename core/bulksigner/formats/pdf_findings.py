"""What is to be known of a PDF that can be signed, told by the file check beside its verdict (BEY-11).

Imported where a file is looked at only, as it imports pyHanko's validation.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from pyhanko.pdf_utils.crypt import AuthStatus
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.validation.generic_cms import validate_sig_integrity
from pyhanko.sign.validation.pdf_embedded import EmbeddedPdfSignature

from bulksigner.contract.validation import Finding, Severity
from bulksigner.formats.model import PdfRules
from bulksigner.formats.pdf_claims import archival_claim
from bulksigner.formats.pdf_locks import signed_fields
from bulksigner.formats.pdf_protection import open_protected
from bulksigner.formats.pdf_update import entry_of

__all__ = ["find_warnings"]


def find_warnings(document: io.BytesIO, rules: PdfRules, *, is_repaired: bool) -> tuple[Finding, ...]:
    """Return what does not stand in the way of a signature; for files that `append_signature` accepts."""
    reader = PdfFileReader(document, strict=True)
    opens_by_itself = "/Encrypt" not in reader.trailer or _opens_by_itself(reader, rules)
    warnings = tuple(_find(reader, reader.root, opens_by_itself=opens_by_itself))
    if is_repaired:
        text = "The PDF has junk before its header or a broken cross-reference, and would be repaired."
        return (_warning("pdf.repaired", "document", text, "Have the file made without that."), *warnings)
    return warnings


def _opens_by_itself(reader: Any, rules: PdfRules) -> bool:
    needs_none = reader.decrypt("").status is not AuthStatus.FAILED
    open_protected(reader, rules)
    return needs_none


def _find(reader: Any, root: Any, *, opens_by_itself: bool) -> Iterator[Finding]:
    if "/Encrypt" in reader.trailer:
        how = "without a password" if opens_by_itself else "with a password of the profile"
        text = f"The PDF is encrypted, and opens {how}; the signed file will be encrypted alike."
        yield _warning("pdf.encrypted", "trailer, /Encrypt", text)
    if reader.xrefs.hybrid_xrefs_present:
        text = "The PDF has a hybrid cross-reference; old and new viewers may show different objects."
        yield _warning("pdf.hybrid", "cross-reference", text)
    claim = archival_claim(root, entry_of)
    if claim is not None:
        yield _warning("pdf.archival", "catalog, /Metadata", f"The PDF claims {claim}; the signature keeps the claim.")
    if entry_of(entry_of(root, "/AcroForm", {}), "/XFA", None) is not None:
        text = "The PDF has an XFA form; viewers that draw it may not show the signature."
        yield _warning("pdf.xfa", "form, /XFA", text)
    for name, field, _ in signed_fields(root, entry_of):
        yield _judge(reader, name, field)


def _judge(reader: Any, name: str, field: Any) -> Finding:
    """Say whether a signature is intact; whose it is and whom to trust is not asked."""
    place = f"field {name}"
    try:
        signature = EmbeddedPdfSignature(reader, field, name)
        content_type = "tst_info" if signature.sig_object_type == "/DocTimeStamp" else "data"
        is_intact, is_valid = validate_sig_integrity(
            signature.signer_info, signature.signer_cert, content_type, signature.compute_digest()
        )
    except Exception as error:  # noqa: BLE001 - pyHanko lets through whatever a malformed signature provokes
        text = f"The PDF has a signature {name} that cannot be read ({type(error).__name__})."
        return _warning("pdf.signature-broken", place, text)
    if is_intact and is_valid:
        text = f"The PDF has a signature {name}, which is intact and stays so."
        return _warning("pdf.signed", place, text)
    text = f"The PDF has a signature {name} that does not fit what it signs; the file was changed."
    return _warning("pdf.signature-broken", place, text, "Ask for the file as it was signed.")


def _warning(code: str, place: str, text: str, remedy: str = "") -> Finding:
    return Finding(code, Severity.WARNING, place, text, remedy)
