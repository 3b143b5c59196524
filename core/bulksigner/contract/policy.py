"""What a signature must carry: one specification for each signature policy, or for none (ICP-03, ICP-06, ICP-33)."""

from __future__ import annotations

import datetime
import enum
import functools
import pickle

import attrs

from bulksigner.contract.certificate import Digest, KeyAlgorithm

__all__ = ["CertificateElement", "Joining", "KeyRule", "PolicyIdentifier", "SignatureSpec"]


class CertificateElement(enum.Enum):
    """XAdES property that names the signer's certificate."""

    SIGNING_CERTIFICATE = "SigningCertificate"
    SIGNING_CERTIFICATE_V2 = "SigningCertificateV2"


class Joining(enum.Enum):
    """How a file that arrives signed is signed further."""

    PARALLEL = "Parallel"
    COUNTER = "Counter"


@attrs.frozen(cache_hash=True)
class PolicyIdentifier:
    """A signature policy as the signed attribute names it (ICP-06).

    `transform` names the canonical form of an XML policy file that the digest is of; empty where none is to be named.
    """

    oid: str
    digest: Digest
    value: bytes
    uri: str
    transform: str = ""


@attrs.frozen(cache_hash=True)
class KeyRule:
    """A signature algorithm that a policy allows, and the least size of its key in bits."""

    algorithm: KeyAlgorithm
    digest: Digest
    least_bits: int


@attrs.frozen(cache_hash=True)
class SignatureSpec:
    """Which attributes and elements a signature carries.

    `required_signed` and `forbidden_signed` are the policy's signed attributes, as object identifiers in CMS and as
    names of properties in XAdES. `key_rules` are empty where any key of the format will do. Signatures are made from
    `not_before` to `not_after`, both days included, in UTC. `is_plain_xml` asks for an XML signature without XAdES
    properties, beside the element it signs (BEY-13). `joining` asks for a signature on a CMS file that arrives signed.
    `is_stamped` asks for a time stamp over the signature value, as the one thing that is not signed.
    """

    name: str
    digest: Digest
    policy: PolicyIdentifier | None
    cades_signing_time: bool
    xades_signing_time: bool
    xades_certificate_element: CertificateElement
    pades_filter: str
    pades_sub_filter: str
    required_signed: tuple[str, ...] = ()
    forbidden_signed: tuple[str, ...] = ()
    key_rules: tuple[KeyRule, ...] = ()
    not_before: datetime.date | None = None
    not_after: datetime.date | None = None
    is_plain_xml: bool = False
    joining: Joining | None = None
    is_stamped: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        """Travel as bytes that are made and read once: the same few specifications go to workers with every job."""
        return _restore, (_flatten(self),)


@functools.lru_cache(maxsize=64)
def _flatten(spec: SignatureSpec) -> bytes:
    return pickle.dumps(attrs.astuple(spec, recurse=False), pickle.HIGHEST_PROTOCOL)


@functools.lru_cache(maxsize=64)
def _restore(flat: bytes) -> SignatureSpec:
    return SignatureSpec(*pickle.loads(flat))  # noqa: S301 - it comes through the pipe of the service's own workers
