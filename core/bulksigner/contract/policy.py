"""What a signature must carry: one specification for each signature policy, or for none (ICP-03, ICP-06, ICP-33)."""

from __future__ import annotations

import datetime
import enum
import functools
import pickle
from pathlib import Path

import attrs

from bulksigner.contract.certificate import Digest, KeyAlgorithm

__all__ = ["CertificateElement", "Joining", "KeyRule", "PolicyIdentifier", "Proof", "SignatureSpec"]


class CertificateElement(enum.Enum):
    """XAdES property that names the signer's certificate."""

    SIGNING_CERTIFICATE = "SigningCertificate"
    SIGNING_CERTIFICATE_V2 = "SigningCertificateV2"


class Joining(enum.Enum):
    """How a file that arrives signed is signed further."""

    PARALLEL = "Parallel"
    COUNTER = "Counter"


class Proof(enum.IntEnum):
    """How far a signature proves itself by what stands beside it unsigned; each step asks for what the earlier ones do.

    Where a policy names the attributes of its level (`SignatureSpec.required_unsigned`), it is those that are made.
    """

    NONE = 0
    STAMP = 1
    """A time stamp over the signature value."""
    REFERENCES = 2
    """Digests of the certificates and of the revocation data of its chain, and a time stamp over them."""
    VALUES = 3
    """The certificates and the revocation data themselves; the level B-LT where no policy is named."""
    ARCHIVE = 4
    """A time stamp over all of it; the level B-LTA where no policy is named."""


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


@attrs.frozen(cache_hash=True)  # signers are looked up by it for each file
class SignatureSpec:
    """Which attributes and elements a signature carries.

    `required_signed` and `forbidden_signed` are the policy's signed attributes, as object identifiers in CMS and as
    names of properties in XAdES. `key_rules` are empty where any key of the format will do. Signatures are made from
    `not_before` to `not_after`, both days included, in UTC. `is_plain_xml` asks for an XML signature without XAdES
    properties, beside the element it signs (BEY-13). `joining` asks for a signature on a CMS file that arrives signed.
    `proof` is what else belongs to it and is not signed; `required_unsigned` are the policy's names of it, as object
    identifiers in CMS and as names of properties in XAdES, and empty where the containers of ETSI's baselines hold it.
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
    artifacts: tuple[Path, ...] = ()
    """Files that a PDF of the policy carries: the policy, the list of approved policies, and the list's signature."""
    proof: Proof = Proof.NONE
    required_unsigned: tuple[str, ...] = ()
    xml_element: str = ""
    """Local name of the one element that a XAdES signature is of, by its `Id`; empty where it is of the document."""
    xml_file: str = ""
    """Name of the file of any kind that a XAdES signature lies beside; empty where the signature is in the document."""

    @property
    def is_stamped(self) -> bool:
        """Tell whether time stamps belong to it."""
        return self.proof >= Proof.STAMP

    @property
    def is_proven(self) -> bool:
        """Tell whether certificates and revocation data of its chains belong to it, or digests of them."""
        return self.proof > Proof.STAMP

    def __reduce__(self) -> tuple[object, ...]:
        """Travel as bytes that are made and read once: the same few specifications go to workers with every job."""
        return _restore, (_flatten(self),)


@functools.lru_cache(maxsize=64)
def _flatten(spec: SignatureSpec) -> bytes:
    return pickle.dumps(attrs.astuple(spec, recurse=False), pickle.HIGHEST_PROTOCOL)


@functools.lru_cache(maxsize=64)
def _restore(flat: bytes) -> SignatureSpec:
    return SignatureSpec(*pickle.loads(flat))  # noqa: S301 - it comes through the pipe of the service's own workers
