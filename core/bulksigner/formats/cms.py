"""CMS SignedData from parts made once per key and specification (PERF-02).

Written from RFC 5652, RFC 5035 (ESS), RFC 5126 5.8.1 (policy) and RFC 5754 (algorithms).
"""

from __future__ import annotations

import copy
import datetime
import hashlib
from collections.abc import Iterable
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from bulksigner.contract.certificate import Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import PolicyIdentifier, SignatureSpec
from bulksigner.contract.signing import ValidationData
from bulksigner.formats import der

__all__ = ["COUNTERSIGNATURE", "DATA", "SIGNED_DATA", "Additions", "SignedData", "encode_unsigned", "open_content"]

DATA = der.object_identifier("1.2.840.113549.1.7.1")
SIGNED_DATA = der.object_identifier("1.2.840.113549.1.7.2")
COUNTERSIGNATURE = der.object_identifier("1.2.840.113549.1.9.6")
_CONTENT_TYPE = der.object_identifier("1.2.840.113549.1.9.3")
_MESSAGE_DIGEST = der.object_identifier("1.2.840.113549.1.9.4")
_SIGNING_TIME = der.object_identifier("1.2.840.113549.1.9.5")
_SIGNATURE_POLICY = der.object_identifier("1.2.840.113549.1.9.16.2.15")
_SIGNING_CERTIFICATE_V2 = der.object_identifier("1.2.840.113549.1.9.16.2.47")
_POLICY_URI = der.object_identifier("1.2.840.113549.1.9.16.5.1")

# RFC 5754 2: the parameters of a SHA-2 digest algorithm are best absent (ICP-Brasil note 3 asks the same).
_DIGEST_ALGORITHMS = {
    Digest.SHA256: der.sequence(der.object_identifier("2.16.840.1.101.3.4.2.1")),
    Digest.SHA512: der.sequence(der.object_identifier("2.16.840.1.101.3.4.2.3")),
}
_SIGNATURE_ALGORITHMS = {
    (KeyAlgorithm.RSA, Digest.SHA256): der.sequence(der.object_identifier("1.2.840.113549.1.1.11"), der.NULL),
    (KeyAlgorithm.RSA, Digest.SHA512): der.sequence(der.object_identifier("1.2.840.113549.1.1.13"), der.NULL),
    (KeyAlgorithm.ECDSA, Digest.SHA256): der.sequence(der.object_identifier("1.2.840.10045.4.3.2")),
    (KeyAlgorithm.ECDSA, Digest.SHA512): der.sequence(der.object_identifier("1.2.840.10045.4.3.4")),
}
_VERSION_1, _VERSION_WITH_OTHERS = der.integer(1), der.integer(5)
_OCSP_RESPONSE = der.object_identifier("1.3.6.1.5.5.7.16.2")


class Additions(Protocol):
    """Unsigned attributes that are made after the signature, such as a time stamp over its value."""

    @property
    def room(self) -> int:
        """Return the largest length in bytes of what `make` returns."""
        ...

    def make(self, signature: bytes) -> bytes:
        """Return the unsigned attributes for a signature value, as `encode_unsigned` writes them."""
        ...


def open_content(length: int) -> bytes:
    """Encode all of an encapContentInfo that stands before its content."""
    octets = der.prefix(0x04, length)
    wrapper = der.prefix(0xA0, len(octets) + length)
    return der.prefix(0x30, len(DATA) + len(wrapper) + len(octets) + length) + DATA + wrapper + octets


def encode_unsigned(attributes: Iterable[tuple[str, bytes]]) -> bytes:
    """Encode unsigned attributes, given as object identifier and encoded value (RFC 5652 5.3)."""
    encoded = [_attribute(der.object_identifier(kind), value) for kind, value in attributes]
    return der.set_of(encoded, tag=0xA1) if encoded else b""


