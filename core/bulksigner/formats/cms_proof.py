"""What stands unsigned in a CMS signature that proves itself later: ICP-Brasil AD-RV to AD-RA, ETSI B-LT and B-LTA.

A policy lists its attributes, and it is those that are made (RFC 5126 6.1 to 6.4). Without one the certificates and
revocation data lie in the SignedData, and the time stamp of the archive is that of EN 319 122-1 5.5.
"""

from __future__ import annotations

import hashlib

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.policy import Proof, SignatureSpec
from bulksigner.contract.signing import Proofs, Stamps, ValidationData
from bulksigner.formats import der
from bulksigner.formats.cms import DATA, SignedData, encode_unsigned
from bulksigner.formats.references import (
    certificate_references,
    certificate_values,
    revocation_references,
    revocation_values,
)
from bulksigner.formats.unsigned import SIGNATURE_TIMESTAMP, add_cms_unsigned

__all__ = ["CmsProof", "Finished"]

CERTIFICATE_REFERENCES = "1.2.840.113549.1.9.16.2.21"
REVOCATION_REFERENCES = "1.2.840.113549.1.9.16.2.22"
CERTIFICATE_VALUES = "1.2.840.113549.1.9.16.2.23"
REVOCATION_VALUES = "1.2.840.113549.1.9.16.2.24"
REFERENCES_TIMESTAMP = "1.2.840.113549.1.9.16.2.25"
ARCHIVE_TIMESTAMP = "1.2.840.113549.1.9.16.2.48"
ARCHIVE_TIMESTAMP_V3 = "0.4.0.1733.2.4"
ARCHIVE_INDEX_V3 = "0.4.0.19122.1.5"

_SHA256 = der.sequence(der.object_identifier("2.16.840.1.101.3.4.2.1"))


@attrs.frozen
class Finished:
    """A signature with all that stands around its content: the layout to write, and its unsigned attributes."""

    layout: SignedData
    unsigned: bytes


class CmsProof:
    """Completes the signatures of one key under one specification."""

    def __init__(self, key: OpenedKey, spec: SignatureSpec, stamps: Stamps, proofs: Proofs) -> None:
        self._key = key
        self._spec = spec
        self._stamps = stamps
        self._proofs = proofs

    @property
    def stamps_content(self) -> bool:
        """Tell whether the archive's time stamp covers the content itself and not its digest."""
        return ARCHIVE_TIMESTAMP in self._spec.required_unsigned

    def complete(
        self,
        layout: SignedData,
        attributes: bytes,
        signature: bytes,
        *,
        sha256: bytes,
        content: hashlib._Hash | None = None,
    ) -> Finished:
        """Add to a signature what its level asks for.

        `sha256` is of the content. `content` is the running SHA-256 of the encapContentInfo, and of the content after
        it where that lies outside; it is given where `stamps_content`.
        """
        if self._spec.required_unsigned:
            return Finished(layout, self._make_attributes(layout, attributes, signature, content))
        token = self._stamps.stamp(signature)
        data = self._collect().join(self._proofs.collect_stamp(token))
        layout = layout.with_evidence(data)
        unsigned = [(SIGNATURE_TIMESTAMP, token)]
        if self._spec.proof is Proof.ARCHIVE:
            index = _index(layout, unsigned)
            fields = b"".join(der.members(layout.signer(attributes, signature)))
            stamped = self._stamps.stamp(DATA + sha256 + fields + index)
            unsigned.append((ARCHIVE_TIMESTAMP_V3, add_cms_unsigned(stamped, ARCHIVE_INDEX_V3, index)))
        return Finished(layout, encode_unsigned(unsigned))

    def _collect(self) -> ValidationData:
        return self._proofs.collect(self._key.certificate, tuple(self._key.chain))

    def _make_attributes(
        self, layout: SignedData, attributes: bytes, signature: bytes, content: hashlib._Hash | None
    ) -> bytes:
        asked, data = frozenset(self._spec.required_unsigned), self._collect()
        made: list[tuple[str, bytes]] = []
        proven: set[bytes] = set()
        if SIGNATURE_TIMESTAMP in asked:
            made.append((SIGNATURE_TIMESTAMP, self._prove(self._stamps.stamp(signature), proven)))
        if CERTIFICATE_REFERENCES in asked:
            made.append((CERTIFICATE_REFERENCES, certificate_references(data)))
        if REVOCATION_REFERENCES in asked:
            made.append((REVOCATION_REFERENCES, revocation_references(data)))
        if REFERENCES_TIMESTAMP in asked:
            # 6.3.5: the signature value, then type and values of each attribute before, without their own header.
            covered = signature + b"".join(der.object_identifier(kind) + der.set_of([value]) for kind, value in made)
            made.append((REFERENCES_TIMESTAMP, self._prove(self._stamps.stamp(covered), proven)))
        if CERTIFICATE_VALUES in asked:
            made.append((CERTIFICATE_VALUES, certificate_values(data)))
        if REVOCATION_VALUES in asked:
            made.append((REVOCATION_VALUES, revocation_values(data)))
        if content is not None:
            # 6.4.1: certificates as they stand, then each member of the SignerInfo with all attributes so far.
            content.update(layout.evidence)
            for member in der.members(layout.signer(attributes, signature, encode_unsigned(made))):
                content.update(member)
            made.append((ARCHIVE_TIMESTAMP, self._prove(self._stamps.stamp_digest(content.digest()), proven)))
        return encode_unsigned(made)

    def _prove(self, token: bytes, proven: set[bytes]) -> bytes:
        """Return a token with the proof of its own service inside, where none before has it (6.1.1)."""
        data = self._proofs.collect_stamp(token)
        if self._spec.proof < Proof.VALUES or data.certificates[0] in proven:
            return token
        proven.add(data.certificates[0])
        token = add_cms_unsigned(token, CERTIFICATE_VALUES, certificate_values(data))
        return add_cms_unsigned(token, REVOCATION_VALUES, revocation_values(data))


def _index(layout: SignedData, unsigned: list[tuple[str, bytes]]) -> bytes:
    """Encode ATSHashIndexV3: certificates, revocation data, and type with value of each attribute (5.5.2)."""
    values = [der.object_identifier(kind) + value for kind, value in unsigned]
    return der.sequence(_SHA256, *(_hashes(one) for one in (layout.certificates, layout.infos, values)))


def _hashes(encoded: tuple[bytes, ...] | list[bytes]) -> bytes:
    return der.sequence(*(der.octet_string(hashlib.sha256(one).digest()) for one in encoded))
