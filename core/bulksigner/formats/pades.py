"""PAdES signatures: an invisible signature appended to a PDF as an incremental update (ETSI EN 319 142-1)."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import re
from typing import TYPE_CHECKING, Any, BinaryIO

import attrs

from bulksigner.contract.certificate import Digest, OpenedKey
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Measured
from bulksigner.contract.validation import Finding
from bulksigner.formats.cms import Additions, SignedData
from bulksigner.formats.measuring import require_same
from bulksigner.formats.model import FormatRefused, PdfRules
from bulksigner.formats.unsigned import read_timestamp

if TYPE_CHECKING:
    from bulksigner.formats.pdf_proof import PdfProof
    from bulksigner.formats.pdf_update import EmptySignature

__all__ = ["MAX_DOCUMENT_BYTES", "PadesSigner", "look_at_pdf"]

MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""Largest file that is signed; up to twice its length is held in memory."""

_AS_IT_IS = PdfRules()
_HEADER = b"%PDF-"
_HEADER_SEARCH_BYTES = 1024
_END_SEARCH_BYTES = 2048
_AGAIN = "Produce the file again and submit it."
# Each on a line of its own, as pyHanko wants them: looking for a line's start, it would read a file of junk whole.
_END = re.compile(rb"[\r\n]startxref[\0\t\n\f\r ]++(\d{1,15})[\0\t\f ]*+[\r\n][\r\n]*+%%EOF")


class PadesSigner:
    """Signs PDF files; a file is held in memory once, in one buffer that grows by the update (PERF-11)."""

    def __init__(
        self,
        key: OpenedKey,
        spec: SignatureSpec,
        *,
        additions: Additions | None = None,
        rules: PdfRules = _AS_IT_IS,
        proof: PdfProof | None = None,
    ) -> None:
        # pyHanko takes a third of a second to import: paid here, by processes that sign PDF files.
        from bulksigner.formats import pdf_update
        from bulksigner.formats.stamp import Stamp

        self._pdf_update = pdf_update
        looks = rules.choice.appearance
        self._stamp = None if looks is None else Stamp.make(looks, key.certificate)
        self._key = key
        self._spec = spec
        self._additions = additions
        self._proof = proof
        self._rules = rules
        # The policies forbid signingTime in a PDF; the time is the dictionary's /M (ICP-10).
        self._signed_data = SignedData(key, spec, with_signing_time=False)

    def sign(self, source: BinaryIO, target: BinaryIO, *, expected: Measured, signed_at: datetime.datetime) -> Measured:
        """Write `source` followed by the signature's update to `target`; see `FileSigner.sign`."""
        digest, additions = self._spec.digest, self._additions
        empty = self._pdf_update.EmptySignature(
            field_name=_field_name(expected),
            filter=self._spec.pades_filter,
            sub_filter=self._spec.pades_sub_filter,
            signed_at=signed_at,
            reserved_bytes=self._signed_data.detached_length(signed_at, additions.room if additions else 0),
            stamp=self._stamp,
        )
        document, (start, end) = _prepare(_read_document(source, expected, digest), empty, self._rules)
        length, artifact, signed = document.length, document.artifact, document.signed
        with document.buffer.getbuffer() as content:
            signed.update(content[length:start])
            signed.update(content[end:])
            attributes = self._signed_data.attributes(signed.digest(), signed_at)
            signature = self._key.sign(attributes, digest)
            unsigned = additions.make(signature) if additions else b""
            cms = self._signed_data.detached(attributes, signature, unsigned)
            if 2 * len(cms) > end - start - 2:
                raise PermanentFailure(
                    "What is added to the signature is larger than the room kept for it in the PDF; retry the job.",
                    code="sign.timestamp-failed",
                )
            content[start + 1 : start + 1 + 2 * len(cms)] = cms.hex().encode()
            if self._proof is None:
                artifact.update(content[length:])
                target.write(content)
                return Measured(len(content), artifact.digest())
            contents = bytes.fromhex(bytes(content[start + 1 : end - 1]).decode())
        self._proof.complete(
            document.buffer, contents, read_timestamp(unsigned), field_name=f"Stamp{expected.sha256[:8].hex()}"
        )
        with document.buffer.getbuffer() as content:
            artifact.update(content[length:])
            target.write(content)
            return Measured(len(content), artifact.digest())


