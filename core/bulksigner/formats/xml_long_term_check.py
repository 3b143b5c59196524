"""Independent reader of the proof in XAdES artifacts: what stands unsigned at the levels beyond a time stamp (PERF-04).

Exactly the properties of the level, each in its place and strictly of its form. Stamps cover what they must, references
name what is there, and what is there proves the signer and the services that stamped before it.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable

import attrs
from cryptography import x509
from cryptography.x509 import ocsp
from lxml import etree

from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.policy import Proof, SignatureSpec
from bulksigner.contract.signing import ValidationData
from bulksigner.formats.evidence_check import check_evidence
from bulksigner.formats.model import CheckFailed, Expectation, ProofJudge
from bulksigner.formats.stamp_check import check_token
from bulksigner.formats.xmldsig_check import (
    canonicalize_part,
    decode_base64,
    demand_attributes,
    demand_children,
    read_digest_method,
)

__all__ = ["MAX_PROOF_BYTES", "ProofCheck"]

MAX_PROOF_BYTES = 64 * 1024 * 1024
"""Most that a signature with its revocation lists may add to the original."""

_DS = "{http://www.w3.org/2000/09/xmldsig#}"
_ETSI = "{http://uri.etsi.org/01903/v1.3.2#}"
_ETSI_141 = "{http://uri.etsi.org/01903/v1.4.1#}"
_INCLUSIVE = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"

_BASELINE = (f"{_ETSI}SignatureTimeStamp", f"{_ETSI}CertificateValues", f"{_ETSI}RevocationValues")
_SEQUENCE = tuple(
    f"{_ETSI}{name}"
    for name in (
        "SignatureTimeStamp",
        "CompleteCertificateRefs",
        "CompleteRevocationRefs",
        "SigAndRefsTimeStamp",
        "CertificateValues",
        "RevocationValues",
        "ArchiveTimeStamp",
    )
)
_STAMPS = frozenset(name for name in (*_SEQUENCE, f"{_ETSI_141}ArchiveTimeStamp") if name.endswith("TimeStamp"))


@attrs.frozen
class ProofCheck:
    """The unsigned properties of a signature, read while the signature is in its document.

    `canonical` are the canonical forms of the properties, and of the parts of the signature by their names.
    """

    properties: tuple[etree._Element, ...]
    canonical: tuple[bytes, ...]
    value: bytes
    around: tuple[bytes, bytes]

    @classmethod
    def read(
        cls,
        unsigned: etree._Element,
        value: etree._Element,
        signed_info: etree._Element,
        key_info: etree._Element,
        spec: SignatureSpec,
    ) -> ProofCheck:
        """Read what is unsigned, which must be the properties of the level and nothing else."""
        (container,) = _take(unsigned, f"{_ETSI}UnsignedSignatureProperties")
        found = tuple(_take(container, *_list_expected(spec)))
        return cls(
            properties=found,
            canonical=tuple(canonicalize_part(one) for one in found),
            value=canonicalize_part(value),
            around=(canonicalize_part(signed_info), canonicalize_part(key_info)),
        )

    def check(self, references: Iterable[bytes], certificates: tuple[bytes, ...], expectation: Expectation) -> None:
        """Check everything; `references` are what the references of the signature cover, in their order.

        `certificates` are those beside the signature, the signer's first.
        """
        spec, judge = expectation.spec, expectation.proof_judge
        if spec is None or judge is None:
            raise CheckFailed("The signature carries its proof, and nothing here tells whom to trust (Signing:Trust).")
        named = dict(zip((str(one.tag) for one in self.properties), self.properties, strict=True))
        tokens = []
        for place, (name, element) in enumerate(named.items()):
            if name not in _STAMPS:
                continue
            before = self.canonical[:place]
            covered = (self.value, *before)
            if name.endswith("ArchiveTimeStamp"):
                info, key_info = self.around
                covered = (*references, info, self.value, key_info, *before)
            token = _read_stamp(element)
            check_token(token, b"".join(covered), spec, expectation.judge_stamp)
            if not any(one.endswith("CertificateValues") for one in list(named)[:place]):
                tokens.append(token)
        values = named.get(f"{_ETSI}CertificateValues"), named.get(f"{_ETSI}RevocationValues")
        data = None if values[0] is None or values[1] is None else _read_values(values[0], values[1])
        refs = named.get(f"{_ETSI}CompleteCertificateRefs"), named.get(f"{_ETSI}CompleteRevocationRefs")
        proof = data
        if refs[0] is not None and refs[1] is not None:
            proof = _check_references(refs[0], refs[1], certificates, data)
        if data is not None and proof is not None:
            leaves = (certificates[0], *(judge.list_certificates(token)[0] for token in tokens))
            known = tuple(dict.fromkeys((*leaves, *data.certificates)))
            check_evidence(leaves, attrs.evolve(data, certificates=known))
            _judge(judge, certificates[0], tokens, proof, data)


def _list_expected(spec: SignatureSpec) -> tuple[str, ...]:
    if spec.required_unsigned:
        wanted = {f"{_ETSI}{name}" for name in spec.required_unsigned}
        if not wanted <= set(_SEQUENCE):
            raise CheckFailed(f"{spec.name} asks for unsigned properties that no check here knows.")
        return tuple(name for name in _SEQUENCE if name in wanted)
    return (*_BASELINE, f"{_ETSI_141}ArchiveTimeStamp") if spec.proof is Proof.ARCHIVE else _BASELINE


def _judge(
    judge: ProofJudge, certificate: bytes, tokens: list[bytes], proof: ValidationData, data: ValidationData
) -> None:
    """Have what is named, or all where nothing is named, prove the signer, and all prove the services."""
    try:
        judge.judge_signer(certificate, proof)
        for token in tokens:
            judge.judge_stamp(token, data)
    except BulkSignerError as error:
        raise CheckFailed(f"What the signature carries does not prove it: {error.message.rstrip('.')}.") from error


def _take(element: etree._Element, *names: str) -> list[etree._Element]:
    demand_attributes(element)
    return demand_children(element, *names)


def _take_group(element: etree._Element, group: str, name: str) -> list[etree._Element]:
    """Return the members of a group among the children, which are groups; one that is there is not empty."""
    found = element.find(f"{_ETSI}{group}")
    if found is None:
        return []
    members = _take(found, *(f"{_ETSI}{name}" for _ in found))
    if not members:
        raise CheckFailed(f"{group} is empty.")
    return members


def _demand_groups(element: etree._Element, *allowed: str) -> None:
    present = [name for name in allowed if element.find(f"{_ETSI}{name}") is not None]
    if not present:
        raise CheckFailed(f"{etree.QName(element).localname} is empty.")
    _take(element, *(f"{_ETSI}{name}" for name in present))


def _read_stamp(stamp: etree._Element) -> bytes:
    method, token = _take(stamp, f"{_DS}CanonicalizationMethod", f"{_ETSI}EncapsulatedTimeStamp")
    _demand_method(method)
    demand_attributes(token)
    if method.get("Algorithm") != _INCLUSIVE:
        raise CheckFailed("A time stamp is not over the canonical form of inclusive C14N 1.0.")
    return decode_base64(token)


def _demand_method(method: etree._Element) -> None:
    demand_attributes(method, "Algorithm")
    demand_children(method)
    if method.text:
        raise CheckFailed(f"{etree.QName(method).localname} holds text.")


def _text(element: etree._Element) -> str:
    _take(element)
    return element.text or ""


def _read_bytes(element: etree._Element) -> bytes:
    demand_attributes(element)
    return decode_base64(element)


def _read_values(certificates: etree._Element, revocation: etree._Element) -> ValidationData:
    """Read the values, each of which is there once."""
    kind = f"{_ETSI}EncapsulatedX509Certificate"
    held = tuple(_read_bytes(one) for one in _take(certificates, *(kind for _ in certificates)))
    _demand_groups(revocation, "CRLValues", "OCSPValues")
    lists = tuple(_read_bytes(one) for one in _take_group(revocation, "CRLValues", "EncapsulatedCRLValue"))
    answers = tuple(_read_bytes(one) for one in _take_group(revocation, "OCSPValues", "EncapsulatedOCSPValue"))
    for values in (held, lists, answers):
        if len(set(values)) != len(values):
            raise CheckFailed("The signature holds a value of its proof twice.")
    return ValidationData(held, lists, answers)


def _check_references(
    certificate_refs: etree._Element,
    revocation_refs: etree._Element,
    beside: tuple[bytes, ...],
    data: ValidationData | None,
) -> ValidationData | None:
    """Hold references against values and return what is named, the signer's certificate with it.

    Without values, the issuers beside the signature must be named, and something about the signer's revocation; what
    else is named only the time stamp over the references keeps as it was.
    """
    (named,) = _take(certificate_refs, f"{_ETSI}CertRefs")
    known = beside[1:] if data is None else data.certificates
    certificates = [_match_certificate(one, known) for one in _take(named, *(f"{_ETSI}Cert" for _ in named))]
    _demand_groups(revocation_refs, "CRLRefs", "OCSPRefs")
    list_refs = _take_group(revocation_refs, "CRLRefs", "CRLRef")
    answer_refs = _take_group(revocation_refs, "OCSPRefs", "OCSPRef")
    lists = [_match_list(one, None if data is None else data.lists) for one in list_refs]
    answers = [_match_answer(one, None if data is None else data.answers) for one in answer_refs]
    if data is not None:
        found = ValidationData((beside[0], *_whole(certificates)), tuple(_whole(lists)), tuple(_whole(answers)))
        return attrs.evolve(found, certificates=tuple(dict.fromkeys(found.certificates)))
    if not set(known) <= set(certificates):
        raise CheckFailed("The references do not name each issuer of the signer's certificate.")
    issuer = x509.load_der_x509_certificate(beside[0]).issuer.rfc4514_string()
    if not answer_refs and issuer not in {one.findtext(f".//{_ETSI}Issuer") for one in list_refs}:
        raise CheckFailed("The references name nothing about the revocation of the signer's certificate.")
    return None


def _whole(found: list[bytes | None]) -> list[bytes]:
    if None in found:
        raise CheckFailed("A reference names a certificate, a list or an answer that is not in the signature.")
    return [one for one in found if one is not None]


def _match_certificate(reference: etree._Element, known: tuple[bytes, ...]) -> bytes | None:
    hashed, named = _take(reference, f"{_ETSI}CertDigest", f"{_ETSI}IssuerSerial")
    issuer, serial = _take(named, f"{_DS}X509IssuerName", f"{_DS}X509SerialNumber")
    stated = (_text(issuer), _text(serial))
    found = _find(hashed, known)
    if found is not None:
        certificate = x509.load_der_x509_certificate(found)
        if stated != (certificate.issuer.rfc4514_string(), str(certificate.serial_number)):
            raise CheckFailed("A reference names a certificate by another issuer or serial number than its own.")
    return found


def _match_list(reference: etree._Element, known: tuple[bytes, ...] | None) -> bytes | None:
    hashed, identifier = _take(reference, f"{_ETSI}DigestAlgAndValue", f"{_ETSI}CRLIdentifier")
    has_number = len(identifier) == 3
    names = [f"{_ETSI}Issuer", f"{_ETSI}IssueTime", *([f"{_ETSI}Number"] if has_number else [])]
    stated = [_text(one) for one in _take(identifier, *names)]
    found = _find(hashed, known or ())
    if found is not None and stated != _describe_list(x509.load_der_x509_crl(found)):
        raise CheckFailed("A reference names a revocation list by another issuer, time or number than its own.")
    return found


def _describe_list(parsed: x509.CertificateRevocationList) -> list[str]:
    numbers = [str(one.value.crl_number) for one in parsed.extensions if isinstance(one.value, x509.CRLNumber)]
    return [parsed.issuer.rfc4514_string(), _write_time(parsed.last_update_utc), *numbers]


def _match_answer(reference: etree._Element, known: tuple[bytes, ...] | None) -> bytes | None:
    identifier, hashed = _take(reference, f"{_ETSI}OCSPIdentifier", f"{_ETSI}DigestAlgAndValue")
    responder, produced = _take(identifier, f"{_ETSI}ResponderID", f"{_ETSI}ProducedAt")
    by_key = responder.find(f"{_ETSI}ByKey") is not None
    (name,) = _take(responder, f"{_ETSI}ByKey" if by_key else f"{_ETSI}ByName")
    stated = (_read_bytes(name) if by_key else _text(name), _text(produced))
    found = _find(hashed, known or ())
    if found is not None and stated != _describe_answer(ocsp.load_der_ocsp_response(found)):
        raise CheckFailed("A reference names an OCSP response by another responder or time than its own.")
    return found


def _describe_answer(parsed: ocsp.OCSPResponse) -> tuple[bytes | str | None, str]:
    named = parsed.responder_name
    own = parsed.responder_key_hash if named is None else named.rfc4514_string()
    return own, _write_time(parsed.produced_at_utc)


def _find(hashed: etree._Element, known: tuple[bytes, ...]) -> bytes | None:
    """Return what has the digest that is stated."""
    method, value = _take(hashed, f"{_DS}DigestMethod", f"{_DS}DigestValue")
    _demand_method(method)
    algorithm, stated = read_digest_method(method), _read_bytes(value)
    if len(stated) != hashlib.new(algorithm).digest_size:
        raise CheckFailed("A reference has a digest of another length than its algorithm gives.")
    return next((one for one in known if hashlib.new(algorithm, one).digest() == stated), None)


def _write_time(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
