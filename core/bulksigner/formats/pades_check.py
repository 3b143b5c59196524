"""The check of a signed PDF, from its bytes alone (BEY-01, ICP-31, PERF-04)."""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

import attrs

from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Measured
from bulksigner.formats.cms_check import Stream, read_head
from bulksigner.formats.model import Checked, CheckFailed, Expectation, Hashed
from bulksigner.formats.pdf_reader import PdfFile
from bulksigner.formats.pdf_syntax import PdfDict, PdfString, Reference
from bulksigner.formats.policy_check import check_moment
from bulksigner.formats.signer_check import FORBIDDEN_IN_PDF, check_signer

if TYPE_CHECKING:
    from bulksigner.formats.pdf_proof_check import DocumentStamp

__all__ = ["check_pdf", "require_readable"]

_KINDS = {("/Adobe.PPKLite", "/ETSI.CAdES.detached"), ("/PBAD_PAdES", "/PBAD.PAdES")}
_FORBIDDEN_KEYS = ("/Cert", "/R", "/Prop_AuthType")
_HEADER_SEARCH_BYTES = 1024
_TIME = re.compile(rb"D:(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:Z|\+00'00'?)")


def check_pdf(artifact: BinaryIO, expectation: Expectation, staged: BinaryIO | None = None) -> Checked:
    """Check a signed PDF read back from storage; raise `CheckFailed` with the first thing that is wrong.

    `staged` is the original, read again where it may have been repaired.
    """
    artifact.seek(0)
    data = artifact.read()
    original, repair = expectation.original, None
    if expectation.may_be_repaired and staged is not None:
        original, repair = _find_repaired(data, original, staged)
    if len(data) <= original.length:
        raise CheckFailed(f"The signed PDF has {len(data)} bytes, not more than the original's {original.length}.")
    view = memoryview(data)
    digest = hashlib.sha256(view[: original.length])
    if digest.digest() != original.sha256:
        raise CheckFailed("The original is not inside the signed PDF: the bytes before the signature differ.")
    whole = digest.copy()
    whole.update(view[original.length :])
    if expectation.spec is None or not expectation.spec.is_proven:
        signed = _check_signed(PdfFile(data, expectation.passwords), view, original.length, digest, expectation)
    else:
        signed = _check_proven(data, original.length, digest, expectation)
    return Checked(Measured(len(data), whole.digest()), signed.algorithm, signed.digest, signed.moment, repair)


def _check_proven(data: bytes, original_length: int, digest: hashlib._Hash, expectation: Expectation) -> _Signed:
    """Check the signed revision by itself, and then what was added behind it to prove it."""
    from bulksigner.formats import pdf_proof_check

    tokens = []

    def judge(token: bytes, covered: bytes | Hashed) -> datetime.datetime:
        if expectation.judge_stamp is None:
            raise CheckFailed("nothing here tells whose time stamps are trusted (Signing:Trust).")
        tokens.append(token)
        return expectation.judge_stamp(token, covered)

    pdf = PdfFile(data, expectation.passwords)
    end = pdf_proof_check.read_signed_length(pdf, original_length)
    if end > len(data):
        raise CheckFailed("The signature's /ByteRange goes beyond the end of the file.")
    view = memoryview(data)[:end]
    before = PdfFile(view, expectation.passwords)
    signed = _check_signed(before, view, original_length, digest, attrs.evolve(expectation, judge_stamp=judge))
    stamp = _find_document_stamp(pdf, end, len(data))
    pdf_proof_check.check_proof(
        pdf,
        before,
        expectation,
        contents=bytes.fromhex(signed.contents.written[1:-1].decode("ascii")),
        stamp=tokens[0],
        document_stamp=stamp,
        lengths=(original_length, end),
    )
    if stamp is not None and expectation.spec is not None and expectation.proof_judge is not None:
        pdf_proof_check.check_document_stamp(stamp, data, expectation.spec, expectation, expectation.proof_judge)
    return signed


def _find_document_stamp(pdf: PdfFile, signed_length: int, length: int) -> DocumentStamp | None:
    from bulksigner.formats import pdf_proof_check

    fields = list(pdf_proof_check.new_fields(pdf, signed_length))
    if not fields:
        return None
    field, reference = fields[-1]
    value = pdf.dictionary(reference, "dictionary of the document time stamp")
    pdf_proof_check.require_stamp_keys(value)
    contents = value["/Contents"]
    if not isinstance(contents, PdfString) or not contents.written.startswith(b"<"):
        raise CheckFailed("The document time stamp's /Contents is not a hexadecimal string.")
    _check_byte_range(value, contents, signed_length, length)
    return pdf_proof_check.DocumentStamp(field, reference, contents, _decode_contents(contents))


@attrs.frozen
class _Signed:
    """What the signature in a PDF says."""

    algorithm: KeyAlgorithm
    digest: str
    moment: datetime.datetime
    contents: PdfString


