"""XAdES: of a document, of one element in it, or of a file beside it, with stamps and proof by its level (ICP-41)."""

from __future__ import annotations

import datetime
import hashlib
import secrets
from typing import BinaryIO
from urllib.parse import quote

import attrs
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from lxml import etree

from bulksigner.contract.certificate import Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.policy import CertificateElement, PolicyIdentifier, SignatureSpec
from bulksigner.contract.signing import Measured, Proofs, Stamps
from bulksigner.formats.measuring import MeasuringWriter, read_blocks, require_same
from bulksigner.formats.unsigned import encode_xml_timestamp
from bulksigner.formats.xml_element import find_named
from bulksigner.formats.xml_long_term import Core, UnsignedProperties, issuer_serial
from bulksigner.formats.xml_splice import Place, find_place, read_staged, splice
from bulksigner.formats.xmldsig import (
    C14N,
    DIGEST_METHODS,
    DS,
    ENVELOPED,
    SIGNATURE_METHODS,
    Scope,
    canonical_document,
    canonical_element,
    encode_base64,
    escape_text,
    parse_document,
    raw_ecdsa,
    reference,
    refuse_conflicts,
    signed_info,
)

__all__ = ["SIGNED_PROPERTIES_TYPE", "XADES", "XadesSigner", "look_at_xml", "read_document"]

XADES = "http://uri.etsi.org/01903/v1.3.2#"
SIGNED_PROPERTIES_TYPE = "http://uri.etsi.org/01903#SignedProperties"


