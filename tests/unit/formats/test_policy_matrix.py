"""Format × policy × kind of key: signed, read by others, dumped, and compared with the policy table (ICP-30 to -33)."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from asn1crypto import cms as asn1_cms
from asn1crypto import x509 as asn1_x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from pyhanko.pdf_utils.reader import PdfFileReader

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.policy import KeyRule, SignatureSpec
from bulksigner.contract.signing import Format
from bulksigner.formats.cms import SignedData, encode_unsigned
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import CheckFailed, Expectation
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.policy_facts import list_specs, require_facts
from bulksigner.testing.verify import verify_cms_with_openssl, verify_pdf_with_pdfsig

XML = '<?xml version="1.0" encoding="UTF-8"?>\r\n<a xmlns="urn:a" xml:lang="pt"><b  c="1"></b>é</a>\n'.encode()
FORMATS = list(Format)
VERSIONS = {
    Format.CADES: ["2.4", "2.3", "2.2"],
    Format.XADES: ["2.5", "2.4", "2.3"],
    Format.PADES: ["1.3", "1.1", "1.0"],
}
KINDS = ["rsa2048", "rsa4096", "p256"]


@pytest.fixture(scope="module")
def keys(issue: Callable[[Callable[[], Any]], Any]) -> dict[str, Any]:
    """A signer of each kind under elliptic issuers, which are quick to make."""
    makers = {
        "rsa2048": lambda: rsa.generate_private_key(65537, 2048),
        "rsa4096": lambda: rsa.generate_private_key(65537, 4096),
        "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    }
    made = {}
    for kind, maker in makers.items():
        order = iter([makers["p256"], makers["p256"], maker])
        made[kind] = issue(lambda order=order: next(order)())  # type: ignore[misc]
    return made


def contents(pdf_sample: Any) -> dict[Format, bytes]:
    return {Format.CADES: b"0001 payment\r\n\x00\xff", Format.XADES: XML, Format.PADES: pdf_sample().build()}


@pytest.mark.parametrize("format", FORMATS, ids=lambda one: one.value)
@pytest.mark.parametrize("kind", KINDS)
def test_each_policy_with_each_key(
    keys: dict[str, Any], kind: str, format: Format, pdf_sample: Any, sign: Any, measure: Any, tmp_path: Path
) -> None:
    """ICP-30 to ICP-33: our reader and others accept it, and its attributes are those of the table."""
    key, content = keys[kind], contents(pdf_sample)[format]
    specs = list_specs(format, key)
    versions = [spec.name.removeprefix("AD-RB ") for spec in specs[1:]]
    expected = VERSIONS[format] if kind != "p256" else VERSIONS[format][:1]
    assert list(dict.fromkeys(versions)) == expected
    for number, spec in enumerate(specs):
        artifact = sign(signer_for(format, key, spec), content)
        checked = check(io.BytesIO(artifact), Expectation(format, key.certificate, measure(content), spec))
        assert checked.algorithm is key.algorithm
        file = tmp_path / f"{number}"
        file.write_bytes(artifact)
        require_facts(format, file, spec, [key.chain[1]])


def damaged(spec: SignatureSpec) -> dict[str, SignatureSpec]:
    """What a table of other facts would expect, by what the refusal must say."""
    policy = spec.policy
    assert policy is not None
    shorter = policy.value[:-1] + bytes([policy.value[-1] ^ 1])
    return {
        "names another policy|not 1.2.3": attrs.evolve(spec, policy=attrs.evolve(policy, oid="1.2.3")),
        "another hash": attrs.evolve(spec, policy=attrs.evolve(policy, value=shorter)),
        "another address": attrs.evolve(spec, policy=attrs.evolve(policy, uri="http://other/")),
        "should name none": attrs.evolve(spec, policy=None),
        "which the policy requires": attrs.evolve(spec, required_signed=("1.2.3",)),
        "does not allow": attrs.evolve(spec, key_rules=(KeyRule(KeyAlgorithm.RSA, Digest.SHA256, 8192),)),
        "is valid from": attrs.evolve(spec, not_after=datetime.date(2026, 3, 3)),
    }


@pytest.mark.parametrize("format", FORMATS, ids=lambda one: one.value)
def test_the_check_holds_every_point_against_the_table(
    rsa_key: Any, format: Format, pdf_sample: Any, sign: Any, measure: Any
) -> None:
    """ICP-30, ICP-32, ICP-33, BEY-01: a signature of other facts than the table's is refused, point by point."""
    content = contents(pdf_sample)[format]
    (spec,) = list_specs(format, rsa_key)[1:2]
    artifact = sign(signer_for(format, rsa_key, spec), content)
    for text, wrong in damaged(spec).items():
        with pytest.raises(CheckFailed, match=text):
            check(io.BytesIO(artifact), Expectation(format, rsa_key.certificate, measure(content), wrong))
    bare = sign(signer_for(format, rsa_key, BASELINE_B), content)
    with pytest.raises(CheckFailed):
        check(io.BytesIO(bare), Expectation(format, rsa_key.certificate, measure(content), spec))