class SignedData:
    """Assembles SignedData of one opened key under one specification; only digest, time and signature are new.

    Raises `PermanentFailure` when the certificate cannot be read or its key is of another kind than the opened key.
    """

    def __init__(self, key: OpenedKey, spec: SignatureSpec, *, with_signing_time: bool) -> None:
        self.digest = spec.digest
        self.signature_length, self.signature_length_fixed = _measure_signature(key)
        self._with_signing_time = with_signing_time
        try:
            issuer_and_serial, issuer, serial = _name_certificate(key.certificate)
            certificates = _choose_certificates(key)
        except (ValueError, IndexError) as error:
            raise PermanentFailure(f"A certificate of the key is not DER: {error}.") from error
        digest_algorithm = _DIGEST_ALGORITHMS[spec.digest]
        self._before_content = _VERSION_1 + der.set_of([digest_algorithm])
        self.infos: tuple[bytes, ...] = ()
        self.issuer_and_serial = issuer_and_serial
        self.certificates = tuple(certificates)
        self.digest_algorithm = digest_algorithm
        self.evidence = der.set_of(certificates, tag=0xA0)
        self._signer_head = _VERSION_1 + issuer_and_serial + digest_algorithm
        self._signature_algorithm = _SIGNATURE_ALGORITHMS[key.algorithm, spec.digest]
        self._ess = _attribute(_SIGNING_CERTIFICATE_V2, _encode_ess(key.certificate, issuer, serial, spec.digest))
        self._fixed_attributes = [_attribute(_CONTENT_TYPE, DATA), self._ess]
        if spec.policy is not None:
            self._fixed_attributes.append(_attribute(_SIGNATURE_POLICY, _encode_policy(spec.policy)))

    def with_evidence(self, data: ValidationData) -> SignedData:
        """Return a layout with data among its certificates and revocation infos (EN 319 122-1 6.3).

        With answers of OCSP a SignedData has version 5 (RFC 5652 5.1); they are wrapped by RFC 5940.
        """
        others = [der.element(0xA1, _OCSP_RESPONSE + answer) for answer in data.answers]
        made = copy.copy(self)
        made.certificates = tuple(sorted({*self.certificates, *data.certificates}))
        made.infos = tuple(sorted({*self.infos, *data.lists, *others}))
        infos = der.set_of(made.infos, tag=0xA1) if made.infos else b""
        made.evidence = der.set_of(made.certificates, tag=0xA0) + infos
        if others:
            made._before_content = _VERSION_WITH_OTHERS + der.set_of([self.digest_algorithm])
        return made

    def attributes(self, digest: bytes, signed_at: datetime.datetime) -> bytes:
        """Encode the signed attributes as the SET OF that is signed (RFC 5652 5.4)."""
        parts = [*self._fixed_attributes, _attribute(_MESSAGE_DIGEST, der.octet_string(digest))]
        if self._with_signing_time:
            parts.append(_attribute(_SIGNING_TIME, der.time(signed_at)))
        return der.set_of(parts)

    def counter_attributes(self, digest: bytes, signed_at: datetime.datetime) -> bytes:
        """Encode the signed attributes of a countersignature, which names no content type and no policy (11.4)."""
        parts = [self._ess, _attribute(_MESSAGE_DIGEST, der.octet_string(digest))]
        if self._with_signing_time:
            parts.append(_attribute(_SIGNING_TIME, der.time(signed_at)))
        return der.set_of(parts)

    def detached(self, attributes: bytes, signature: bytes, unsigned: bytes = b"") -> bytes:
        """Assemble the whole ContentInfo without content; `unsigned` are encoded unsigned attributes."""
        content = der.sequence(DATA)
        head = self._head(len(content), len(attributes), len(signature), len(unsigned))
        return head + content + self.tail(attributes, signature, unsigned)

    def detached_length(self, signed_at: datetime.datetime, unsigned_length: int = 0) -> int:
        """Tell the largest size in bytes of `detached`; exact for an RSA key whose unsigned attributes are."""
        attributes = self.attributes(bytes(hashlib.new(self.digest.value).digest_size), signed_at)
        return len(self.detached(attributes, bytes(self.signature_length), bytes(unsigned_length)))

    def before_content(
        self, content_length: int, attributes_length: int, signature_length: int, unsigned_length: int = 0
    ) -> bytes:
        """Encode all that stands before the content bytes of an attached signature, definite lengths throughout."""
        opening = open_content(content_length)
        head = self._head(len(opening) + content_length, attributes_length, signature_length, unsigned_length)
        return head + opening

    def tail(self, attributes: bytes, signature: bytes, unsigned: bytes = b"") -> bytes:
        """Encode all that stands after the content."""
        return self.evidence + der.element(0x31, self.signer(attributes, signature, unsigned))

    def signer(self, attributes: bytes, signature: bytes, unsigned: bytes = b"") -> bytes:
        """Encode the SignerInfo."""
        # RFC 5652 5.3: in the file the attributes carry the tag [0] in place of SET OF, which is what was signed.
        octets = der.octet_string(signature)
        return der.sequence(self._signer_head, b"\xa0", attributes[1:], self._signature_algorithm, octets, unsigned)

    def _head(
        self, encapsulated_length: int, attributes_length: int, signature_length: int, unsigned_length: int
    ) -> bytes:
        octets = len(der.prefix(0x04, signature_length)) + signature_length + unsigned_length
        signer = len(self._signer_head) + attributes_length + len(self._signature_algorithm) + octets
        signer += len(der.prefix(0x30, signer))
        signers = len(der.prefix(0x31, signer)) + signer
        body = len(self._before_content) + encapsulated_length + len(self.evidence) + signers
        opening = der.prefix(0x30, body)
        wrapper = der.prefix(0xA0, len(opening) + body)
        total = len(SIGNED_DATA) + len(wrapper) + len(opening) + body
        return der.prefix(0x30, total) + SIGNED_DATA + wrapper + opening + self._before_content