class XadesSigner:
    """Signs XML files with one opened key by one row of specification; safe in several threads where the key is."""

    def __init__(
        self, key: OpenedKey, spec: SignatureSpec, *, stamps: Stamps | None = None, proofs: Proofs | None = None
    ) -> None:
        certificate = x509.load_der_x509_certificate(key.certificate)
        public_key = certificate.public_key()
        self._key = key
        self._spec = spec
        self._stamps = stamps
        self._proof: UnsignedProperties | None = None
        if stamps is not None and proofs is not None:
            self._proof = UnsignedProperties(key, spec, stamps, proofs)
        self._curve_bytes = (public_key.key_size + 7) // 8 if isinstance(public_key, ec.EllipticCurvePublicKey) else 0
        self._method = SIGNATURE_METHODS[key.algorithm, spec.digest]
        self._fixed_properties = _signing_certificate(certificate, key.certificate, spec) + _policy(spec.policy)
        self._key_info = _key_info(key)

    def sign(self, source: BinaryIO, target: BinaryIO, *, expected: Measured, signed_at: datetime.datetime) -> Measured:
        """Sign the file with the signature as the last child of its root; see `FileSigner`.

        `signed_at` must carry its offset. A root without an end tag (`<name/>`) is refused, since giving it one would
        change the bytes that were handed in (BEY-12).
        """
        if self._spec.xml_file:
            return self._sign_beside(source, target, expected=expected, signed_at=signed_at)
        data, place, root = read_document(source, expected)
        covered = _Covered.find(root, self._spec.xml_element, self._spec.digest)
        suffix = _free_suffix(data, place.codec)
        return splice(target, data, place, self._signature(Scope.of(root), covered, signed_at, suffix))

    def _sign_beside(
        self, source: BinaryIO, target: BinaryIO, *, expected: Measured, signed_at: datetime.datetime
    ) -> Measured:
        """Write the signature alone; it names the file beside it, of which it holds the digest (XMLDSig 1.1, 4.4.3)."""
        covered = _Covered.of_file(source, expected, self._spec)
        signature = self._signature(Scope({}, {}), covered, signed_at, secrets.token_hex(8))
        measuring = MeasuringWriter(target)
        measuring.write(f'<?xml version="1.0" encoding="UTF-8"?>\n{signature}\n'.encode())
        return measuring.measured

    def _signature(self, scope: Scope, covered: _Covered, signed_at: datetime.datetime, suffix: str) -> str:
        digest = self._spec.digest
        document_id, properties_id = f"reference-{suffix}", f"properties-{suffix}"
        properties = self._signed_properties(signed_at, document_id, covered.kind)
        start_tag = scope.start_tag("xades:SignedProperties", {"ds": DS, "xades": XADES}, properties_id)
        covered_properties = f"{start_tag}{properties}</xades:SignedProperties>".encode()
        info = signed_info(
            self._method,
            reference(
                uri=covered.uri,
                transforms=covered.transforms,
                digest=digest,
                value=covered.value,
                identifier=document_id,
            ),
            reference(
                uri=f"#{properties_id}",
                transforms=(C14N,),
                digest=digest,
                value=hashlib.new(digest.value, covered_properties).digest(),
                type_uri=SIGNED_PROPERTIES_TYPE,
            ),
        )
        covered_info = f"{scope.start_tag('ds:SignedInfo', {'ds': DS})}{info}</ds:SignedInfo>".encode()
        value = self._key.sign(covered_info, digest)
        if self._key.algorithm is KeyAlgorithm.ECDSA:
            value = raw_ecdsa(value, self._curve_bytes)
        encoded = encode_base64(value)
        unsigned = ""
        if self._stamps is not None:
            # What a stamp covers is the element, canonical (EN 319 132-1, 5.3).
            start_tag = scope.start_tag("ds:SignatureValue", {"ds": DS})
            covered_value = f"{start_tag}{encoded}</ds:SignatureValue>".encode()
            if self._proof is None:
                unsigned = encode_xml_timestamp(self._stamps.stamp(covered_value))
            else:
                start_tag = scope.start_tag("ds:KeyInfo", {"ds": DS})
                covered_key_info = f"{start_tag}{self._key_info.removeprefix('<ds:KeyInfo>')}".encode()
                references = covered.canonical + covered_properties
                unsigned = self._proof.encode(Core(scope, references, covered_info, covered_value, covered_key_info))
        return (
            f'<ds:Signature xmlns:ds="{DS}" Id="signature-{suffix}"><ds:SignedInfo>{info}</ds:SignedInfo>'
            f"<ds:SignatureValue>{encoded}</ds:SignatureValue>{self._key_info}"
            f'<ds:Object><xades:QualifyingProperties xmlns:xades="{XADES}" Target="#signature-{suffix}">'
            f'<xades:SignedProperties Id="{properties_id}">{properties}</xades:SignedProperties>'
            f"{unsigned}</xades:QualifyingProperties></ds:Object></ds:Signature>"
        )

    def _signed_properties(self, signed_at: datetime.datetime, document_id: str, kind: str) -> str:
        time = ""
        if self._spec.xades_signing_time:
            utc = signed_at.astimezone(datetime.UTC)
            time = f"<xades:SigningTime>{utc:%Y-%m-%dT%H:%M:%SZ}</xades:SigningTime>"
        return (
            f"<xades:SignedSignatureProperties>{time}{self._fixed_properties}</xades:SignedSignatureProperties>"
            f'<xades:SignedDataObjectProperties><xades:DataObjectFormat ObjectReference="#{document_id}">'
            f"<xades:MimeType>{kind}</xades:MimeType></xades:DataObjectFormat></xades:SignedDataObjectProperties>"
        )


@attrs.frozen
class _Covered:
    """What the document reference of a signature covers, and how it says so; `value` is its digest."""

    uri: str
    transforms: tuple[str, ...]
    value: bytes
    canonical: bytes = b""
    kind: str = "text/xml"

    @classmethod
    def of(cls, uri: str, transforms: tuple[str, ...], canonical: bytes, digest: Digest) -> _Covered:
        return cls(uri, transforms, hashlib.new(digest.value, canonical).digest(), canonical)

    @classmethod
    def of_file(cls, source: BinaryIO, expected: Measured, spec: SignatureSpec) -> _Covered:
        """Read a file of any kind, whose octets are covered as they are; raises `ContentChanged`."""
        length, measure, digest = 0, hashlib.sha256(), hashlib.new(spec.digest.value)
        for block in read_blocks(source):
            length += len(block)
            measure.update(block)
            digest.update(block)
        require_same(Measured(length, measure.digest()), expected)
        return cls(quote(spec.xml_file, safe=""), (), digest.digest(), kind="application/octet-stream")

    @classmethod
    def find(cls, root: etree._Element, name: str, digest: Digest) -> _Covered:
        """Find the element of a local name, or with none the whole document; raises `FormatRefused`."""
        if not name:
            return cls.of("", (ENVELOPED, C14N), canonical_document(root), digest)
        element, identifier = find_named(root, name)
        # The element may hide a namespace of the root that leaves our own elements without a canonical form.
        canonical_document(etree.Element(root.tag, nsmap=root.nsmap))  # type: ignore[arg-type] # stubs know no default
        # The signature becomes the last child of the root, so it is inside of the root alone.
        transforms = (ENVELOPED, C14N) if element is root else (C14N,)
        return cls.of(f"#{identifier}", transforms, canonical_element(element), digest)


