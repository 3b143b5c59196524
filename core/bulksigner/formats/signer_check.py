"""The check of a CMS signer: certificate, signed attributes, signature value (ICP-30); apart from signing (PERF-04)."""

from __future__ import annotations

import datetime
import functools
import hashlib
import re
from typing import TYPE_CHECKING

import attrs
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.policy import SignatureSpec
from bulksigner.formats.der_reader import (
    INTEGER,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    SET,
    Element,
    Reader,
    dotted,
)
from bulksigner.formats.model import CheckFailed, JudgeStamp
from bulksigner.formats.policy_check import (
    SIGNATURE_POLICY,
    check_attributes,
    check_key,
    check_moment,
    check_policy_value,
)
from bulksigner.formats.stamp_check import check_unsigned

if TYPE_CHECKING:
    from bulksigner.formats.cms_proof_check import CmsProofCheck

__all__ = ["DATA", "FORBIDDEN_IN_PDF", "SIGNED_DATA", "SignerFacts", "check_signer", "name_digest"]

DATA = bytes.fromhex("06092a864886f70d010701")
SIGNED_DATA = bytes.fromhex("06092a864886f70d010702")

_CONTENT_TYPE = bytes.fromhex("06092a864886f70d010903")
_MESSAGE_DIGEST = bytes.fromhex("06092a864886f70d010904")
_SIGNING_TIME = bytes.fromhex("06092a864886f70d010905")
_SIGNING_CERTIFICATE = bytes.fromhex("060b2a864886f70d010910020c")
_SIGNING_CERTIFICATE_V2 = bytes.fromhex("060b2a864886f70d010910022f")
_SIGNER_LOCATION = bytes.fromhex("060b2a864886f70d0109100211")
_ADBE_REVOCATION = bytes.fromhex("06092a864886f72f010108")

FORBIDDEN_IN_PDF = {
    _SIGNING_TIME: "signingTime",
    _SIGNING_CERTIFICATE: "signingCertificate",
    _SIGNER_LOCATION: "signerLocation",
    _ADBE_REVOCATION: "adbe-revocationInfoArchival",
}
"""Signed attributes that the PAdES policies forbid (ICP-Brasil, table A.14)."""

_TIMES = {
    0x17: re.compile(rb"(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z"),
    0x18: re.compile(rb"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z"),
}
_NULL = b"\x05\x00"
_DIGESTS = {
    bytes.fromhex("0609608648016503040201"): "sha256",
    bytes.fromhex("0609608648016503040203"): "sha512",
}
_HASHES: dict[str, hashes.HashAlgorithm] = {"sha256": hashes.SHA256(), "sha512": hashes.SHA512()}
_RSA = {
    bytes.fromhex("06092a864886f70d01010b") + _NULL: "sha256",
    bytes.fromhex("06092a864886f70d01010d") + _NULL: "sha512",
}
_ECDSA = {
    bytes.fromhex("06082a8648ce3d040302"): "sha256",
    bytes.fromhex("06082a8648ce3d040304"): "sha512",
}


@attrs.frozen
class SignerFacts:
    """What the signature says of itself."""

    algorithm: KeyAlgorithm
    signing_time: datetime.datetime | None


@attrs.frozen
class _Signer:
    """The expected certificate, read once."""

    public_key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    issuer: bytes
    serial: bytes


def name_digest(algorithm: Element) -> str:
    """Name a digest's AlgorithmIdentifier; parameters are absent or NULL (RFC 5754 2)."""
    content = algorithm.content
    name = _DIGESTS.get(content.removesuffix(_NULL))
    if algorithm.tag != SEQUENCE or name is None:
        raise CheckFailed("The signature uses a digest algorithm other than SHA-256 and SHA-512.")
    return name