def _attribute(kind: bytes, value: bytes) -> bytes:
    return der.sequence(kind, der.set_of([value]))


def _name_certificate(certificate: bytes) -> tuple[bytes, bytes, bytes]:
    fields = _certificate_fields(certificate)
    serial, issuer = fields[0], fields[2]
    return der.sequence(issuer, serial), issuer, serial


def _certificate_fields(certificate: bytes) -> list[bytes]:
    """Split the TBSCertificate from its serial number on, so that names keep the bytes of their issuer."""
    fields = der.members(der.members(certificate)[0])
    return fields[1:] if fields[0][0] == 0xA0 else fields


def _choose_certificates(key: OpenedKey) -> list[bytes]:
    """Take the signer and its issuers upwards; a self-signed root is left to whoever trusts it."""
    chosen = [key.certificate]
    by_subject = {_certificate_fields(issuer)[4]: issuer for issuer in reversed(key.chain)}
    wanted = _certificate_fields(key.certificate)[2]
    while issuer := by_subject.pop(wanted, None):
        wanted, subject = _certificate_fields(issuer)[2], wanted
        if wanted != subject:
            chosen.append(issuer)
    return chosen


def _encode_ess(certificate: bytes, issuer: bytes, serial: bytes, digest: Digest) -> bytes:
    """Encode SigningCertificateV2 (RFC 5035 4), which names the signer's certificate alone."""
    # SHA-256 is the default of hashAlgorithm and DER leaves defaults out (ICP-Brasil note 4).
    algorithm = b"" if digest is Digest.SHA256 else _DIGEST_ALGORITHMS[digest]
    issuer_serial = der.sequence(der.sequence(der.explicit(4, issuer)), serial)
    identifier = der.sequence(
        algorithm, der.octet_string(hashlib.new(digest.value, certificate).digest()), issuer_serial
    )
    return der.sequence(der.sequence(identifier))


def _encode_policy(policy: PolicyIdentifier) -> bytes:
    """Encode SignaturePolicyId with the one qualifier SPURI (RFC 5126 5.8.1, ICP-06)."""
    qualifier = der.sequence(_POLICY_URI, der.element(0x16, policy.uri.encode("ascii")))
    policy_hash = der.sequence(_DIGEST_ALGORITHMS[policy.digest], der.octet_string(policy.value))
    return der.sequence(der.object_identifier(policy.oid), policy_hash, der.sequence(qualifier))


def _measure_signature(key: OpenedKey) -> tuple[int, bool]:
    """Tell the largest length of a signature of this key, and whether every signature has it."""
    try:
        public = x509.load_der_x509_certificate(key.certificate).public_key()
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise PermanentFailure(f"The signer's certificate is not an X.509 certificate: {error}.") from error
    if key.algorithm is KeyAlgorithm.RSA and isinstance(public, rsa.RSAPublicKey):
        return (public.key_size + 7) // 8, True
    if key.algorithm is KeyAlgorithm.ECDSA and isinstance(public, ec.EllipticCurvePublicKey):
        part = der.element(0x02, bytes(public.key_size // 8 + 1))
        return len(der.sequence(part, part)), False
    raise PermanentFailure(
        f"The certificate's key is not the {key.algorithm.name} key that was opened; check which key it is bound to."
    )
