"""Composes what stands unsigned in a XAdES signature that proves itself: stamps, references, values, archive stamps.

ETSI TS 101 903 1.3.2, 7.3 to 7.7, for the policies of ICP-Brasil; EN 319 132-1, 5.4 and 5.5, for B-LT and B-LTA. As in
`xmldsig`, the text is its own canonical form but for the start tag of the element that a stamp covers.
"""

from __future__ import annotations

import datetime
import functools
import hashlib

import attrs
from cryptography import x509
from cryptography.x509 import ocsp

from bulksigner.contract.certificate import Digest, OpenedKey
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import Proof, SignatureSpec
from bulksigner.contract.signing import Proofs, Stamps, ValidationData
from bulksigner.formats.unsigned import encode_xml_stamp
from bulksigner.formats.xmldsig import DIGEST_METHODS, DS, MAX_TEXT_BYTES, Scope, encode_base64, escape_text

__all__ = ["Core", "UnsignedProperties", "issuer_serial"]

_XADES = "http://uri.etsi.org/01903/v1.3.2#"
_XADES_141 = "http://uri.etsi.org/01903/v1.4.1#"
_IN_SCOPE = {"ds": DS, "xades": _XADES}

_STAMP, _CERTIFICATE_REFS, _REVOCATION_REFS = "SignatureTimeStamp", "CompleteCertificateRefs", "CompleteRevocationRefs"
_REFS_STAMP, _CERTIFICATE_VALUES, _REVOCATION_VALUES = "SigAndRefsTimeStamp", "CertificateValues", "RevocationValues"
_ARCHIVE_STAMP, _ARCHIVE_STAMP_141 = "ArchiveTimeStamp", "xades141:ArchiveTimeStamp"

_ORDER = (
    _STAMP,
    _CERTIFICATE_REFS,
    _REVOCATION_REFS,
    _REFS_STAMP,
    _CERTIFICATE_VALUES,
    _REVOCATION_VALUES,
    _ARCHIVE_STAMP,
    _ARCHIVE_STAMP_141,
)
"""Each property stands after all that it covers or proves."""

_BASELINES = {
    Proof.VALUES: (_STAMP, _CERTIFICATE_VALUES, _REVOCATION_VALUES),
    Proof.ARCHIVE: (_STAMP, _CERTIFICATE_VALUES, _REVOCATION_VALUES, _ARCHIVE_STAMP_141),
}


@attrs.frozen
class Core:
    """A signature before anything unsigned is added; all but `scope` are canonical forms.

    `references` are what the references cover, in their order, joined.
    """

    scope: Scope
    references: bytes
    signed_info: bytes
    value: bytes
    key_info: bytes


class UnsignedProperties:
    """Makes the unsigned properties of one level for one key; safe in several threads where stamps and proofs are."""

    def __init__(self, key: OpenedKey, spec: SignatureSpec, stamps: Stamps, proofs: Proofs) -> None:
        wanted = spec.required_unsigned or _BASELINES[spec.proof]
        if not set(_ORDER).issuperset(wanted):
            raise PermanentFailure(f"{spec.name} asks for unsigned properties that are not made here.")
        self._names = tuple(name for name in _ORDER if name in wanted)
        self._key = key
        self._digest = spec.digest
        self._stamps = stamps
        self._proofs = proofs

    def encode(self, core: Core) -> str:
        """Return the `UnsignedProperties` of a signature.

        References are to the signer's chain; values are of the services' chains too, whose stamps stand before them.
        """
        signer = self._proofs.collect(self._key.certificate, self._key.chain)
        if len(signer.certificates) < 2 or not (signer.lists or signer.answers):
            raise PermanentFailure(
                "The signer's certificate has no issuer, so no revocation data proves it; sign with the policy B-B or "
                "AD-RB.",
                code="sign.certificate-invalid",
            )
        everything, parts = signer, dict[str, str]()
        for name in self._names:
            covered = self._covered_by(name, core, parts)
            if covered:
                token = self._stamps.stamp(covered)
                if _CERTIFICATE_VALUES in self._names and _CERTIFICATE_VALUES not in parts:
                    everything = everything.join(self._proofs.collect_stamp(token))
                parts[name] = encode_xml_stamp(token)
            elif name == _CERTIFICATE_REFS:
                parts[name] = _encode_certificate_refs(signer, self._digest)
            elif name == _REVOCATION_REFS:
                parts[name] = _encode_revocation_refs(signer, self._digest)
            elif name == _CERTIFICATE_VALUES:
                parts[name] = "".join(_value("EncapsulatedX509Certificate", one) for one in everything.certificates)
            else:
                parts[name] = _encode_revocation_values(everything)
        properties = "".join(_element(name, content) for name, content in parts.items())
        return (
            f"<xades:UnsignedProperties><xades:UnsignedSignatureProperties>{properties}"
            "</xades:UnsignedSignatureProperties></xades:UnsignedProperties>"
        )

    def _covered_by(self, name: str, core: Core, before: dict[str, str]) -> bytes:
        """Return what a time stamp covers, all of it canonical and in this order; nothing for other properties.

        `Object` has no part in it: ours holds nothing but the properties (TS 101 903, 7.7.1; EN 319 132-1, 5.5.2.2).
        """
        if name == _STAMP:
            return core.value
        if name not in (_REFS_STAMP, _ARCHIVE_STAMP, _ARCHIVE_STAMP_141):
            return b""
        properties = [
            f"{core.scope.start_tag(f'xades:{one}', _IN_SCOPE)}{content}</xades:{one}>".encode()
            for one, content in before.items()
        ]
        if name == _REFS_STAMP:
            return b"".join((core.value, *properties))
        return b"".join((core.references, core.signed_info, core.value, core.key_info, *properties))