def test_a_pdf_of_the_other_filter_is_refused(rsa_key: Any, pdf_sample: Any, sign: Any, measure: Any) -> None:
    """ICP-31, CFG-188: the dictionary has the entries that the profile asks for."""
    content = pdf_sample().build()
    pbad, etsi = list_specs(Format.PADES, rsa_key)[1:3]
    artifact = sign(signer_for(Format.PADES, rsa_key, pbad), content)
    with pytest.raises(CheckFailed, match="/SubFilter"):
        check(io.BytesIO(artifact), Expectation(Format.PADES, rsa_key.certificate, measure(content), etsi))


def test_a_forbidden_attribute_is_refused(
    rsa_key: Any, pdf_sample: Any, sign: Any, measure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ICP-31: signingTime in a PDF, which the official verifier refuses."""
    content = pdf_sample().build()
    spec = list_specs(Format.PADES, rsa_key)[1]
    signer = signer_for(Format.PADES, rsa_key, spec)
    monkeypatch.setattr(signer, "_signed_data", SignedData(rsa_key, spec, with_signing_time=True))
    artifact = sign(signer, content)
    with pytest.raises(CheckFailed, match="signingTime"):
        check(io.BytesIO(artifact), Expectation(Format.PADES, rsa_key.certificate, measure(content), spec))


@attrs.frozen
class Stamp:
    """Adds an unsigned attribute of a known length."""

    length: int
    room: int

    def make(self, signature: bytes) -> bytes:
        assert signature
        return encode_unsigned([("1.2.3.4", b"\x04\x82" + self.length.to_bytes(2, "big") + bytes(self.length))])


@pytest.mark.parametrize("format", [Format.CADES, Format.PADES], ids=lambda one: one.value)
def test_room_is_kept_for_what_is_added_afterwards(
    any_key: Any, format: Format, pdf_sample: Any, sign: Any, tmp_path: Path
) -> None:
    """ICP-40: unsigned attributes that come after the signature fit, and others accept the whole."""
    from bulksigner.formats.cades import CadesSigner
    from bulksigner.formats.pades import PadesSigner

    content, stamp = contents(pdf_sample)[format], Stamp(5000, 5100)
    file = tmp_path / "signed"
    if format is Format.CADES:
        file.write_bytes(sign(CadesSigner(any_key, BASELINE_B, additions=stamp), content))
        assert verify_cms_with_openssl(file, [any_key.chain[1]])
        info = asn1_cms.ContentInfo.load(file.read_bytes())["content"]["signer_infos"][0]
    else:
        file.write_bytes(sign(PadesSigner(any_key, BASELINE_B, additions=stamp), content))
        assert verify_pdf_with_pdfsig(file, [any_key.chain[1]])
        with file.open("rb") as stream:
            info = PdfFileReader(stream).embedded_signatures[0].signer_info
    assert [one["type"].dotted for one in info["unsigned_attrs"]] == ["1.2.3.4"]


def test_what_outgrows_its_room_is_no_half_file(rsa_key: Any, pdf_sample: Any, sign: Any) -> None:
    """ICP-40: an addition larger than the room that was kept ends the signature instead of the PDF."""
    from bulksigner.contract.errors import PermanentFailure
    from bulksigner.formats.pades import PadesSigner

    with pytest.raises(PermanentFailure, match="larger than the room"):
        sign(PadesSigner(rsa_key, BASELINE_B, additions=Stamp(5000, 10)), pdf_sample().build())


def test_certificates_inside_are_those_of_the_chain(keys: dict[str, Any], sign: Any) -> None:
    """ICP-30: the signer's certificate is inside, with its issuer."""
    key = keys["p256"]
    spec = list_specs(Format.CADES, key)[1]
    artifact = sign(signer_for(Format.CADES, key, spec), b"content")
    inside = asn1_cms.ContentInfo.load(artifact)["content"]["certificates"]
    assert {one.chosen.dump() for one in inside} == {key.certificate, key.chain[0]}
    assert all(isinstance(one.chosen, asn1_x509.Certificate) for one in inside)
