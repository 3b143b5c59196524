"""Independent reader of XAdES artifacts that hold their signature: the check after signing (BEY-01, ICP-32).

Nothing here is shared with the signer. The signature must be the last bytes before the root's end tag, and the file
without them must be the original: that pins every byte outside the signature. Inside, only what our
signatures need is known; anything else is refused, so that nothing unsigned can hide there.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import itertools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import BinaryIO
from urllib.parse import unquote

import attrs
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from lxml import etree

from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.policy import PolicyIdentifier, SignatureSpec
from bulksigner.contract.signing import Measured
from bulksigner.formats.model import Checked, CheckFailed, Expectation
from bulksigner.formats.policy_check import check_attributes, check_key, check_moment
from bulksigner.formats.stamp_check import check_token
from bulksigner.formats.xml_long_term_check import MAX_PROOF_BYTES, ProofCheck
from bulksigner.formats.xmldsig_check import (
    canonicalize,
    canonicalize_part,
    decode_base64,
    demand_attributes,
    demand_children,
    encode_ecdsa,
    find_last_child,
    parse_artifact,
    read_digest_method,
    refuse_foreign_nodes,
)

__all__ = ["MAX_SIGNATURE_BYTES", "check_xml"]

MAX_SIGNATURE_BYTES = 1024 * 1024
"""Most that a signature may add to the original, where it holds no revocation lists."""

_DS = "{http://www.w3.org/2000/09/xmldsig#}"
_ETSI = "{http://uri.etsi.org/01903/v1.3.2#}"
_INCLUSIVE = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
_DOCUMENT_TRANSFORMS = ["http://www.w3.org/2000/09/xmldsig#enveloped-signature", _INCLUSIVE]
_PROPERTIES_TYPE = "http://uri.etsi.org/01903#SignedProperties"

_HASHES: Mapping[str, hashes.HashAlgorithm] = MappingProxyType({"sha256": hashes.SHA256(), "sha512": hashes.SHA512()})
_METHOD = re.compile(r"http://www\.w3\.org/2001/04/xmldsig-more#(rsa|ecdsa)-(sha256|sha512)")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)")
_IDENTIFIERS = etree.XPath(
    "//@*[local-name() = 'Id' or local-name() = 'ID' or local-name() = 'id'][. = $first or . = $second or . = $third]",
    smart_strings=False,
)
_CARRIERS = etree.XPath("//*[@Id = $wanted or @ID = $wanted or @id = $wanted or @xml:id = $wanted]")


def check_xml(artifact: BinaryIO, expectation: Expectation) -> Checked:
    """Check an artifact as read back from storage against what it must hold.

    Raises `CheckFailed` with the first thing that is wrong; malformed content raises nothing else.
    """
    spec = expectation.spec
    if spec is not None and spec.xml_file:
        return _check_beside(artifact, expectation, spec)
    is_proven = spec is not None and spec.is_proven
    most = MAX_PROOF_BYTES if is_proven else MAX_SIGNATURE_BYTES
    limit = expectation.original.length + most
    artifact.seek(0)
    data = artifact.read(limit + 1)
    if len(data) > limit:
        raise CheckFailed(f"The signed file is more than {most} bytes longer than the original.")
    start, end = find_last_child(data, len(data) - expectation.original.length)
    view = memoryview(data)
    whole = hashlib.sha256(view[:start])
    original = whole.copy()
    original.update(view[end:])
    whole.update(view[start:])
    if (len(data) - end + start, original.digest()) != (expectation.original.length, expectation.original.sha256):
        raise CheckFailed("Without its signature the signed file is not the original, byte for byte.")
    root = parse_artifact(data)
    parts = _Parts.read(root[-1], is_stamped=spec is not None and spec.is_stamped)
    algorithm, digest, signing_time = _verify_signer(parts, expectation)
    proof = None
    if spec is not None and parts.unsigned is not None:
        if spec.is_proven:
            proof = ProofCheck.read(parts.unsigned, parts.value_element, parts.signed_info, parts.key_info, spec)
        else:
            token = _read_token(parts.unsigned)
            check_token(token, canonicalize_part(parts.value_element), spec, expectation.judge_stamp)
    covered = _verify_references(root, parts, spec.xml_element if spec is not None else "")
    if proof is not None:
        proof.check(covered, parts.certificates, expectation)
    return Checked(Measured(len(data), whole.digest()), algorithm, digest, signing_time)


def _check_beside(artifact: BinaryIO, expectation: Expectation, spec: SignatureSpec) -> Checked:
    """Check a signature that lies alone, beside the file of which it holds the digest."""
    artifact.seek(0)
    data = artifact.read(MAX_SIGNATURE_BYTES + 1)
    if len(data) > MAX_SIGNATURE_BYTES:
        raise CheckFailed(f"The signature is longer than {MAX_SIGNATURE_BYTES} bytes.")
    root = parse_artifact(data)
    if root.getprevious() is not None or root.getnext() is not None:
        raise CheckFailed("Beside the signature the file holds something else.")
    parts = _Parts.read(root, is_stamped=spec.is_stamped)
    algorithm, digest, signing_time = _verify_signer(parts, expectation)
    if parts.unsigned is not None:
        token = _read_token(parts.unsigned)
        check_token(token, canonicalize_part(parts.value_element), spec, expectation.judge_stamp)
    _verify_identifiers(root, parts)
    method, value = demand_children(parts.document_reference, f"{_DS}DigestMethod", f"{_DS}DigestValue")
    if unquote(parts.document_reference.get("URI", ""), errors="strict") != spec.xml_file:
        raise CheckFailed("The first reference is not to the file that was signed.")
    found = decode_base64(value)
    if (read_digest_method(method), found) != ("sha256", expectation.original.sha256):
        raise CheckFailed("The digest of the file that was signed does not match.")
    _verify_properties_reference(parts)
    return Checked(Measured(len(data), hashlib.sha256(data).digest()), algorithm, digest, signing_time)


def _verify_signer(parts: _Parts, expectation: Expectation) -> tuple[KeyAlgorithm, str, datetime.datetime | None]:
    """Verify value, certificates and signed properties; return algorithm, digest and the time that is stated."""
    algorithm, digest = _verify_value(parts, expectation.certificate)
    _verify_certificates(parts, expectation.certificate)
    signing_time = _verify_properties(parts, expectation.certificate, expectation.spec)
    if expectation.spec is not None:
        check_key(_load(expectation.certificate).public_key(), algorithm, digest, expectation.spec)
    return algorithm, digest, signing_time


@attrs.frozen
class _Parts:
    """The elements of the signature, each found where it must be and nowhere else."""

    signature: etree._Element
    signed_info: etree._Element
    method: str
    document_reference: etree._Element
    properties_reference: etree._Element
    value_element: etree._Element
    value: bytes
    certificates: tuple[bytes, ...]
    signed_properties: etree._Element
    key_info: etree._Element
    unsigned: etree._Element | None

    @classmethod
    def read(cls, signature: etree._Element, *, is_stamped: bool) -> _Parts:
        if signature.tag != f"{_DS}Signature":
            raise CheckFailed("The last element of the document is not a ds:Signature.")
        refuse_foreign_nodes(signature)
        demand_attributes(signature, "Id")
        info, value, key_info, container = demand_children(
            signature, f"{_DS}SignedInfo", f"{_DS}SignatureValue", f"{_DS}KeyInfo", f"{_DS}Object"
        )
        canonicalization, method, document, properties = demand_children(
            info,
            f"{_DS}CanonicalizationMethod",
            f"{_DS}SignatureMethod",
            f"{_DS}Reference",
            f"{_DS}Reference",
        )
        demand_children(canonicalization)
        if canonicalization.get("Algorithm") != _INCLUSIVE:
            raise CheckFailed("SignedInfo is not canonicalized with inclusive C14N 1.0.")
        (data,) = demand_children(key_info, f"{_DS}X509Data")
        (qualifying,) = demand_children(container, f"{_ETSI}QualifyingProperties")
        demand_attributes(qualifying, "Target")
        if qualifying.get("Target") != f"#{signature.get('Id')}":
            raise CheckFailed("The qualifying properties belong to another signature.")
        beside = (f"{_ETSI}UnsignedProperties",) if is_stamped else ()
        signed_properties, *unsigned = demand_children(qualifying, f"{_ETSI}SignedProperties", *beside)
        for element in (info, value, key_info, data, container, *data):
            demand_attributes(element)
        if not len(data) or any(child.tag != f"{_DS}X509Certificate" for child in data):
            raise CheckFailed("X509Data does not hold certificates only.")
        return cls(
            signature=signature,
            signed_info=info,
            method=method.get("Algorithm", ""),
            document_reference=document,
            properties_reference=properties,
            value_element=value,
            value=decode_base64(value),
            certificates=tuple(decode_base64(child) for child in data),
            signed_properties=signed_properties,
            key_info=key_info,
            unsigned=unsigned[0] if unsigned else None,
        )


def _read_token(unsigned: etree._Element) -> bytes:
    """Read the one time stamp, which must be all that is unsigned."""
    (properties,) = demand_children(unsigned, f"{_ETSI}UnsignedSignatureProperties")
    (stamp,) = demand_children(properties, f"{_ETSI}SignatureTimeStamp")
    method, token = demand_children(stamp, f"{_DS}CanonicalizationMethod", f"{_ETSI}EncapsulatedTimeStamp")
    for element in (unsigned, properties, stamp, token):
        demand_attributes(element)
    demand_children(method)
    if method.get("Algorithm") != _INCLUSIVE:
        raise CheckFailed("The time stamp is not over the canonical form of inclusive C14N 1.0.")
    return decode_base64(token)


def _verify_value(parts: _Parts, certificate: bytes) -> tuple[KeyAlgorithm, str]:
    """Verify the signature value over SignedInfo with the expected certificate."""
    named = _METHOD.fullmatch(parts.method)
    if named is None:
        raise CheckFailed(f"The signature algorithm {parts.method[:100]!r} is not allowed.")
    algorithm, digest = KeyAlgorithm(named[1]), named[2]
    public_key = _load(certificate).public_key()
    signed = canonicalize_part(parts.signed_info)
    try:
        if algorithm is KeyAlgorithm.RSA and isinstance(public_key, rsa.RSAPublicKey):
            public_key.verify(parts.value, signed, padding.PKCS1v15(), _HASHES[digest])
        elif algorithm is KeyAlgorithm.ECDSA and isinstance(public_key, ec.EllipticCurvePublicKey):
            public_key.verify(encode_ecdsa(parts.value, public_key), signed, ec.ECDSA(_HASHES[digest]))
        else:
            raise CheckFailed("The signature algorithm does not fit the key of the expected certificate.")
    except InvalidSignature as error:
        raise CheckFailed("The signature value does not verify with the expected certificate.") from error
    return algorithm, digest


def _verify_certificates(parts: _Parts, certificate: bytes) -> None:
    """Demand the expected certificate first, and its chain after it."""
    if parts.certificates[0] != certificate:
        raise CheckFailed("The first X509Certificate is not the expected certificate.")
    _verify_chain(parts.certificates)


@functools.lru_cache(maxsize=64)
def _load(der: bytes) -> x509.Certificate:
    return x509.load_der_x509_certificate(der)


@functools.lru_cache(maxsize=64)
def _verify_chain(certificates: tuple[bytes, ...]) -> None:
    """Demand that each certificate issued the one before it, and a root itself; whom to trust is decided elsewhere."""
    try:
        loaded = [x509.load_der_x509_certificate(der) for der in certificates]
        if loaded[-1].subject == loaded[-1].issuer:
            loaded.append(loaded[-1])
        for subject, issuer in itertools.pairwise(loaded):
            subject.verify_directly_issued_by(issuer)
    except Exception as error:  # damaged certificates are parsed late, with errors of many unrelated kinds
        raise CheckFailed("X509Data holds a certificate that is damaged or did not issue the one before it.") from error


def _verify_properties(parts: _Parts, certificate: bytes, spec: SignatureSpec | None) -> datetime.datetime | None:
    """Demand that the signed properties name the certificate and the policy; return the signing time they state."""
    found: dict[str, etree._Element] = {}
    for element in parts.signed_properties.iterfind(f"{_ETSI}SignedSignatureProperties/*"):
        name = str(element.tag).removeprefix(_ETSI)
        if name in found:
            raise CheckFailed(f"The signed properties hold {name} twice.")
        found[name] = element
    named = [found[name] for name in ("SigningCertificate", "SigningCertificateV2") if name in found]
    if len(named) != 1:
        raise CheckFailed("The signed properties do not name one signing certificate.")
    (cert,) = demand_children(named[0], f"{_ETSI}Cert")
    if not len(cert) or cert[0].tag != f"{_ETSI}CertDigest":
        raise CheckFailed("The signing certificate is named without its digest.")
    digest_method, digest_value = demand_children(cert[0], f"{_DS}DigestMethod", f"{_DS}DigestValue")
    if decode_base64(digest_value) != hashlib.new(read_digest_method(digest_method), certificate).digest():
        raise CheckFailed("The signed properties name another certificate.")
    serial = cert.findtext(f"{_ETSI}IssuerSerial/{_DS}X509SerialNumber")
    if serial is not None and serial != str(_load(certificate).serial_number):
        raise CheckFailed("The signed properties name another serial number.")
    moment = _time(found["SigningTime"].text or "") if "SigningTime" in found else None
    if spec is not None:
        if etree.QName(named[0]).localname != spec.xades_certificate_element.value:
            raise CheckFailed(f"The signed properties lack {spec.xades_certificate_element.value}.")
        check_attributes(found, spec)
        _verify_policy(found.get("SignaturePolicyIdentifier"), spec.policy)
        check_moment(moment, spec)
    return moment


def _verify_policy(element: etree._Element | None, expected: PolicyIdentifier | None) -> None:
    """Hold the policy identifier against the table: identifier, transform, hash, and the one qualifier (ICP-32)."""
    if expected is None:
        if element is not None:
            raise CheckFailed("The signature names a signature policy, where it should name none.")
        return
    if element is None:
        raise CheckFailed("The signed property SignaturePolicyIdentifier is missing.")
    (policy,) = demand_children(element, f"{_ETSI}SignaturePolicyId")
    transforms = (f"{_DS}Transforms",) if expected.transform else ()
    identity, *named, hashed, qualifiers = demand_children(
        policy, f"{_ETSI}SigPolicyId", *transforms, f"{_ETSI}SigPolicyHash", f"{_ETSI}SigPolicyQualifiers"
    )
    (identifier,) = demand_children(identity, f"{_ETSI}Identifier")
    if (identifier.get("Qualifier"), identifier.text) != ("OIDAsURN", f"urn:oid:{expected.oid}"):
        raise CheckFailed(f"The signature names another policy than {expected.oid}.")
    if named and [one.get("Algorithm") for one in demand_children(named[0], f"{_DS}Transform")] != [expected.transform]:
        raise CheckFailed(f"The signature names the policy {expected.oid} with another transform.")
    method, value = demand_children(hashed, f"{_DS}DigestMethod", f"{_DS}DigestValue")
    if (read_digest_method(method), decode_base64(value)) != (expected.digest.value, expected.value):
        raise CheckFailed(f"The signature names the policy {expected.oid} with another hash than the policy table's.")
    (qualifier,) = demand_children(qualifiers, f"{_ETSI}SigPolicyQualifier")
    (uri,) = demand_children(qualifier, f"{_ETSI}SPURI")
    if uri.text != expected.uri:
        raise CheckFailed(f"The signature names the policy {expected.oid} with another address than the table's.")


def _time(text: str) -> datetime.datetime:
    refusal = f"The signing time {text[:100]!r} is not a time with an offset."
    if not _TIME.fullmatch(text):
        raise CheckFailed(refusal)
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise CheckFailed(refusal) from error


def _verify_references(root: etree._Element, parts: _Parts, name: str) -> tuple[bytes, bytes]:
    """Verify both digests and return what they are of; takes the signature out of the tree.

    The first is of the one element of the local `name`, or where it is empty of the whole document.
    """
    _verify_identifiers(root, parts)
    element = _find_element(root, parts, name) if name else None
    if element is None and parts.document_reference.get("URI") != "":
        raise CheckFailed("The first reference is not to the whole document.")
    properties = _verify_properties_reference(parts)
    root.remove(parts.signature)
    document = canonicalize(root.getroottree()) if element is None else canonicalize_part(element)
    transforms = _DOCUMENT_TRANSFORMS if element is None or element is root else [_INCLUSIVE]
    _compare(parts.document_reference, transforms, document, "document" if element is None else f"element {name}")
    return document, properties


def _verify_identifiers(root: etree._Element, parts: _Parts) -> None:
    """Demand that each Id of the signature is there once, and that the references have the attributes they need."""
    identifiers = [
        element.get("Id", "") for element in (parts.signature, parts.signed_properties, parts.document_reference)
    ]
    first, second, third = identifiers
    seen = _IDENTIFIERS(root, first=first, second=second, third=third)
    if not isinstance(seen, list) or sorted(map(str, seen)) != sorted(identifiers) or "" in identifiers:
        raise CheckFailed("An Id of the signature is missing, or occurs more than once in the document.")
    demand_attributes(parts.document_reference, "Id", "URI")
    demand_attributes(parts.properties_reference, "Type", "URI")


def _verify_properties_reference(parts: _Parts) -> bytes:
    """Verify the reference to the signed properties, and return what it is of."""
    named = (parts.properties_reference.get("Type"), parts.properties_reference.get("URI"))
    if named != (_PROPERTIES_TYPE, f"#{parts.signed_properties.get('Id')}"):
        raise CheckFailed("The second reference is not to the signed properties of this signature.")
    properties = canonicalize_part(parts.signed_properties)
    _compare(parts.properties_reference, [_INCLUSIVE], properties, "signed properties")
    return properties


def _find_element(root: etree._Element, parts: _Parts, name: str) -> etree._Element:
    """Find the one element of a name outside of our signature; the first reference must be to an Id it alone has."""
    ours = set(parts.signature.iter())
    found = [one for one in root.iter(f"{{*}}{name}") if one not in ours]
    if len(found) != 1:
        raise CheckFailed(f"The document has {len(found)} elements {name}, where it must have one.")
    uri = parts.document_reference.get("URI", "")
    if uri not in {f"#{found[0].get(kind)}" for kind in ("Id", "ID", "id") if found[0].get(kind)}:
        raise CheckFailed(f"The first reference is not to the element {name}.")
    if _CARRIERS(root, wanted=uri.removeprefix("#")) != found:
        raise CheckFailed(f"The Id of the element {name} occurs more than once in the document.")
    return found[0]


def _compare(reference: etree._Element, transforms: list[str], canonical: bytes, what: str) -> None:
    named, method, value = demand_children(reference, f"{_DS}Transforms", f"{_DS}DigestMethod", f"{_DS}DigestValue")
    if [child.get("Algorithm") for child in named] != transforms or any(len(child) for child in named):
        raise CheckFailed(f"The reference to the {what} has other transforms than expected.")
    if decode_base64(value) != hashlib.new(read_digest_method(method), canonical).digest():
        raise CheckFailed(f"The digest of the {what} does not match.")
