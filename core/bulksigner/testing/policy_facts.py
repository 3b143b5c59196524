"""What a key signs under every policy, and whether it is what the policy asks: by outside verifiers, and by a dump."""

from __future__ import annotations

import datetime
import hashlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from asn1crypto import cms as asn1_cms
from lxml import etree
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.ades.cades_asn1 import SignaturePolicyIdentifier

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.policy import Proof, SignatureSpec
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import Expectation
from bulksigner.formats.policies import PolicyTable, read_key, shipped_policies
from bulksigner.formats.spec import BASELINE_B, BASELINE_LT, BASELINE_LTA, BASELINE_T
from bulksigner.testing.files import pdf_file, xml_file
from bulksigner.testing.verify import (
    verify_cms_with_openssl,
    verify_pdf_with_pdfsig,
    verify_pdf_with_pyhanko,
    verify_xml_with_xmlsec1,
)
from bulksigner.trust.stamping import Stamping

__all__ = ["list_specs", "require_facts", "sign_every_way"]

ETSI = "{http://uri.etsi.org/01903/v1.3.2#}"
DS = "{http://www.w3.org/2000/09/xmldsig#}"
SIGNING_TIME = "1.2.840.113549.1.9.5"
SIGNATURE_POLICY = "1.2.840.113549.1.9.16.2.15"
SIGNATURE_TIMESTAMP = "1.2.840.113549.1.9.16.2.14"
ARCHIVE_TIMESTAMP_V3 = "0.4.0.1733.2.4"
_BASELINE_UNSIGNED: dict[Proof, set[str]] = {
    Proof.NONE: set(),
    Proof.STAMP: {SIGNATURE_TIMESTAMP},
    Proof.VALUES: {SIGNATURE_TIMESTAMP},
    Proof.ARCHIVE: {SIGNATURE_TIMESTAMP, ARCHIVE_TIMESTAMP_V3},
}
"""EN 319 122-1: from B-LT on the proof lies among certificates and revocation infos of the CMS itself."""
_BASELINE_PROPERTIES: dict[Proof, set[str]] = {
    Proof.NONE: set(),
    Proof.STAMP: {"SignatureTimeStamp"},
    Proof.VALUES: {"SignatureTimeStamp", "CertificateValues", "RevocationValues"},
    Proof.ARCHIVE: {"SignatureTimeStamp", "CertificateValues", "RevocationValues", "ArchiveTimeStamp"},
}
_ARTIFACTS = ("PA_PAdES_AD_RA_v1_4.der", "LPA_PAdES.der", "LPA_PAdES.p7s")


def list_specs(
    format: Format, key: OpenedKey, *, with_proof: bool = False, artifacts: tuple[Path, ...] = ()
) -> list[SignatureSpec]:
    """Return every specification that a key may sign with, the newest of each level first.

    Those with time stamps and proof come `with_proof`; `artifacts` stand in for the files that AD-RA of PDF carries.
    """
    filters = [False, True] if format is Format.PADES else [False]
    table = PolicyTable((attrs.evolve(row, artifacts=artifacts) for row in shipped_policies().rows), "shipped")
    levels = sorted({row.level for row in table.rows if row.format is format}) if with_proof else ["AD-RB"]
    rows = [row for level in levels for row in table.usable(format, level, None, read_key(key))]
    national = [row.spec(etsi_filter=etsi) for row in rows for etsi in filters]
    return [BASELINE_B, *([BASELINE_T, BASELINE_LT, BASELINE_LTA] if with_proof else []), *national]


def sign_every_way(
    key: OpenedKey, root: bytes, folder: Path, *, stamping: Stamping | None = None
) -> Iterator[tuple[Format, SignatureSpec]]:
    """Sign a file of each format by each specification and require its facts (ICP-30 to ICP-33); yield each in turn.

    `root`, DER, is whom outside verifiers trust; signed files are left in `folder`. With `stamping` the levels with
    time stamps and proof are among them.
    """
    signed_at = datetime.datetime.now(datetime.UTC)
    contents = {Format.CADES: b"0001 payment\r\n\x00\xff", Format.XADES: xml_file(), Format.PADES: pdf_file()}
    artifacts = tuple(folder / name for name in _ARTIFACTS)
    for artifact in artifacts:
        artifact.write_bytes(f"in place of {artifact.name}".encode())
    for kind, content in contents.items():
        original = Measured(len(content), hashlib.sha256(content).digest())
        specs = list_specs(kind, key, with_proof=stamping is not None, artifacts=artifacts)
        for number, spec in enumerate(specs):
            target = io.BytesIO()
            expectation = Expectation(kind, key.certificate, original, spec)
            if stamping is None:
                signer = signer_for(kind, key, spec)
            else:
                signer = signer_for(kind, key, spec, stamps=stamping.stamps, proofs=stamping.proofs)
                expectation = attrs.evolve(expectation, judge_stamp=stamping.judge, proof_judge=stamping.proof_judge)
            signer.sign(io.BytesIO(content), target, expected=original, signed_at=signed_at)
            check(target, expectation)
            file = folder / f"{kind.value}-{number}"
            file.write_bytes(target.getvalue())
            require_facts(kind, file, spec, [root])
            yield kind, spec