def _check_signed(
    pdf: PdfFile, data: memoryview, original_length: int, digest: hashlib._Hash, expectation: Expectation
) -> _Signed:
    """Check the new signature, which must cover all of `data`; `digest` is the running SHA-256 of the original."""
    reference, signature = _find_signature(pdf, original_length)
    _check_kind(signature, expectation.spec)
    moment = _read_time(pdf, reference, signature)
    contents = signature.get("/Contents")
    if not isinstance(contents, PdfString) or not contents.written.startswith(b"<"):
        raise CheckFailed("The signature dictionary's /Contents is not a hexadecimal string.")
    _check_byte_range(signature, contents, original_length, len(data))
    cms = _decode_contents(contents)

    stream = Stream(iter((cms,)))
    head = read_head(stream)
    if head.content_length is not None:
        raise CheckFailed("The CMS in the PDF has content inside, where it must be detached.")
    tail = stream.take(head.end - stream.position, limit=len(cms))
    stream.finish()
    if head.digest == "sha256":
        digest.update(data[original_length : contents.start])
    else:
        digest = hashlib.new(head.digest, data[: contents.start])
    digest.update(data[contents.end :])
    facts = check_signer(
        tail,
        digest=head.digest,
        message_digest=digest.digest(),
        certificate=expectation.certificate,
        forbidden=FORBIDDEN_IN_PDF,
        spec=expectation.spec,
        judge_stamp=expectation.judge_stamp,
    )
    if expectation.spec is not None:
        check_moment(moment, expectation.spec)
    return _Signed(facts.algorithm, head.digest, moment, contents)


def _find_repaired(data: bytes, original: Measured, staged: BinaryIO) -> tuple[Measured, str | None]:
    """Tell what of the original must be inside: all but junk before its header; and what was done to it (BEY-11)."""
    staged.seek(0)
    content = staged.read()
    if Measured(len(content), hashlib.sha256(content).digest()) != original:
        raise CheckFailed("The staged original is no longer what was staged.")
    junk = content.find(b"%PDF-", 0, _HEADER_SEARCH_BYTES)
    done = []
    if junk > 0 and data.startswith(b"%PDF-"):
        content = content[junk:]
        done.append(f"{junk} bytes before its header were left out")
    # Beside that of the signature: its hexadecimal digits cannot hold the word.
    if data.count(b"startxref", len(content)) > 1:
        done.append("its cross-reference was made anew")
    repair = f"The PDF was repaired: {' and '.join(done)}" if done else None
    return Measured(len(content), hashlib.sha256(content).digest()), repair


def require_readable(data: bytes | memoryview, original_length: int, passwords: Sequence[Secret] = ()) -> None:
    """Raise `CheckFailed` where the check could not read the signature that an update added, filled in or not."""
    pdf = PdfFile(data, passwords)
    reference, signature = _find_signature(pdf, original_length)
    _read_time(pdf, reference, signature)


def _find_signature(pdf: PdfFile, original_length: int) -> tuple[Reference, PdfDict]:
    """Reach the new signature the way a viewer does: newest cross-reference, catalog, form, field, value."""
    if pdf.newest_at < original_length:
        raise CheckFailed("The PDF's newest cross-reference is the original's; nothing was added that a viewer sees.")
    catalog = pdf.dictionary(pdf.trailer.get("/Root"), "document catalog")
    form = pdf.dictionary(catalog.get("/AcroForm"), "form")
    fields = pdf.resolve(form.get("/Fields")).value
    if not isinstance(fields, list):
        raise CheckFailed("The PDF's form has no list of fields.")
    found = []
    for reference in fields:
        if not isinstance(reference, Reference) or pdf.offset_of(reference) < original_length:
            continue
        field = pdf.dictionary(reference, "field where its form names one")
        value = field.get("/V")
        if field.get("/FT") == "/Sig" and isinstance(value, Reference) and pdf.offset_of(value) >= original_length:
            found.append((value, pdf.dictionary(value, "signature dictionary")))
    if len(found) != 1:
        raise CheckFailed(f"The PDF's form has {len(found)} new signatures, where there should be one.")
    return found[0]


def _check_kind(signature: PdfDict, spec: SignatureSpec | None) -> None:
    """Check the keys of the signature dictionary (section 2 of the policies)."""
    kinds = _KINDS if spec is None else {(f"/{spec.pades_filter}", f"/{spec.pades_sub_filter}")}
    if signature.get("/Type") != "/Sig" or (signature.get("/Filter"), signature.get("/SubFilter")) not in kinds:
        raise CheckFailed("The signature dictionary's /Type, /Filter or /SubFilter is not that of a PAdES signature.")
    for key in _FORBIDDEN_KEYS:
        if key in signature:
            raise CheckFailed(f"The signature dictionary has {key}, which the policies forbid.")


def _read_time(pdf: PdfFile, reference: Reference, signature: PdfDict) -> datetime.datetime:
    written = signature.get("/M")
    match = _TIME.fullmatch(pdf.text(written, reference)) if isinstance(written, PdfString) else None
    try:
        if match is not None:
            year, month, day, hour, minute, second = map(int, match.groups())
            return datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError as error:
        raise CheckFailed("The signature dictionary's /M is not a time.") from error
    raise CheckFailed("The signature dictionary has no /M in UTC, so no time.")


def _check_byte_range(signature: PdfDict, contents: PdfString, original_length: int, length: int) -> None:
    """Require that all of the file is signed but `/Contents`, which lies behind the original (ICP-31)."""
    whole = [0, contents.start, contents.end, length - contents.end]
    if contents.start < original_length or signature.get("/ByteRange") != whole:
        raise CheckFailed("The signature's /ByteRange does not cover the whole file but its /Contents.")


def _decode_contents(contents: PdfString) -> bytes:
    """Decode the CMS; what was reserved and not needed must be zeros."""
    digits = contents.written[1:-1]
    try:
        value = bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        value = b""
    # Blanks and mixed case would leave bytes that nothing protects.
    if digits not in (value.hex().encode(), value.hex().upper().encode()):
        raise CheckFailed("The signature dictionary's /Contents is not one run of hexadecimal digits.")
    stream = Stream(iter((value,)))
    end = stream.open(0x30)
    if end > len(value) or value[end:].strip(b"\0"):
        raise CheckFailed("The signature dictionary's /Contents is cut off, or goes on after the CMS.")
    return value[:end]
