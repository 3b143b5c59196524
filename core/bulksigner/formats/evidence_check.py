"""The check of certificates and revocation data found in a signed file: none idle, none damaged (BEY-01, PERF-04).

Whether they are enough is for the judge of the host to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from bulksigner.contract.signing import ValidationData
from bulksigner.formats.model import CheckFailed

__all__ = ["check_evidence", "check_sound"]

_DAMAGE = (ValueError, TypeError, AttributeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion)


def check_evidence(leaves: Iterable[bytes], data: ValidationData) -> None:
    """Require that each certificate leads up from a leaf, and each list and answer is signed by one of them.

    Raises `CheckFailed` for whatever is there twice, damaged, or of no use to the chains of the leaves.
    """
    pieces = (*data.certificates, *data.lists, *data.answers)
    if len(set(pieces)) != len(pieces):
        raise CheckFailed("A certificate, list or answer in the signature is there twice.")
    try:
        certificates = [x509.load_der_x509_certificate(one) for one in data.certificates]
    except _DAMAGE as error:
        raise CheckFailed("A certificate in the signature cannot be read.") from error
    _check_chains(leaves, certificates)
    for encoded in data.lists:
        _check_list(encoded, certificates)
    for encoded in data.answers:
        _check_answer(encoded, certificates)


def _check_chains(leaves: Iterable[bytes], certificates: list[x509.Certificate]) -> None:
    wanted = {hashlib.sha256(one).digest() for one in leaves}
    used = [one for one in certificates if hashlib.sha256(_encode(one)).digest() in wanted]
    if len(used) != len(wanted):
        raise CheckFailed("The certificate of the signer, or of the time-stamp service, is not in the signature.")
    for one in used:
        for issuer in certificates:
            if issuer not in used and _is_issued(one, issuer):
                used.append(issuer)
    if len(used) != len(certificates):
        raise CheckFailed("A certificate in the signature is damaged, or belongs to none of its chains.")
    _require_issued(certificates, certificates)


def check_sound(certificates: Iterable[bytes], known: Iterable[bytes]) -> None:
    """Require that each certificate is issued by another of them, by itself, or by one that is known otherwise."""
    try:
        found = [x509.load_der_x509_certificate(one) for one in certificates]
        others = [x509.load_der_x509_certificate(one) for one in known]
    except _DAMAGE as error:
        raise CheckFailed("A certificate in the signature cannot be read.") from error
    _require_issued(found, [*found, *others])


def _require_issued(certificates: list[x509.Certificate], issuers: list[x509.Certificate]) -> None:
    # A damaged one may still serve as the issuer of others.
    if not all(any(_is_issued(one, issuer) for issuer in issuers) for one in certificates):
        raise CheckFailed("A certificate in the signature is damaged, or of an issuer that is not there.")


def _encode(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def _is_issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except _DAMAGE:
        return False
    return True


def _check_list(encoded: bytes, certificates: list[x509.Certificate]) -> None:
    try:
        revoked = x509.load_der_x509_crl(encoded)
        keys = [one.public_key() for one in certificates if one.subject == revoked.issuer]
        # The library takes any of the keys of certificates; DSA and EdDSA among them are its own business.
        is_signed = any(revoked.is_signature_valid(key) for key in keys)  # type: ignore[arg-type]
    except _DAMAGE as error:
        raise CheckFailed("A revocation list in the signature cannot be read.") from error
    if not is_signed:
        raise CheckFailed("A revocation list in the signature is damaged, or belongs to none of its chains.")


def _check_answer(encoded: bytes, certificates: list[x509.Certificate]) -> None:
    try:
        answer = ocsp.load_der_ocsp_response(encoded)
        serials = {one.serial_number for one in certificates}
        is_of_use = answer.serial_number in serials
        is_signed = any(_signed(answer, one) for one in (*answer.certificates, *certificates))
    except _DAMAGE as error:
        raise CheckFailed("An answer about revocation in the signature cannot be read.") from error
    if not is_of_use or not is_signed:
        raise CheckFailed("An answer about revocation in the signature is damaged, or is about none of its chains.")


def _signed(answer: ocsp.OCSPResponse, responder: x509.Certificate) -> bool:
    key, digest = responder.public_key(), answer.signature_hash_algorithm
    if digest is None:
        return False
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(answer.signature, answer.tbs_response_bytes, padding.PKCS1v15(), digest)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(answer.signature, answer.tbs_response_bytes, ec.ECDSA(digest))
        else:
            return False
    except InvalidSignature:
        return False
    return True
