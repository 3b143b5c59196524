"""Specifications that need no policy table: the baselines B-B to B-LTA, and plain XML signatures (BEY-13)."""

from __future__ import annotations

import attrs

from bulksigner.contract.certificate import Digest
from bulksigner.contract.policy import CertificateElement, Proof, SignatureSpec

__all__ = ["BASELINE_B", "BASELINE_LT", "BASELINE_LTA", "BASELINE_T", "PLAIN_XML", "PLAIN_XML_SHA1"]

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

BASELINE_T = attrs.evolve(BASELINE_B, name="B-T", proof=Proof.STAMP)

BASELINE_LT = attrs.evolve(BASELINE_B, name="B-LT", proof=Proof.VALUES)

BASELINE_LTA = attrs.evolve(BASELINE_B, name="B-LTA", proof=Proof.ARCHIVE)

PLAIN_XML = attrs.evolve(BASELINE_B, name="Nfe", is_plain_xml=True)

PLAIN_XML_SHA1 = attrs.evolve(PLAIN_XML, name="Nfe SHA-1", digest=Digest.SHA1)
"""What the tax authorities still ask for; only within the dates of CFG-197."""
