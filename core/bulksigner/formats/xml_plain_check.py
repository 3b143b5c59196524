"""Independent reader of plain XML signatures of the NF-e family: the check after signing (BEY-01, BEY-13, ICP-35)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import BinaryIO
from xml.parsers import expat

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from lxml import etree

from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Measured
from bulksigner.formats.model import Checked, CheckFailed, Expectation
from bulksigner.formats.xmldsig_check import (
    canonicalize_part,
    decode_base64,
    demand_attributes,
    demand_children,
    encode_ecdsa,
    parse_artifact,
    refuse_foreign_nodes,
)

__all__ = ["check_plain_xml"]

_NAMESPACE = "http://www.w3.org/2000/09/xmldsig#"
_DS = f"{{{_NAMESPACE}}}"
_INCLUSIVE = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
_TRANSFORMS = [f"{_NAMESPACE}enveloped-signature", _INCLUSIVE]
_LONGEST_SIGNATURE_BYTES = 64 * 1024
_MORE = "http://www.w3.org/2001/04/xmldsig-more#"
_DIGESTS: Mapping[str, str] = MappingProxyType(
    {
        "sha1": f"{_NAMESPACE}sha1",
        "sha256": "http://www.w3.org/2001/04/xmlenc#sha256",
        "sha512": "http://www.w3.org/2001/04/xmlenc#sha512",
    }
)
_METHODS: Mapping[str, tuple[KeyAlgorithm, str]] = MappingProxyType(
    {
        f"{_NAMESPACE}rsa-sha1": (KeyAlgorithm.RSA, "sha1"),
        f"{_MORE}rsa-sha256": (KeyAlgorithm.RSA, "sha256"),
        f"{_MORE}rsa-sha512": (KeyAlgorithm.RSA, "sha512"),
        f"{_MORE}ecdsa-sha256": (KeyAlgorithm.ECDSA, "sha256"),
        f"{_MORE}ecdsa-sha512": (KeyAlgorithm.ECDSA, "sha512"),
    }
)
_HASHES: Mapping[str, hashes.HashAlgorithm] = MappingProxyType(
    {
        "sha1": hashes.SHA1(),  # noqa: S303 - the tax authorities' exception, which the specification must name
        "sha256": hashes.SHA256(),
        "sha512": hashes.SHA512(),
    }
)


def check_plain_xml(artifact: BinaryIO, expectation: Expectation) -> Checked:
    """Check an artifact as read back from storage; raise `CheckFailed` with the first thing that is wrong."""
    limit = expectation.original.length + _LONGEST_SIGNATURE_BYTES
    artifact.seek(0)
    data = artifact.read(limit + 1)
    if len(data) > limit:
        raise CheckFailed(f"The signed file is more than {_LONGEST_SIGNATURE_BYTES} bytes longer than the original.")
    number = _find_added(data, expectation.original)
    root = parse_artifact(data)
    signature = list(root.iter(f"{_DS}Signature"))[number]
    algorithm, digest = _verify(root, signature, expectation.certificate, expectation.spec)
    return Checked(Measured(len(data), hashlib.sha256(data).digest()), algorithm, digest, None)


def _find_added(data: bytes, original: Measured) -> int:
    """Find the signature, by its number in document order, without which the file is the original, byte for byte."""
    added = len(data) - original.length
    for number, start in enumerate(_starts_of_signatures(data)):
        rest = hashlib.sha256(memoryview(data)[:start])
        rest.update(memoryview(data)[start + added :])
        if added > 0 and rest.digest() == original.sha256:
            return number
    raise CheckFailed("Without its signature the signed file is not the original, byte for byte.")


def _starts_of_signatures(data: bytes) -> list[int]:
    starts: list[int] = []
    parser = expat.ParserCreate(None, " ")

    def refuse(*_declaration: object) -> None:
        raise CheckFailed("The signed file has a DOCTYPE declaration.")

    def open_element(name: str, _attributes: object) -> None:
        if name == f"{_NAMESPACE} Signature":
            starts.append(parser.CurrentByteIndex)

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = open_element
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise CheckFailed(f"The signed file is not well-formed XML: {error}.") from error
    finally:
        parser.StartElementHandler = parser.StartDoctypeDeclHandler = None
    return starts


def _verify(
    root: etree._Element, signature: etree._Element, certificate: bytes, spec: SignatureSpec | None
) -> tuple[KeyAlgorithm, str]:
    refuse_foreign_nodes(signature)
    info, value, key_info = demand_children(signature, f"{_DS}SignedInfo", f"{_DS}SignatureValue", f"{_DS}KeyInfo")
    canonicalization, method, reference = demand_children(
        info, f"{_DS}CanonicalizationMethod", f"{_DS}SignatureMethod", f"{_DS}Reference"
    )
    (data,) = demand_children(key_info, f"{_DS}X509Data")
    (stated,) = demand_children(data, f"{_DS}X509Certificate")
    for element in (signature, info, value, key_info, data, stated):
        demand_attributes(element)
        if element.prefix:
            raise CheckFailed("The signature's elements have a prefix, which these documents must not have.")
    if decode_base64(stated) != certificate:
        raise CheckFailed("The X509Certificate is not the expected certificate.")
    if canonicalization.get("Algorithm") != _INCLUSIVE:
        raise CheckFailed("SignedInfo is not canonicalized with inclusive C14N 1.0.")
    named = _METHODS.get(method.get("Algorithm", ""))
    if named is None or named[1] != (spec.digest.value if spec is not None else "sha256"):
        raise CheckFailed(f"The signature algorithm {method.get('Algorithm', '')[:100]!r} is not allowed.")
    algorithm, digest = named
    _verify_reference(root, signature, reference, digest)
    _verify_value(certificate, algorithm, digest, decode_base64(value), canonicalize_part(info))
    return algorithm, digest


def _verify_reference(root: etree._Element, signature: etree._Element, reference: etree._Element, digest: str) -> None:
    """Demand one reference, to the element right before the signature, whose Id no other element has."""
    signed = signature.getprevious()
    demand_attributes(reference, "URI")
    if signed is None or signed.tail:
        raise CheckFailed("The signature does not stand right after the element that it signs.")
    identifier = signed.get("Id")
    carriers = [
        element
        for element in root.iter(etree.Element)
        if identifier in (element.get("Id"), element.get("ID"), element.get("id"))
    ]
    if not identifier or reference.get("URI") != f"#{identifier}" or carriers != [signed]:
        raise CheckFailed("The reference is not to the element before the signature, by an Id that it alone has.")
    transforms, method, value = demand_children(
        reference, f"{_DS}Transforms", f"{_DS}DigestMethod", f"{_DS}DigestValue"
    )
    if [one.get("Algorithm") for one in transforms] != _TRANSFORMS or any(len(one) for one in transforms):
        raise CheckFailed("The reference has other transforms than expected.")
    if method.get("Algorithm") != _DIGESTS[digest]:
        raise CheckFailed(f"The digest algorithm {method.get('Algorithm', '')[:100]!r} is not allowed.")
    if decode_base64(value) != hashlib.new(digest, canonicalize_part(signed)).digest():
        raise CheckFailed("The digest of the signed element does not match.")


def _verify_value(certificate: bytes, algorithm: KeyAlgorithm, digest: str, value: bytes, signed: bytes) -> None:
    public_key = x509.load_der_x509_certificate(certificate).public_key()
    try:
        if algorithm is KeyAlgorithm.RSA and isinstance(public_key, rsa.RSAPublicKey):
            public_key.verify(value, signed, padding.PKCS1v15(), _HASHES[digest])
        elif algorithm is KeyAlgorithm.ECDSA and isinstance(public_key, ec.EllipticCurvePublicKey):
            public_key.verify(encode_ecdsa(value, public_key), signed, ec.ECDSA(_HASHES[digest]))
        else:
            raise CheckFailed("The signature algorithm does not fit the key of the expected certificate.")
    except InvalidSignature as error:
        raise CheckFailed("The signature value does not verify with the expected certificate.") from error