def check_signer(
    after_content: bytes,
    *,
    digest: str,
    message_digest: bytes,
    certificate: bytes,
    forbidden: dict[bytes, str] | None = None,
    spec: SignatureSpec | None = None,
    is_counter: bool = False,
    judge_stamp: JudgeStamp | None = None,
    proof: CmsProofCheck | None = None,
) -> SignerFacts:
    """Check all of a SignedData that stands after its content: certificates and the one signer.

    With `spec`, its attributes and its key are held against the policy too (ICP-30, ICP-33). A
    countersignature names neither a type of content nor a policy (RFC 5652 11.4).
    """
    signer = _read_certificate(certificate)
    reader = Reader(after_content, "CMS")
    held = reader.take(0xA0)
    infos = reader.take(0xA1) if proof is not None and reader.next_is(0xA1) else None
    certificates = _list_certificates(held.content)
    if certificate not in certificates:
        raise CheckFailed("The signature does not contain the signer's certificate.")
    if proof is None or proof.spec.required_unsigned:
        _check_issuers(certificate, certificates)
    signers = reader.take(SET).reader("CMS signers")
    info = signers.take(SEQUENCE).reader("CMS signer")
    signers.finish()
    reader.finish()

    fields = tuple(info.take(tag) for tag in (INTEGER, SEQUENCE, SEQUENCE, 0xA0, SEQUENCE, OCTET_STRING))
    version, named, stated, attributes, signed_by, octets = fields
    if version.content != b"\x01":
        raise CheckFailed("The CMS signer has another version than 1.")
    if named.content != signer.issuer + signer.serial:
        raise CheckFailed("The signature names another certificate than the profile's as its signer.")
    if name_digest(stated) != digest:
        raise CheckFailed("The CMS signer uses another digest algorithm than the CMS.")
    algorithm, signing_digest = _name_signature(signed_by.content, signer)
    value = octets.content
    if proof is not None:
        proof.check(info, certificate=certificate, certificates=held, infos=infos, fields=fields)
    elif spec is not None and spec.is_stamped:
        check_unsigned(info, value, spec, judge_stamp)
    info.finish()
    if signing_digest != digest:
        raise CheckFailed("The signature is made with another digest algorithm than its content.")

    if spec is not None:
        check_key(signer.public_key, algorithm, digest, spec)
    values = _read_attributes(attributes, forbidden or {})
    facts = _check_attributes(values, message_digest, certificate, is_counter=is_counter)
    if spec is not None:
        _check_policy(values, spec, is_counter=is_counter)
        check_moment(facts, spec)
    # RFC 5652 5.4: what is signed is the SET OF, whose tag the file replaces by [0].
    _verify(signer, value, bytes([SET]) + attributes.encoded[1:], _HASHES[digest])
    return SignerFacts(algorithm, facts)


def _read_attributes(attributes: Element, forbidden: dict[bytes, str]) -> dict[bytes, Element]:
    members = attributes.reader("signed attributes").take_all()
    encodings = [member.encoded for member in members]
    if encodings != sorted(encodings):
        raise CheckFailed("The signed attributes are not in DER order.")
    values: dict[bytes, Element] = {}
    for member in members:
        attribute = member.reader("signed attribute")
        kind = attribute.take(OBJECT_IDENTIFIER).encoded
        content = attribute.take(SET).reader("signed attribute value")
        attribute.finish()
        if kind in forbidden:
            raise CheckFailed(f"The signature has the signed attribute {forbidden[kind]}, which this format forbids.")
        if kind in values:
            raise CheckFailed("A signed attribute is there twice.")
        values[kind] = content.take()
        content.finish()
    return values


def _check_attributes(
    values: dict[bytes, Element], message_digest: bytes, certificate: bytes, *, is_counter: bool
) -> datetime.datetime | None:
    if is_counter:
        if _CONTENT_TYPE in values:
            raise CheckFailed("A countersignature has the signed attribute contentType.")
    elif _CONTENT_TYPE not in values or values[_CONTENT_TYPE].encoded != DATA:
        raise CheckFailed("The signed attribute contentType is missing or is not data.")
    digest = values.get(_MESSAGE_DIGEST)
    if digest is None or digest.tag != OCTET_STRING or digest.content != message_digest:
        raise CheckFailed("The signed attribute messageDigest is missing or is not the digest of the content.")
    if _SIGNING_CERTIFICATE_V2 not in values:
        raise CheckFailed("The signed attribute signingCertificateV2 is missing.")
    _check_ess(values[_SIGNING_CERTIFICATE_V2].encoded, certificate)
    moment = values.get(_SIGNING_TIME)
    return None if moment is None else _read_time(moment)


def _check_policy(values: dict[bytes, Element], spec: SignatureSpec, *, is_counter: bool) -> None:
    if is_counter:
        check_policy_value(values.get(SIGNATURE_POLICY), None)
        return
    if spec.required_signed:
        check_attributes(set(map(_name_attribute, values)), spec)
    check_policy_value(values.get(SIGNATURE_POLICY), spec.policy)


@functools.lru_cache(maxsize=64)
def _name_attribute(kind: bytes) -> str:
    return dotted(Reader(kind, "signed attribute").take())


