"""What a key signs under every policy, and whether it is what the policy asks: by outside verifiers, and by a dump."""

from __future__ import annotations

import datetime
import hashlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from asn1crypto import cms as asn1_cms
from lxml import etree
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.ades.cades_asn1 import SignaturePolicyIdentifier

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import Expectation
from bulksigner.formats.policies import read_key, shipped_policies
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.files import pdf_file, xml_file
from bulksigner.testing.verify import (
    verify_cms_with_openssl,
    verify_pdf_with_pdfsig,
    verify_pdf_with_pyhanko,
    verify_xml_with_xmlsec1,
)

__all__ = ["list_specs", "require_facts", "sign_every_way"]

ETSI = "{http://uri.etsi.org/01903/v1.3.2#}"
DS = "{http://www.w3.org/2000/09/xmldsig#}"
SIGNING_TIME = "1.2.840.113549.1.9.5"
SIGNATURE_POLICY = "1.2.840.113549.1.9.16.2.15"


def list_specs(format: Format, key: OpenedKey) -> list[SignatureSpec]:
    """Return every specification that a key may sign with: the baseline, and AD-RB with either filter in a PDF."""
    filters = [False, True] if format is Format.PADES else [False]
    rows = shipped_policies().usable(format, "AD-RB", None, read_key(key))
    return [BASELINE_B, *(row.spec(etsi_filter=etsi) for row in rows for etsi in filters)]


def sign_every_way(key: OpenedKey, root: bytes, folder: Path) -> Iterator[tuple[Format, SignatureSpec]]:
    """Sign a file of each format by each specification and require its facts (ICP-30 to ICP-33); yield each in turn.

    `root`, DER, is whom outside verifiers trust; signed files are left in `folder`.
    """
    signed_at = datetime.datetime.now(datetime.UTC)
    contents = {Format.CADES: b"0001 payment\r\n\x00\xff", Format.XADES: xml_file(), Format.PADES: pdf_file()}
    for kind, content in contents.items():
        original = Measured(len(content), hashlib.sha256(content).digest())
        for number, spec in enumerate(list_specs(kind, key)):
            target = io.BytesIO()
            signer_for(kind, key, spec).sign(io.BytesIO(content), target, expected=original, signed_at=signed_at)
            check(target, Expectation(kind, key.certificate, original, spec))
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


def _require_attributes(signer: Any, spec: SignatureSpec) -> set[str]:
    values = {attribute["type"].dotted: attribute["values"][0] for attribute in signer["signed_attrs"]}
    assert values.keys() >= set(spec.required_signed)
    assert not values.keys() & set(spec.forbidden_signed)
    assert "unsigned_attrs" not in signer or not signer["unsigned_attrs"]
    stated = values.get(SIGNATURE_POLICY)
    if spec.policy is None or stated is None:
        assert (spec.policy, stated) == (None, None)
        return set(values)
    policy = SignaturePolicyIdentifier.load(stated.dump()).chosen
    assert policy["sig_policy_id"].dotted == spec.policy.oid
    assert policy["sig_policy_hash"]["digest"].native == spec.policy.value
    assert [one["sig_qualifier"].native for one in policy["sig_policy_qualifiers"]] == [spec.policy.uri]
    return set(values)


def _require_pdf(file: Path, spec: SignatureSpec, roots: Sequence[bytes]) -> None:
    verdicts = [verify_pdf_with_pyhanko(file, roots)]
    if spec.pades_sub_filter.startswith("ETSI"):
        verdicts.append(verify_pdf_with_pdfsig(file, roots))
    for verdict in verdicts:
        assert verdict, verdict.output
    with file.open("rb") as stream:
        (signature,) = PdfFileReader(stream).embedded_signatures
        entries = signature.sig_object
        assert (entries["/Filter"], entries["/SubFilter"]) == (f"/{spec.pades_filter}", f"/{spec.pades_sub_filter}")
        assert not {"/Cert", "/R", "/Prop_AuthType"} & set(entries)
        assert SIGNING_TIME not in _require_attributes(signature.signer_info, spec)
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
    policy = properties.find(f"{ETSI}SignaturePolicyIdentifier/{ETSI}SignaturePolicyId")
    assert (policy is None) == (spec.policy is None)
    if policy is not None and spec.policy is not None:
        assert policy.findtext(f"{ETSI}SigPolicyId/{ETSI}Identifier") == f"urn:oid:{spec.policy.oid}"
        transforms = [one.get("Algorithm") for one in policy.iter(f"{DS}Transform")]
        assert transforms == [spec.policy.transform] * bool(spec.policy.transform)
        assert policy.findtext(f".//{ETSI}SPURI") == spec.policy.uri
