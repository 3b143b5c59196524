"""What a policy asks of a signature that was read back (ICP-30 to ICP-33); apart from signing (PERF-04)."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Collection

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.policy import PolicyIdentifier, SignatureSpec
from bulksigner.formats.der_reader import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, Element, Reader, dotted
from bulksigner.formats.model import CheckFailed

__all__ = ["SIGNATURE_POLICY", "check_attributes", "check_key", "check_moment", "check_policy_value"]

SIGNATURE_POLICY = bytes.fromhex("060b2a864886f70d010910020f")
_URI = bytes.fromhex("060b2a864886f70d0109100501")
_IA5_STRING = 0x16
_DIGESTS = {"2.16.840.1.101.3.4.2.1": "sha256", "2.16.840.1.101.3.4.2.3": "sha512"}


def check_attributes(found: Collection[str], spec: SignatureSpec) -> None:
    """Require every attribute that the policy requires, and none that it forbids."""
    missing = [name for name in spec.required_signed if name not in found]
    if missing:
        raise CheckFailed(f"The signature lacks the signed attribute {missing[0]}, which the policy requires.")
    forbidden = [name for name in spec.forbidden_signed if name in found]
    if forbidden:
        raise CheckFailed(f"The signature has the signed attribute {forbidden[0]}, which the policy forbids.")


def check_policy_value(value: Element | None, expected: PolicyIdentifier | None) -> None:
    """Hold the attribute sigPolicyId against the table: identifier, hash, and the one qualifier SPURI (ICP-06)."""
    if expected is None:
        if value is not None:
            raise CheckFailed("The signature names a signature policy, where it should name none.")
        return
    if value is None:
        raise CheckFailed("The signed attribute sigPolicyId is missing.")
    _compare_policy(value.encoded, expected)


@functools.lru_cache(maxsize=64)
def _compare_policy(value: bytes, expected: PolicyIdentifier) -> None:
    """Compare them; the same pair comes with every file of a policy."""
    what = "sigPolicyId"
    outer = Reader(value, what).take(SEQUENCE).reader(what)
    oid = dotted(outer.take(OBJECT_IDENTIFIER))
    hashed = outer.take(SEQUENCE).reader(what)
    algorithm = hashed.take(SEQUENCE).reader(what)
    digest = _DIGESTS.get(dotted(algorithm.take(OBJECT_IDENTIFIER)))
    algorithm.finish()
    stated = hashed.take(OCTET_STRING).content
    hashed.finish()
    qualifiers = outer.take(SEQUENCE).reader(what)
    qualifier = qualifiers.take(SEQUENCE).reader(what)
    kind, uri = qualifier.take(OBJECT_IDENTIFIER).encoded, qualifier.take(_IA5_STRING).content
    for reader in (qualifier, qualifiers, outer):
        reader.finish()
    if oid != expected.oid:
        raise CheckFailed(f"The signature names the policy {oid}, not {expected.oid}.")
    if (digest, stated) != (expected.digest.value, expected.value):
        raise CheckFailed(f"The signature names the policy {oid} with another hash than the policy table's.")
    if (kind, uri) != (_URI, expected.uri.encode("ascii")):
        raise CheckFailed(f"The signature names the policy {oid} with another address than the policy table's.")


def check_key(public_key: object, algorithm: KeyAlgorithm, digest: str, spec: SignatureSpec) -> None:
    """Require an algorithm and a key size that the policy allows (ICP-33)."""
    if not isinstance(public_key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise CheckFailed("The signer's certificate has neither an RSA nor an ECDSA key.")
    bits = public_key.key_size
    if spec.key_rules and not any(
        (rule.algorithm, rule.digest.value) == (algorithm, digest) and rule.least_bits <= bits
        for rule in spec.key_rules
    ):
        raise CheckFailed(f"The policy {spec.name} does not allow {algorithm.value}-{digest} with {bits} bits.")


def check_moment(moment: datetime.datetime | None, spec: SignatureSpec) -> None:
    """Require a policy that was valid when the file was signed, as far as the signature tells a time."""
    if moment is None:
        return
    day = moment.astimezone(datetime.UTC).date()
    if (spec.not_before is not None and day < spec.not_before) or (spec.not_after is not None and day > spec.not_after):
        raise CheckFailed(
            f"The file was signed on {day}; the policy {spec.name} is valid from {spec.not_before} to {spec.not_after}."
        )
