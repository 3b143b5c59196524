"""Time stamps of RFC 3161: what is asked, and whether the token that comes answers it; nothing here uses a network."""

from __future__ import annotations

import datetime
import hashlib
import hmac

import attrs
from asn1crypto import algos, cms, tsp
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from bulksigner.contract.certificate import Digest
from bulksigner.contract.errors import PermanentFailure
from bulksigner.formats import der
from bulksigner.formats.model import Hashed

__all__ = ["Timestamp", "TimestampRefused", "build_request", "list_certificates", "read_response", "read_token"]

_SHA256_OID, _SHA512_OID = "2.16.840.1.101.3.4.2.1", "2.16.840.1.101.3.4.2.3"
_OIDS = {Digest.SHA256: _SHA256_OID, Digest.SHA512: _SHA512_OID}
_GRANTED = frozenset({"granted", "granted_with_mods"})
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}
_TRUE = b"\x01\x01\xff"
_NULL = b"\x05\x00"
_WITHOUT_DIGEST = frozenset({"rsassa_pkcs1v15", "ecdsa"})
"""Signature algorithms whose identifier leaves the digest to that of the signer."""


class TimestampRefused(PermanentFailure):
    """Refuse what a time-stamp service answered, in words that name the defect."""


@attrs.frozen
class Timestamp:
    """A token that was checked: its CMS, DER, and what it says; whose it is remains to be checked (trust)."""

    token: bytes
    time: datetime.datetime
    serial: int
    policy: str
    certificate: bytes
    chain: tuple[bytes, ...]


def build_request(digest: bytes, algorithm: Digest, *, nonce: int, policy: str | None = None) -> bytes:
    """Return a TimeStampReq, DER, for a digest; the certificates of the service are asked for."""
    imprint = der.sequence(der.sequence(der.object_identifier(_OIDS[algorithm])), der.octet_string(digest))
    asked = der.object_identifier(policy) if policy else b""
    return der.sequence(der.integer(1), imprint, asked, der.integer(nonce), _TRUE)


def read_response(
    response: bytes, digest: bytes, algorithm: Digest, *, nonce: int, policy: str | None = None
) -> Timestamp:
    """Read a TimeStampResp and check that its token answers the request; raises `TimestampRefused`."""
    try:
        parsed = tsp.TimeStampResp.load(response, strict=True)
        status = parsed["status"]["status"].native
        if status not in _GRANTED:
            raise TimestampRefused(f"it answered {status}: {_tell_status(parsed['status'])}")
        token = parsed["time_stamp_token"].dump()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TimestampRefused("its answer is no time-stamp response") from error
    stamp, info = _read(token)
    if info["nonce"].native != nonce:
        raise TimestampRefused("its token carries another nonce than the request")
    if policy is not None and stamp.policy != policy:
        raise TimestampRefused(f"its token is of the policy {stamp.policy}, and {policy} was asked for")
    _check_imprint(info, digest, algorithm.value)
    return stamp


def read_token(token: bytes, content: bytes | Hashed) -> Timestamp:
    """Check a token found in a signature over what it must stamp; raises `TimestampRefused`."""
    stamp, info = _read(token)
    algorithm = str(info["message_imprint"]["hash_algorithm"]["algorithm"].native)
    if algorithm not in _HASHES:
        raise TimestampRefused(f"the token stamps by {algorithm}")
    if isinstance(content, Hashed):
        _check_imprint(info, content.digest, content.algorithm)
    else:
        _check_imprint(info, hashlib.new(algorithm, content).digest(), algorithm)
    return stamp