def issuer_serial(certificate: x509.Certificate) -> str:
    """Return the `IssuerSerial` that names a certificate beside its digest."""
    return (
        f"<xades:IssuerSerial><ds:X509IssuerName>{escape_text(certificate.issuer.rfc4514_string())}"
        f"</ds:X509IssuerName><ds:X509SerialNumber>{certificate.serial_number}</ds:X509SerialNumber>"
        "</xades:IssuerSerial>"
    )


def _element(name: str, content: str) -> str:
    if name == _ARCHIVE_STAMP_141:
        return f'<{name} xmlns:xades141="{_XADES_141}">{content}</{name}>'
    return f"<xades:{name}>{content}</xades:{name}>"


def _encode_certificate_refs(data: ValidationData, digest: Digest) -> str:
    """Name the issuers up to the root; the signer's own certificate is named among what is signed (7.4.1)."""
    named = "".join(_certificate_ref(one, digest) for one in data.certificates[1:])
    return f"<xades:CertRefs>{named}</xades:CertRefs>"


def _encode_revocation_refs(data: ValidationData, digest: Digest) -> str:
    lists = "".join(_list_ref(one, digest) for one in data.lists)
    answers = "".join(_answer_ref(one, digest) for one in data.answers)
    return _group("CRLRefs", lists) + _group("OCSPRefs", answers)


def _encode_revocation_values(data: ValidationData) -> str:
    lists = "".join(_value("EncapsulatedCRLValue", one) for one in data.lists)
    answers = "".join(_value("EncapsulatedOCSPValue", one) for one in data.answers)
    return _group("CRLValues", lists) + _group("OCSPValues", answers)


def _group(name: str, content: str) -> str:
    return f"<xades:{name}>{content}</xades:{name}>" if content else ""


# A chain and its proof are the same for all files until the proof ends; lists may have megabytes.
@functools.lru_cache(maxsize=32)
def _value(name: str, der: bytes) -> str:
    encoded = encode_base64(der)
    if len(encoded) > MAX_TEXT_BYTES:
        raise PermanentFailure(
            f"A revocation list has {len(der)} bytes, and no XML file holds more than {MAX_TEXT_BYTES * 3 // 4} of "
            "them in one value. Sign with a policy that does not hold the lists themselves.",
            code="sign.failed",
        )
    return f"<xades:{name}>{encoded}</xades:{name}>"


@functools.lru_cache(maxsize=32)
def _certificate_ref(der: bytes, digest: Digest) -> str:
    named = issuer_serial(x509.load_der_x509_certificate(der))
    return f"<xades:Cert><xades:CertDigest>{_digest_of(der, digest)}</xades:CertDigest>{named}</xades:Cert>"


@functools.lru_cache(maxsize=32)
def _list_ref(der: bytes, digest: Digest) -> str:
    parsed = x509.load_der_x509_crl(der)
    number = ""
    for extension in parsed.extensions:
        if isinstance(extension.value, x509.CRLNumber):
            number = f"<xades:Number>{extension.value.crl_number}</xades:Number>"
    return (
        f"<xades:CRLRef><xades:DigestAlgAndValue>{_digest_of(der, digest)}</xades:DigestAlgAndValue>"
        f"<xades:CRLIdentifier><xades:Issuer>{escape_text(parsed.issuer.rfc4514_string())}</xades:Issuer>"
        f"<xades:IssueTime>{_time(parsed.last_update_utc)}</xades:IssueTime>{number}</xades:CRLIdentifier>"
        "</xades:CRLRef>"
    )


@functools.lru_cache(maxsize=32)
def _answer_ref(der: bytes, digest: Digest) -> str:
    """Name an OCSP response by its responder and its time; the digest is of the whole `OCSPResponse` (7.4.2)."""
    parsed = ocsp.load_der_ocsp_response(der)
    if parsed.responder_name is not None:
        responder = f"<xades:ByName>{escape_text(parsed.responder_name.rfc4514_string())}</xades:ByName>"
    else:
        responder = f"<xades:ByKey>{encode_base64(parsed.responder_key_hash or b'')}</xades:ByKey>"
    return (
        f"<xades:OCSPRef><xades:OCSPIdentifier><xades:ResponderID>{responder}</xades:ResponderID>"
        f"<xades:ProducedAt>{_time(parsed.produced_at_utc)}</xades:ProducedAt></xades:OCSPIdentifier>"
        f"<xades:DigestAlgAndValue>{_digest_of(der, digest)}</xades:DigestAlgAndValue></xades:OCSPRef>"
    )


def _digest_of(der: bytes, digest: Digest) -> str:
    value = encode_base64(hashlib.new(digest.value, der).digest())
    return (
        f'<ds:DigestMethod Algorithm="{DIGEST_METHODS[digest]}"></ds:DigestMethod>'
        f"<ds:DigestValue>{value}</ds:DigestValue>"
    )


def _time(moment: datetime.datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
