"""What proves a signed PDF later: the security store, and the time stamp of the document (EN 319 142-1 5.4, 5.5).

Both are revisions of their own behind the signature; importing this module imports pyHanko.
"""

from __future__ import annotations

import hashlib
import io

from pyhanko.pdf_utils import generic
from pyhanko.pdf_utils.generic import pdf_name

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import Proof, SignatureSpec
from bulksigner.contract.signing import Proofs, Stamps, ValidationData
from bulksigner.formats.model import PdfRules
from bulksigner.formats.pdf_update import EmptySignature, append_signature, end_last_line, entry_of, open_update

__all__ = ["PdfProof"]

_DOCUMENT_STAMP = "ETSI.RFC3161"
_ARRAYS = {"/Cert": "/Certs", "/CRL": "/CRLs", "/OCSP": "/OCSPs"}
"""Names of the same things in the entry of one signature and in the store (ISO 32000-2 12.8.4.3)."""

_ARTIFACTS = ("/PBAD_PolicyArtifact", "/PBAD_LpaArtifact", "/PBAD_LpaSignature")
"""What ICP-Brasil adds to an entry, in the plural to the store (DOC-ICP-15.03, tables A.19, A.20)."""


class PdfProof:
    """Completes the signatures of one key under one specification."""

    def __init__(self, key: OpenedKey, spec: SignatureSpec, stamps: Stamps, proofs: Proofs, rules: PdfRules) -> None:
        self._key = key
        self._stamps = stamps
        self._proofs = proofs
        self._rules = rules
        # The policies want it from AD-RC on (DOC-ICP-15.03, table A.22), the baselines at B-LTA.
        self._artifacts = [path.read_bytes() for path in spec.artifacts] if spec.proof is Proof.ARCHIVE else []
        self._is_archived = spec.policy is not None or spec.proof is Proof.ARCHIVE

    def complete(self, document: io.BytesIO, contents: bytes, token: bytes, *, field_name: str) -> None:
        """Append the proof of a signature and of its time stamp `token` to a document that is signed.

        `contents` is the value of `/Contents`, filled up with zeros as it stands.
        """
        certificate, chain = self._key.certificate, tuple(self._key.chain)
        data = self._proofs.collect(certificate, chain).join(self._proofs.collect_stamp(token))
        _append_store(document, contents, data, self._artifacts, self._rules)
        if self._is_archived:
            self._stamp_document(document, field_name)

    def _stamp_document(self, document: io.BytesIO, field_name: str) -> None:
        empty = EmptySignature(field_name, "Adobe.PPKLite", _DOCUMENT_STAMP, None, self._stamps.room)
        start, end = append_signature(document, empty, self._rules)
        with document.getbuffer() as content:
            covered = hashlib.sha256(content[:start])
            covered.update(content[end:])
            token = self._stamps.stamp_digest(covered.digest())
            if 2 * len(token) > end - start - 2:
                raise PermanentFailure(
                    "The time stamp is larger than the room kept for it in the PDF; retry the job.",
                    code="sign.timestamp-failed",
                )
            content[start + 1 : start + 1 + 2 * len(token)] = token.hex().encode()


def _append_store(
    document: io.BytesIO, contents: bytes, data: ValidationData, artifacts: list[bytes], rules: PdfRules
) -> None:
    """Append a revision with the data in the security store, under an entry for the signature with these contents."""
    writer = open_update(document, rules)
    root = writer.root
    store = entry_of(root, "/DSS", None)
    is_new = store is None
    if is_new:
        store = generic.DictionaryObject()
        root[pdf_name("/DSS")] = writer.add_object(store)
        writer.update_root()
    else:
        writer.update_container(store)
    entry = generic.DictionaryObject({pdf_name("/Type"): pdf_name("/VRI")})
    store[pdf_name("/Type")] = pdf_name("/DSS")
    for name, pieces in (("/Cert", data.certificates), ("/CRL", data.lists), ("/OCSP", data.answers)):
        if not pieces:
            continue
        added = [writer.add_object(generic.StreamObject(stream_data=piece)) for piece in pieces]
        entry[pdf_name(name)] = generic.ArrayObject(added)
        known = entry_of(store, _ARRAYS[name], ())
        store[pdf_name(_ARRAYS[name])] = generic.ArrayObject([*known, *added])
    for name, artifact in zip(_ARTIFACTS, artifacts, strict=False):
        reference = writer.add_object(generic.StreamObject(stream_data=artifact))
        entry[pdf_name(name)] = reference
        known = entry_of(store, f"{name}s", ())
        store[pdf_name(f"{name}s")] = generic.ArrayObject([*known, reference])
    entries = generic.DictionaryObject(entry_of(store, "/VRI", {}))
    # ISO 32000-2, table 261: the name is the SHA-1 of the contents, zeros included; it proves nothing.
    name = hashlib.sha1(contents).hexdigest().upper()  # noqa: S324 - a name, ISO 32000-2 table 261
    entries[pdf_name(f"/{name}")] = writer.add_object(entry)
    store[pdf_name("/VRI")] = entries
    end_last_line(document)
    writer.write_in_place()