def list_certificates(token: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the certificate that signed a token and the others in it; raises `TimestampRefused`."""
    stamp, _ = _read(token)
    return stamp.certificate, stamp.chain


def _tell_status(status: tsp.PKIStatusInfo) -> str:
    words = status["status_string"].native or ["without a reason"]
    failure = status["fail_info"].native
    told = " ".join(str(word) for word in words)[:200]
    return f"{told} ({', '.join(sorted(failure))})" if failure else told


def _check_imprint(info: tsp.TSTInfo, digest: bytes, algorithm: str) -> None:
    imprint = info["message_imprint"]
    same = hmac.compare_digest(imprint["hashed_message"].native, digest)
    if not same or imprint["hash_algorithm"]["algorithm"].native != algorithm:
        raise TimestampRefused("its token stamps something else than what was sent")


def _read(token: bytes) -> tuple[Timestamp, tsp.TSTInfo]:
    """Check all of a token that its own bytes decide: content, signer, usage, signature (RFC 3161 2.3, 2.4.2)."""
    try:
        outer = cms.ContentInfo.load(token, strict=True)
        if outer["content_type"].native != "signed_data":
            raise TimestampRefused("its token is no signed data")
        signed = outer["content"]
        content = signed["encap_content_info"]
        if content["content_type"].native != "tst_info" or len(signed["signer_infos"]) != 1:
            raise TimestampRefused("its token is not one signed statement of a time")
        octets = content["content"].contents
        info = tsp.TSTInfo.load(octets, strict=True)
        signer = signed["signer_infos"][0]
        _check_form(signed, signer)
        certificate, chain = _find_signer(signed, signer)
        _check_signature(signer, octets, certificate)
        moment = info["gen_time"].native
        stamp = Timestamp(
            token, moment, info["serial_number"].native, info["policy"].dotted, _encode(certificate), chain
        )
    except TimestampRefused:
        raise
    except Exception as error:
        # Two readers are at work, and both raise nearly anything for a token that is damaged inside.
        raise TimestampRefused("its token cannot be read") from error
    if not certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc:
        raise TimestampRefused("its token is of a time outside the validity of the service's certificate")
    return stamp, info


def _check_form(signed: cms.SignedData, signer: cms.SignerInfo) -> None:
    """Check what nothing signs and every reader may stumble over: versions and algorithms (RFC 5652 5.1, 5.3)."""
    digest, signature = signer["digest_algorithm"], signer["signature_algorithm"]
    by_name = signer["sid"].name == "issuer_and_serial_number"
    if signed["version"].native != "v3" or signer["version"].native != ("v1" if by_name else "v3"):
        raise TimestampRefused("its token has another version than its content asks for")
    listed = [one["algorithm"].native for one in signed["digest_algorithms"]]
    if digest["algorithm"].native not in listed:
        raise TimestampRefused("its token does not list the digest that it is signed by")
    plain = [*signed["digest_algorithms"], digest]
    if signature.signature_algo != "rsassa_pss":
        plain.append(signature)
        if signature["algorithm"].native not in _WITHOUT_DIGEST and signature.hash_algo != digest["algorithm"].native:
            raise TimestampRefused("its token names two digests")
    if any(one["parameters"].dump() not in (b"", _NULL) for one in plain):
        raise TimestampRefused("its token has parameters where its algorithms have none")


def _find_signer(signed: cms.SignedData, signer: cms.SignerInfo) -> tuple[x509.Certificate, tuple[bytes, ...]]:
    encoded = [one.chosen.dump() for one in signed["certificates"] if one.name == "certificate"]
    wanted = signer["sid"]
    for one in encoded:
        certificate = x509.load_der_x509_certificate(one)
        if wanted.name == "issuer_and_serial_number":
            is_named = (certificate.serial_number, certificate.issuer.public_bytes()) == (
                wanted.chosen["serial_number"].native,
                wanted.chosen["issuer"].dump(),
            )
        else:
            identifier = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
            is_named = identifier == wanted.chosen.native
        if is_named:
            _check_usage(certificate)
            return certificate, tuple(other for other in encoded if other != one)
    raise TimestampRefused("its token does not hold the certificate of the service")


def _check_usage(certificate: x509.Certificate) -> None:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except x509.ExtensionNotFound:
        usage = None
    if usage is None or not usage.critical or list(usage.value) != [ExtendedKeyUsageOID.TIME_STAMPING]:
        raise TimestampRefused("the certificate of the service is not one for time stamps alone (RFC 3161 2.3)")


def _check_signature(signer: cms.SignerInfo, content: bytes, certificate: x509.Certificate) -> None:
    digest = str(signer["digest_algorithm"]["algorithm"].native)
    if digest not in _HASHES:
        raise TimestampRefused(f"its token is signed by {digest}")
    attributes = signer["signed_attrs"]
    values = {str(one["type"].native): one["values"] for one in attributes}
    if values["content_type"][0].native != "tst_info":
        raise TimestampRefused("its token is signed as something else than a time")
    if values["message_digest"][0].native != hashlib.new(digest, content).digest():
        raise TimestampRefused("its token does not match its own digest")
    _check_named_certificate(values, _encode(certificate))
    # RFC 5652 5.4: what is signed is the SET OF, whose tag the file replaces by [0].
    covered = b"\x31" + attributes.dump()[1:]
    _verify(certificate, signer, covered, _HASHES[digest])


def _check_named_certificate(values: dict[str, cms.SetOf], certificate: bytes) -> None:
    """Check the ESS attribute, without which a token of one service could pass for another's (RFC 5816)."""
    if "signing_certificate_v2" in values:
        named = values["signing_certificate_v2"][0]["certs"][0]
        algorithm = str(named["hash_algorithm"]["algorithm"].native)
    elif "signing_certificate" in values:
        named, algorithm = values["signing_certificate"][0]["certs"][0], "sha1"
    else:
        raise TimestampRefused("its token does not say by which certificate it is signed")
    if named["cert_hash"].native != hashlib.new(algorithm, certificate).digest():
        raise TimestampRefused("its token names another certificate than the one it holds")


def _verify(
    certificate: x509.Certificate, signer: cms.SignerInfo, covered: bytes, digest: hashes.HashAlgorithm
) -> None:
    key, value = certificate.public_key(), signer["signature"].native
    algorithm: algos.SignedDigestAlgorithm = signer["signature_algorithm"]
    try:
        if isinstance(key, rsa.RSAPublicKey) and algorithm.signature_algo == "rsassa_pkcs1v15":
            key.verify(value, covered, padding.PKCS1v15(), digest)
        elif isinstance(key, rsa.RSAPublicKey) and algorithm.signature_algo == "rsassa_pss":
            key.verify(value, covered, padding.PSS(padding.MGF1(digest), padding.PSS.AUTO), digest)
        elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm.signature_algo == "ecdsa":
            key.verify(value, covered, ec.ECDSA(digest))
        else:
            raise TimestampRefused("its token is signed by an algorithm that does not fit its key")
    except InvalidSignature as error:
        raise TimestampRefused("the signature of its token is not valid") from error


def _encode(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)