@attrs.frozen
class _Document:
    """A file in memory with its running SHA-256 and its running digest of the signature.

    The input's, the signature's and the artifact's digest all begin with the same bytes, hashed once for all.
    """

    buffer: io.BytesIO
    length: int
    artifact: Any
    signed: Any
    digest: Digest

    @classmethod
    def of(cls, content: bytes, digest: Digest) -> _Document:
        artifact = hashlib.sha256(content)
        signed = artifact.copy() if digest is Digest.SHA256 else hashlib.new(digest.value, content)
        return cls(io.BytesIO(content), len(content), artifact, signed, digest)


def _read_document(source: BinaryIO, expected: Measured, digest: Digest) -> _Document:
    """Read the file into memory; raises `ContentChanged`, and `FormatRefused` for a file that is too long."""
    if expected.length > MAX_DOCUMENT_BYTES:
        raise FormatRefused(
            f"The file has {expected.length} bytes; PDF files are signed up to {MAX_DOCUMENT_BYTES} bytes.",
            remedy="Split it, or have it signed as CAdES.",
        )
    source.seek(0)
    document = _Document.of(source.read(), digest)
    require_same(Measured(document.length, document.artifact.digest()), expected)
    return document


def look_at_pdf(source: BinaryIO, expected: Measured, rules: PdfRules = _AS_IT_IS) -> tuple[Finding, ...]:
    """Raise `FormatRefused` where `PadesSigner.sign` would, without a key: prepare the update and drop it (BEY-11).

    Returns what is to be known of a file that would be signed, as warnings.
    """
    from bulksigner.formats import pdf_findings, pdf_update
    from bulksigner.formats.spec import BASELINE_B
    from bulksigner.formats.stamp import Stamp

    looks = rules.choice.appearance
    empty = pdf_update.EmptySignature(
        field_name=_field_name(expected),
        filter=BASELINE_B.pades_filter,
        sub_filter=BASELINE_B.pades_sub_filter,
        signed_at=datetime.datetime.now(datetime.UTC),
        reserved_bytes=0,
        stamp=None if looks is None else Stamp.make(looks, None),
    )
    given = _read_document(source, expected, Digest.SHA256)
    document, _ = _prepare(given, empty, rules)
    document.buffer.truncate(document.length)
    return pdf_findings.find_warnings(document.buffer, rules, is_repaired=document is not given)


def _prepare(document: _Document, empty: EmptySignature, rules: PdfRules) -> tuple[_Document, tuple[int, int]]:
    """Append an empty signature to a document, or to what repair makes of it; raises `FormatRefused`."""
    from bulksigner.formats.pdf_append import append_ordinary
    from bulksigner.formats.pdf_update import append_signature

    try:
        with document.buffer.getbuffer() as content:
            _require_header(content)
            _require_end(content)
        # What is to be seen on a page is never ordinary.
        place = append_ordinary(document.buffer, empty) if empty.stamp is None else None
        return document, place or append_signature(document.buffer, empty, rules)
    except FormatRefused:
        if not rules.repair_unsigned:
            raise
        from bulksigner.formats.pdf_repair import repairs_of

        for repaired in repairs_of(document.buffer.getvalue()[: document.length]):
            candidate = _Document.of(repaired, document.digest)
            # What repair does not mend is refused for what is wrong with the file as it came.
            with contextlib.suppress(FormatRefused):
                return candidate, append_signature(candidate.buffer, empty, rules, is_repaired=True)
        raise


def _field_name(expected: Measured) -> str:
    return f"Signature{expected.sha256[:8].hex()}"


def _require_header(content: memoryview) -> None:
    start = bytes(content[:_HEADER_SEARCH_BYTES])
    position = start.find(_HEADER)
    if position > 0:
        raise FormatRefused(
            f"The PDF has junk before its header (bytes 0 to {position - 1}); remove it before the file is signed.",
            place="byte 0",
            remedy="Where a file has no signature, Pdf:RepairUnsigned does that.",
        )
    if position < 0:
        raise FormatRefused("The file is not a PDF: it does not begin with %PDF-.", place="byte 0")


def _require_end(content: memoryview) -> None:
    """Refuse junk by the last bytes of the file, before anything reads all of it (SEC-70)."""
    ends = _END.findall(bytes(content[-_END_SEARCH_BYTES:]))
    if not ends:
        raise FormatRefused(
            f"The PDF is cut off or damaged: its last {_END_SEARCH_BYTES} bytes have no startxref, offset and %%EOF, "
            "each on a line of its own.",
            place=f"byte {len(content)}",
            remedy=_AGAIN,
        )
    if int(ends[-1]) >= len(content):
        raise FormatRefused(
            f"The PDF is damaged: its startxref names byte {int(ends[-1])}, and the file has {len(content)} bytes.",
            place=f"byte {len(content)}",
            remedy=_AGAIN,
        )
