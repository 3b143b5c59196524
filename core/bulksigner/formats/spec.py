"""Signature specifications: what differs between signature policies, one row for each kind of signature.

Today there is one row: the baseline profile B-B of ETSI EN 319 122, 319 132 and 319 142, without a policy. National
policies (ICP-03) are further rows.
"""

from __future__ import annotations

import enum

import attrs

from bulksigner.contract.certificate import Digest

__all__ = ["BASELINE_B", "CertificateElement", "PolicyIdentifier", "SignatureSpec"]


class CertificateElement(enum.Enum):
    """XAdES property that names the signer's certificate."""

    SIGNING_CERTIFICATE = "SigningCertificate"
    SIGNING_CERTIFICATE_V2 = "SigningCertificateV2"


@attrs.frozen
class PolicyIdentifier:
    """A signature policy as the signed attribute names it (ICP-06)."""

    oid: str
    digest: Digest
    value: bytes
    uri: str


@attrs.frozen
class SignatureSpec:
    """One row: which attributes and elements a signature carries."""

    name: str
    digest: Digest
    policy: PolicyIdentifier | None
    cades_signing_time: bool
    xades_signing_time: bool
    xades_certificate_element: CertificateElement
    pades_filter: str
    pades_sub_filter: str


BASELINE_B = SignatureSpec(
    name="B-B",
    digest=Digest.SHA256,
    policy=None,
    cades_signing_time=True,
    xades_signing_time=True,
    xades_certificate_element=CertificateElement.SIGNING_CERTIFICATE_V2,
    pades_filter="Adobe.PPKLite",
    pades_sub_filter="ETSI.CAdES.detached",
)