def require_facts(format: Format, file: Path, spec: SignatureSpec, roots: Sequence[bytes]) -> None:
    """Have outside verifiers accept a file under `roots`, DER, and hold its attributes against the specification."""
    {Format.CADES: _require_cms, Format.PADES: _require_pdf, Format.XADES: _require_xml}[format](file, spec, roots)


def _require_cms(file: Path, spec: SignatureSpec, roots: Sequence[bytes]) -> None:
    verdict = verify_cms_with_openssl(file, roots)
    assert verdict, verdict.output
    signer = asn1_cms.ContentInfo.load(file.read_bytes())["content"]["signer_infos"][0]
    found = _require_attributes(signer, spec)
    assert (SIGNING_TIME in found) == spec.cades_signing_time
    assert _unsigned_of(signer) == set(spec.required_unsigned or _BASELINE_UNSIGNED[spec.proof])


def _require_attributes(signer: Any, spec: SignatureSpec) -> set[str]:
    values = {attribute["type"].dotted: attribute["values"][0] for attribute in signer["signed_attrs"]}
    assert values.keys() >= set(spec.required_signed)
    assert not values.keys() & set(spec.forbidden_signed)
    stated = values.get(SIGNATURE_POLICY)
    if spec.policy is None or stated is None:
        assert (spec.policy, stated) == (None, None)
        return set(values)
    policy = SignaturePolicyIdentifier.load(stated.dump()).chosen
    assert policy["sig_policy_id"].dotted == spec.policy.oid
    assert policy["sig_policy_hash"]["digest"].native == spec.policy.value
    assert [one["sig_qualifier"].native for one in policy["sig_policy_qualifiers"]] == [spec.policy.uri]
    return set(values)


def _unsigned_of(signer: Any) -> set[str]:
    return {attribute["type"].dotted for attribute in signer["unsigned_attrs"] or ()}


def _require_pdf(file: Path, spec: SignatureSpec, roots: Sequence[bytes]) -> None:
    # The entries that ICP-Brasil adds to the security store are changes that pyHanko does not know.
    is_known = not (spec.policy is not None and spec.proof is Proof.ARCHIVE)
    verdicts = [verify_pdf_with_pyhanko(file, roots, covers_all=not spec.is_proven, knows_all=is_known)]
    if spec.pades_sub_filter.startswith("ETSI"):
        verdicts.append(verify_pdf_with_pdfsig(file, roots, covers_all=not spec.is_proven))
    for verdict in verdicts:
        assert verdict, verdict.output
    with file.open("rb") as stream:
        reader = PdfFileReader(stream)
        (signature,) = reader.embedded_regular_signatures
        entries = signature.sig_object
        assert (entries["/Filter"], entries["/SubFilter"]) == (f"/{spec.pades_filter}", f"/{spec.pades_sub_filter}")
        assert not {"/Cert", "/R", "/Prop_AuthType"} & set(entries)
        assert SIGNING_TIME not in _require_attributes(signature.signer_info, spec)
        assert _unsigned_of(signature.signer_info) == ({SIGNATURE_TIMESTAMP} if spec.is_stamped else set())
        assert ("/DSS" in reader.root) == spec.is_proven
        is_stamped_again = spec.is_proven and (spec.policy is not None or spec.proof is Proof.ARCHIVE)
        assert len(reader.embedded_timestamp_signatures) == is_stamped_again
        if not spec.is_stamped:
            room = len(signature.pkcs7_content.rstrip(b"\0"))
            # An ECDSA signature may be a few bytes shorter than its longest form; everything else is exact.
            assert len(signature.pkcs7_content) - room <= 10


def _require_xml(file: Path, spec: SignatureSpec, roots: Sequence[bytes]) -> None:
    verdict = verify_xml_with_xmlsec1(file, roots)
    assert verdict, verdict.output
    tree = etree.fromstring(file.read_bytes())
    properties = tree.find(f".//{ETSI}SignedSignatureProperties")
    assert properties is not None
    names = {etree.QName(one).localname for one in properties}
    assert names >= set(spec.required_signed) | {spec.xades_certificate_element.value}
    unsigned = tree.find(f".//{ETSI}UnsignedSignatureProperties")
    stated = set() if unsigned is None else {etree.QName(one).localname for one in unsigned}
    assert stated == set(spec.required_unsigned or _BASELINE_PROPERTIES[spec.proof])
    policy = properties.find(f"{ETSI}SignaturePolicyIdentifier/{ETSI}SignaturePolicyId")
    assert (policy is None) == (spec.policy is None)
    if policy is not None and spec.policy is not None:
        assert policy.findtext(f"{ETSI}SigPolicyId/{ETSI}Identifier") == f"urn:oid:{spec.policy.oid}"
        transforms = [one.get("Algorithm") for one in policy.iter(f"{DS}Transform")]
        assert transforms == [spec.policy.transform] * bool(spec.policy.transform)
        assert policy.findtext(f".//{ETSI}SPURI") == spec.policy.uri