@functools.lru_cache(maxsize=64)
def _check_ess(value: bytes, certificate: bytes) -> None:
    """Hold signingCertificateV2 against the certificate; the same pair comes with every file of a key."""
    what = "signingCertificateV2"
    signer = _read_certificate(certificate)
    outer = Reader(value, what).take().reader(what)
    identifiers = outer.take(SEQUENCE).reader(what)
    outer.finish()
    identifier = identifiers.take(SEQUENCE).reader(what)
    identifiers.finish()
    digest = name_digest(identifier.take(SEQUENCE)) if identifier.next_is(SEQUENCE) else "sha256"
    if identifier.take(OCTET_STRING).content != hashlib.new(digest, certificate).digest():
        raise CheckFailed("The signed attribute signingCertificateV2 names another certificate than the signer's.")
    if not identifier.at_end:
        names = identifier.take(SEQUENCE).reader(what)
        general = names.take(SEQUENCE).reader(what)
        issuer = general.take(0xA4).content
        general.finish()
        serial = names.take(INTEGER).encoded
        names.finish()
        if (issuer, serial) != (signer.issuer, signer.serial):
            raise CheckFailed("The signed attribute signingCertificateV2 names another issuer or serial number.")
    identifier.finish()


def _read_time(value: Element) -> datetime.datetime:
    match = _TIMES[value.tag].fullmatch(value.content) if value.tag in _TIMES else None
    if match is None:
        raise CheckFailed("The signed attribute signingTime is not a time.")
    year, month, day, hour, minute, second = map(int, match.groups())
    if value.tag == 0x17:
        # RFC 5280 4.1.2.5.1: two digits from 50 on mean 19xx.
        year += 1900 if year >= 50 else 2000
    try:
        return datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError as error:
        raise CheckFailed("The signed attribute signingTime is not a time.") from error


def _name_signature(algorithm: bytes, signer: _Signer) -> tuple[KeyAlgorithm, str]:
    if isinstance(signer.public_key, rsa.RSAPublicKey) and algorithm in _RSA:
        return KeyAlgorithm.RSA, _RSA[algorithm]
    if isinstance(signer.public_key, ec.EllipticCurvePublicKey) and algorithm in _ECDSA:
        return KeyAlgorithm.ECDSA, _ECDSA[algorithm]
    raise CheckFailed("The signature algorithm is not one of the policies, or does not fit the signer's key.")


def _verify(signer: _Signer, value: bytes, signed: bytes, digest: hashes.HashAlgorithm) -> None:
    try:
        if isinstance(signer.public_key, rsa.RSAPublicKey):
            signer.public_key.verify(value, signed, padding.PKCS1v15(), digest)
        else:
            signer.public_key.verify(value, signed, ec.ECDSA(digest))
    except InvalidSignature as error:
        raise CheckFailed("The signature value does not verify with the signer's certificate.") from error


@functools.lru_cache(maxsize=64)
def _read_certificate(certificate: bytes) -> _Signer:
    try:
        public_key = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise CheckFailed("The expected certificate cannot be read.") from error
    if not isinstance(public_key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise CheckFailed("The expected certificate has neither an RSA nor an ECDSA key.")
    outer = Reader(certificate, "certificate").take(SEQUENCE)
    fields = outer.reader("certificate").take(SEQUENCE).reader("certificate")
    if fields.next_is(0xA0):
        fields.take()
    serial = fields.take(INTEGER).encoded
    fields.take(SEQUENCE)
    return _Signer(public_key, issuer=fields.take(SEQUENCE).encoded, serial=serial)


@functools.lru_cache(maxsize=16)
def _list_certificates(held: bytes) -> tuple[bytes, ...]:
    return tuple(member.encoded for member in Reader(held, "CMS certificates").take_all())


def _check_issuers(certificate: bytes, certificates: tuple[bytes, ...]) -> None:
    """Follow the issuers that are inside up from the signer; a damaged one would make the file useless elsewhere."""
    others = tuple(encoded for encoded in certificates if encoded != certificate)
    if len(others) + 1 != len(certificates):
        raise CheckFailed("The signer's certificate is there twice.")
    if others and not _links_up(certificate, others):
        raise CheckFailed("A certificate beside the signer's is damaged, or is not of the signer's chain.")


@functools.lru_cache(maxsize=64)
def _links_up(certificate: bytes, others: tuple[bytes, ...]) -> bool:
    try:
        current = x509.load_der_x509_certificate(certificate)
        left = [x509.load_der_x509_certificate(encoded) for encoded in others]
        while left:
            issuer = next((candidate for candidate in left if candidate.subject == current.issuer), None)
            if issuer is None:
                return False
            current.verify_directly_issued_by(issuer)
            left.remove(issuer)
            current = issuer
    except (ValueError, TypeError, x509.InvalidVersion, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