def read_document(source: BinaryIO, expected: Measured) -> tuple[bytes, Place, etree._Element]:
    """Read a file, find where its signature goes, and parse it; raises `FormatRefused` where it cannot be signed."""
    data = read_staged(source, expected)
    place = find_place(data)
    root = parse_document(data)
    refuse_conflicts(root)
    return data, place, root


def look_at_xml(source: BinaryIO, expected: Measured, name: str = "") -> None:
    """Raise `FormatRefused` where `XadesSigner.sign` would, without a key (BEY-12); `name` is the element's, if any."""
    _, _, root = read_document(source, expected)
    _Covered.find(root, name, Digest.SHA256)


def _free_suffix(data: bytes, codec: str) -> str:
    """Draw the part that makes our `Id` values unique, anew while the document contains it anywhere."""
    while (suffix := secrets.token_hex(8)).encode(codec) in data:
        pass
    return suffix


def _key_info(key: OpenedKey) -> str:
    certificates = "".join(
        f"<ds:X509Certificate>{encode_base64(der)}</ds:X509Certificate>" for der in (key.certificate, *key.chain)
    )
    return f"<ds:KeyInfo><ds:X509Data>{certificates}</ds:X509Data></ds:KeyInfo>"


def _signing_certificate(certificate: x509.Certificate, der: bytes, spec: SignatureSpec) -> str:
    """Name the signer's certificate by digest, and by issuer and serial number in the first version only.

    The second version makes `IssuerSerialV2` a mere hint (EN 319 132-1, 5.2.2); it is left out.
    """
    named = ""
    if spec.xades_certificate_element is CertificateElement.SIGNING_CERTIFICATE:
        named = issuer_serial(certificate)
    name = spec.xades_certificate_element.value
    return (
        f'<xades:{name}><xades:Cert><xades:CertDigest><ds:DigestMethod Algorithm="{DIGEST_METHODS[spec.digest]}">'
        f"</ds:DigestMethod><ds:DigestValue>{encode_base64(hashlib.new(spec.digest.value, der).digest())}"
        f"</ds:DigestValue></xades:CertDigest>{named}</xades:Cert></xades:{name}>"
    )


def _policy(policy: PolicyIdentifier | None) -> str:
    """Name the signature policy by OID, digest and address (ICP-06)."""
    if policy is None:
        return ""
    transforms = ""
    if policy.transform:
        named = f'<ds:Transform Algorithm="{policy.transform}"></ds:Transform>'
        transforms = f"<ds:Transforms>{named}</ds:Transforms>"
    return (
        "<xades:SignaturePolicyIdentifier><xades:SignaturePolicyId><xades:SigPolicyId>"
        f'<xades:Identifier Qualifier="OIDAsURN">urn:oid:{policy.oid}</xades:Identifier></xades:SigPolicyId>'
        f"{transforms}"
        f'<xades:SigPolicyHash><ds:DigestMethod Algorithm="{DIGEST_METHODS[policy.digest]}"></ds:DigestMethod>'
        f"<ds:DigestValue>{encode_base64(policy.value)}</ds:DigestValue></xades:SigPolicyHash>"
        f"<xades:SigPolicyQualifiers><xades:SigPolicyQualifier><xades:SPURI>{escape_text(policy.uri)}</xades:SPURI>"
        "</xades:SigPolicyQualifier></xades:SigPolicyQualifiers></xades:SignaturePolicyId>"
        "</xades:SignaturePolicyIdentifier>"
    )
