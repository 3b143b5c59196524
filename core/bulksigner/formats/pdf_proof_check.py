"""The check of what proves a signed PDF later: security store and document time stamp, and nothing else (BEY-01)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import attrs

from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.policy import Proof, SignatureSpec
from bulksigner.contract.signing import ValidationData
from bulksigner.formats.evidence_check import check_evidence, check_sound
from bulksigner.formats.model import CheckFailed, Expectation, Hashed, ProofJudge
from bulksigner.formats.pdf_reader import PdfFile
from bulksigner.formats.pdf_syntax import PdfDict, PdfString, PdfValue, Reference, Stream
from bulksigner.formats.stamp_check import check_token

__all__ = ["DocumentStamp", "check_proof", "read_signed_length"]

_ARRAYS = {"/Cert": "/Certs", "/CRL": "/CRLs", "/OCSP": "/OCSPs"}
_ARTIFACTS = ("/PBAD_PolicyArtifact", "/PBAD_LpaArtifact", "/PBAD_LpaSignature")
_ENTRY_KEYS = frozenset({"/Type", *_ARRAYS})
_STORE_KEYS = frozenset({"/Type", "/VRI", *_ARRAYS.values(), *(f"{name}s" for name in _ARTIFACTS)})
_STAMP_KEYS = frozenset({"/Type", "/Filter", "/SubFilter", "/Contents", "/ByteRange"})


@attrs.frozen
class DocumentStamp:
    """The document time stamp as it was found: its field, its dictionary, and its token."""

    field: Reference
    value: Reference
    contents: PdfString
    token: bytes


def read_signed_length(pdf: PdfFile, original_length: int) -> int:
    """Return how much of the file the new signature says it covers; its own revision ends there."""
    for _, value in new_fields(pdf, original_length):
        signature = pdf.dictionary(value, "signature dictionary")
        covered = signature.get("/ByteRange")
        if signature.get("/Type") == "/Sig" and isinstance(covered, list) and len(covered) == 4:
            start, length = covered[2], covered[3]
            if isinstance(start, int) and isinstance(length, int) and start + length > original_length:
                return start + length
    raise CheckFailed("The PDF has no new signature whose /ByteRange can be read.")


def new_fields(pdf: PdfFile, length: int) -> Iterable[tuple[Reference, Reference]]:
    """Yield the signature fields of the form that stand behind `length`, with their values."""
    catalog = pdf.dictionary(pdf.trailer.get("/Root"), "document catalog")
    form = pdf.dictionary(catalog.get("/AcroForm"), "form")
    fields = pdf.resolve(form.get("/Fields")).value
    if not isinstance(fields, list):
        raise CheckFailed("The PDF's form has no list of fields.")
    for reference in fields:
        if isinstance(reference, Reference) and pdf.offset_of(reference) >= length:
            field = pdf.dictionary(reference, "field where its form names one")
            value = field.get("/V")
            if field.get("/FT") == "/Sig" and isinstance(value, Reference):
                yield reference, value


def check_proof(
    pdf: PdfFile,
    before: PdfFile,
    expectation: Expectation,
    *,
    contents: bytes,
    stamp: bytes,
    document_stamp: DocumentStamp | None,
    lengths: tuple[int, int],
) -> None:
    """Check what was added behind the signed revision `before`; `lengths` are of the original and of `before`.

    `contents` is the value of the signature's `/Contents` with its zeros, `stamp` the token in it.
    """
    spec, judge = expectation.spec, expectation.proof_judge
    if spec is None or judge is None:
        raise CheckFailed("The PDF proves itself, and nothing here tells who is trusted (Signing:Trust).")
    artifacts = [path.read_bytes() for path in spec.artifacts] if spec.proof is Proof.ARCHIVE else []
    data, store = _read_store(pdf, contents, lengths[0], artifacts)
    try:
        service = judge.list_certificates(stamp)[0]
        check_evidence((expectation.certificate, service), data)
        judge.judge_signer(expectation.certificate, data)
        judge.judge_stamp(stamp, data)
    except CheckFailed:
        raise
    except BulkSignerError as error:
        raise CheckFailed(f"What should prove the signature does not: {error.message}") from error
    is_archived = spec.policy is not None or spec.proof is Proof.ARCHIVE
    if is_archived != (document_stamp is not None):
        raise CheckFailed(f"The PDF {'lacks' if is_archived else 'has'} a document time stamp, against {spec.name}.")
    _check_changes(pdf, before, store, document_stamp, lengths[1])


def check_document_stamp(
    found: DocumentStamp, data: bytes, spec: SignatureSpec, expectation: Expectation, judge: ProofJudge
) -> None:
    """Check the token over all of the file but its own contents, and the certificates in it."""
    covered = hashlib.sha256(memoryview(data)[: found.contents.start])
    covered.update(memoryview(data)[found.contents.end :])
    check_token(found.token, Hashed("sha256", covered.digest()), spec, expectation.judge_stamp)
    try:
        service, others = judge.list_certificates(found.token)
        known = (service, *judge.list_issuers(service, others))
    except BulkSignerError as error:
        raise CheckFailed(f"The document time stamp does not count: {error.message}") from error
    check_sound((service, *others), known)


def require_stamp_keys(value: PdfDict) -> None:
    """Require the dictionary of a document time stamp (DOC-ICP-15.03, table A.21)."""
    if set(value) != _STAMP_KEYS or (value["/Type"], value["/SubFilter"]) != ("/DocTimeStamp", "/ETSI.RFC3161"):
        raise CheckFailed("The dictionary of the document time stamp is not one.")


def _read_store(
    pdf: PdfFile, contents: bytes, original_length: int, artifacts: list[bytes]
) -> tuple[ValidationData, set[int]]:
    """Read the entry of the signature, and list the objects that it is made of."""
    catalog = pdf.dictionary(pdf.trailer.get("/Root"), "document catalog")
    reference = catalog.get("/DSS")
    store = pdf.dictionary(reference, "security store")
    entries = pdf.dictionary(store.get("/VRI"), "entries in its security store")
    name = f"/{hashlib.sha1(contents).hexdigest().upper()}"  # noqa: S324 - a name, ISO 32000-2 table 261
    entry = pdf.dictionary(entries.get(name), "entry of the signature in its security store")
    asked = dict(zip(_ARTIFACTS, artifacts, strict=False))
    if not set(entry) <= _ENTRY_KEYS | set(asked) or not set(store) <= _STORE_KEYS:
        raise CheckFailed("The security store holds something that its level does not ask for.")
    if (entry.get("/Type"), store.get("/Type")) != ("/VRI", "/DSS"):
        raise CheckFailed("The security store, or the entry of the signature in it, has no /Type.")
    objects = {one.number for one in (reference, entries[name], store.get("/VRI")) if isinstance(one, Reference)}
    pieces: dict[str, tuple[bytes, ...]] = {}
    for key, plural in _ARRAYS.items():
        named, all_named = _references(pdf, entry.get(key)), _references(pdf, store.get(plural))
        # What an earlier store held stays.
        added = [one for one in all_named if pdf.offset_of(one) >= original_length]
        if added != named:
            raise CheckFailed(f"The security store's {plural} is not what the entry of the signature names.")
        pieces[key] = tuple(_content(pdf, one) for one in named)
        objects |= {one.number for one in named}
    for artifact in _ARTIFACTS:
        added = [one for one in _references(pdf, store.get(f"{artifact}s")) if pdf.offset_of(one) >= original_length]
        if added != ([entry.get(artifact)] if artifact in asked else []):
            raise CheckFailed(f"The security store's {artifact}s is not what the entry of the signature names.")
        if artifact in asked and _content(pdf, added[0]) != asked[artifact]:
            raise CheckFailed(f"The security store's {artifact}s does not hold the file of the host.")
        objects |= {one.number for one in added}
    earlier = [value for key, value in entries.items() if key != name]
    if any(isinstance(one, Reference) and pdf.offset_of(one) >= original_length for one in earlier):
        raise CheckFailed("The security store has a new entry beside that of the signature.")
    return ValidationData(pieces["/Cert"], pieces["/CRL"], pieces["/OCSP"]), objects


def _references(pdf: PdfFile, value: PdfValue) -> list[Reference]:
    found = pdf.resolve(value).value
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, Reference) for one in found):
        raise CheckFailed("The security store has a list that does not name streams.")
    return [one for one in found if isinstance(one, Reference)]


def _content(pdf: PdfFile, reference: Reference) -> bytes:
    stream = pdf.resolve(reference).value
    if not isinstance(stream, Stream):
        raise CheckFailed("The security store names what is no stream.")
    return pdf.content(stream)


def _check_changes(
    pdf: PdfFile, before: PdfFile, store: set[int], stamp: DocumentStamp | None, signed_length: int
) -> None:
    """Require that nothing else of the document was written again behind the signature."""
    root = pdf.trailer.get("/Root")
    catalog, old_catalog = (one.dictionary(one.trailer.get("/Root"), "document catalog") for one in (pdf, before))
    if root != before.trailer.get("/Root") or not _same_but(catalog, old_catalog, {"/DSS"}):
        raise CheckFailed("The document catalog was changed behind the signature.")
    allowed = set(store)
    if isinstance(root, Reference):
        allowed.add(root.number)
    if stamp is not None:
        allowed |= _check_stamp_field(pdf, before, catalog, stamp)
    strange = [one for one in pdf.numbers_since(signed_length) if one not in allowed and not _is_reference(pdf, one)]
    if strange:
        raise CheckFailed(
            f"Object {strange[0]} of the PDF was written behind the signature, and is no part of its proof."
        )


def _check_stamp_field(pdf: PdfFile, before: PdfFile, catalog: PdfDict, stamp: DocumentStamp) -> set[int]:
    """Check the form and the page that name the field of the document time stamp; return what was written for it."""
    form_reference = catalog.get("/AcroForm")
    form, old_form = (one.dictionary(form_reference, "form") for one in (pdf, before))
    fields, old_fields = pdf.resolve(form.get("/Fields")).value, before.resolve(old_form.get("/Fields")).value
    if (
        not isinstance(old_fields, list)
        or fields != [*old_fields, stamp.field]
        or not _same_but(form, old_form, {"/Fields"})
    ):
        raise CheckFailed("The PDF's form was changed behind the signature by more than the document time stamp.")
    page_reference = pdf.dictionary(stamp.field, "field").get("/P")
    page, old_page = (one.dictionary(page_reference, "page of the document time stamp") for one in (pdf, before))
    marks, old_marks = pdf.resolve(page.get("/Annots")).value, before.resolve(old_page.get("/Annots")).value
    if (
        not isinstance(old_marks, list)
        or marks != [*old_marks, stamp.field]
        or not _same_but(page, old_page, {"/Annots"})
    ):
        raise CheckFailed("A page was changed behind the signature by more than the document time stamp.")
    named = (
        stamp.field,
        stamp.value,
        form_reference,
        form.get("/Fields"),
        page_reference,
        page.get("/Annots"),
    )
    return {one.number for one in named if isinstance(one, Reference)}


def _same_but(new: PdfDict, old: PdfDict, keys: set[str]) -> bool:
    """Tell whether two dictionaries say the same, the strings in them wherever they stand."""
    names = (set(new) | set(old)) - keys
    return all(_plain(new.get(name)) == _plain(old.get(name)) for name in names)


def _plain(value: PdfValue) -> object:
    if isinstance(value, PdfString):
        return value.written
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _is_reference(pdf: PdfFile, number: int) -> bool:
    """Tell whether an object is a cross-reference stream, which lists itself, or is free."""
    found = pdf.resolve(Reference(number, 0)).value
    return found is None or (isinstance(found, Stream) and found.entries.get("/Type") == "/XRef")
