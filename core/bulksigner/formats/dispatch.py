"""The signer and the check of each format; what a format does not need is not imported."""

from __future__ import annotations

from typing import BinaryIO

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format, Proofs, Stamps
from bulksigner.formats.model import Checked, Expectation, FileSigner, PdfRules
from bulksigner.formats.spec import BASELINE_B

__all__ = ["check", "signer_for"]

_AS_IT_IS = PdfRules()


def signer_for(
    format: Format,
    key: OpenedKey,
    spec: SignatureSpec = BASELINE_B,
    *,
    detached: bool = False,
    pem: bool = False,
    pdf: PdfRules = _AS_IT_IS,
    stamps: Stamps | None = None,
    proofs: Proofs | None = None,
) -> FileSigner:
    """Make the signer of a format; `detached` and `pem` concern CAdES alone, `pdf` PAdES (BEY-11).

    `stamps` are used where the specification asks for a time stamp, `proofs` where it asks for the proof of chains;
    raises `PermanentFailure` where they are absent.
    """
    stamps = _choose_stamps(spec, stamps)
    proofs = _choose_proofs(spec, proofs)
    if format is Format.CADES and spec.joining is not None:
        from bulksigner.formats.cms_join import JoiningSigner

        return JoiningSigner(key, spec)
    if format is Format.CADES:
        from bulksigner.formats.cades import CadesSigner

        if stamps is None or proofs is None:
            return CadesSigner(key, spec, detached=detached, pem=pem, additions=stamps)
        from bulksigner.formats.cms_proof import CmsProof

        return CadesSigner(key, spec, detached=detached, pem=pem, proof=CmsProof(key, spec, stamps, proofs))
    if format is Format.PADES:
        from bulksigner.formats.pades import PadesSigner

        if stamps is None or proofs is None:
            return PadesSigner(key, spec, additions=stamps, rules=pdf)
        from bulksigner.formats.pdf_proof import PdfProof

        return PadesSigner(key, spec, additions=stamps, rules=pdf, proof=PdfProof(key, spec, stamps, proofs, pdf))
    if spec.is_plain_xml:
        from bulksigner.formats.xml_plain import PlainXmlSigner

        return PlainXmlSigner(key, spec)
    from bulksigner.formats.xades import XadesSigner

    return XadesSigner(key, spec, stamps=stamps, proofs=proofs)


def _choose_stamps(spec: SignatureSpec, stamps: Stamps | None) -> Stamps | None:
    if not spec.is_stamped:
        return None
    if spec.joining is not None:
        raise PermanentFailure(
            f"Signatures on files that arrive signed get no time stamp, and {spec.name} asks for one."
        )
    if stamps is None:
        raise PermanentFailure(
            f"{spec.name} asks for a time stamp, and no service is configured. Name one with Signing:Timestamps.",
            code="sign.timestamp-failed",
        )
    return stamps


def _choose_proofs(spec: SignatureSpec, proofs: Proofs | None) -> Proofs | None:
    if not spec.is_proven:
        return None
    if proofs is None:
        raise PermanentFailure(
            f"{spec.name} asks for the proof of chains, and nothing here collects it.",
            code="sign.revocation-data-missing",
        )
    return proofs


def check(
    artifact: BinaryIO,
    expectation: Expectation,
    *,
    detached: bool = False,
    pem: bool = False,
    original: BinaryIO | None = None,
) -> Checked:
    """Check a signed file of the expected format; raise `CheckFailed` with the first thing that is wrong (ICP-34).

    `original` is the file that was signed; only the checks of further signatures, of repaired files and
    of archived signatures that are detached read it again.
    """
    if expectation.spec is not None and expectation.spec.joining is not None and original is not None:
        from bulksigner.formats.cms_join_check import check_joined

        return check_joined(artifact, expectation, original)
    if expectation.format is Format.CADES:
        from bulksigner.formats.cms_check import check_cms

        return check_cms(artifact, expectation, detached=detached, pem=pem, content=original)
    if expectation.format is Format.PADES:
        from bulksigner.formats.pades_check import check_pdf

        return check_pdf(artifact, expectation, original)
    if expectation.spec is not None and expectation.spec.is_plain_xml:
        from bulksigner.formats.xml_plain_check import check_plain_xml

        return check_plain_xml(artifact, expectation)
    from bulksigner.formats.xades_check import check_xml

    return check_xml(artifact, expectation)
