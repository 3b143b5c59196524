"""Plain XML signatures of the NF-e family (BEY-13, ICP section 4), with xmlsec1 as the outside judge."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from bulksigner.contract.certificate import Digest
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import CheckFailed, Expectation, FormatRefused
from bulksigner.formats.spec import BASELINE_B, PLAIN_XML, PLAIN_XML_SHA1
from bulksigner.testing.verify import verify_xml_with_xmlsec1

NFE = "http://www.portalfiscal.inf.br/nfe"
DS = "{http://www.w3.org/2000/09/xmldsig#}"
SIGNED_AT = datetime.datetime(2026, 3, 4, tzinfo=datetime.UTC)
KEY = "NFe35260311222333000181550010000000011000000017"
INVOICE = (
    f'<?xml version="1.0" encoding="UTF-8"?><NFe xmlns="{NFE}"><infNFe versao="4.00" Id="{KEY}"><ide><natOp>Venda é'
    "</natOp></ide><det nItem='1'/></infNFe><infNFeSupl><qrCode><![CDATA[https://x?p=1&y]]></qrCode></infNFeSupl></NFe>"
).encode()
EVENT = (
    b'<eSocial xmlns="http://www.esocial.gov.br/schema/evt/evtAdmissao/v1"><evtAdmissao Id="ID1">\r\n <a  b="1"/>\r\n'
    b"</evtAdmissao></eSocial>\r\n"
)
NESTED = (
    b'<NFSe xmlns="http://www.sped.fazenda.gov.br/nfse" xml:lang="pt"><infNFSe Id="NFS1"><DPS><infDPS Id="DPS1"/></DPS>'
    b"</infNFSe></NFSe>"
)
PREFIXED = b'<p:CTe xmlns:p="urn:cte" xmlns="urn:other"><p:infCte Id="CTe1"><p:a/><b xmlns=""/></p:infCte></p:CTe>'
WIDE = '\ufeff<?xml version="1.0" encoding="UTF-16"?><MDFe xmlns="urn:m"><infMDFe Id="M1">ç</infMDFe ></MDFe>'
LATIN = '<?xml version="1.0" encoding="ISO-8859-1"?><evento xmlns="urn:e"><infEvento Id="E1">ação</infEvento></evento>'
DOCUMENTS = {
    "nfe": (INVOICE, f"{NFE}:infNFe"),
    "esocial": (EVENT, "http://www.esocial.gov.br/schema/evt/evtAdmissao/v1:evtAdmissao"),
    "nested": (NESTED, "http://www.sped.fazenda.gov.br/nfse:infNFSe"),
    "prefixed": (PREFIXED, "urn:cte:infCte"),
    "utf-16": (WIDE.encode("utf-16-le"), "urn:m:infMDFe"),
    "latin-1": (LATIN.encode("latin-1"), "urn:e:infEvento"),
}


@pytest.fixture
def sign_plain(measure: Any) -> Callable[..., bytes]:
    def run(data: bytes, key: Any, spec: SignatureSpec = PLAIN_XML) -> bytes:
        target = io.BytesIO()
        signer = signer_for(Format.XADES, key, spec)
        assert signer.sign(io.BytesIO(data), target, expected=measure(data), signed_at=SIGNED_AT) == measure(
            target.getvalue()
        )
        return target.getvalue()

    return run


def expected(data: bytes, key: Any, measure: Any, spec: SignatureSpec = PLAIN_XML) -> Expectation:
    return Expectation(Format.XADES, key.certificate, measure(data), spec)


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("spec", [PLAIN_XML, PLAIN_XML_SHA1], ids=["sha256", "sha1"])
def test_documents_verify_in_two_engines(
    name: str, spec: SignatureSpec, rsa_key: Any, sign_plain: Any, measure: Any, tmp_path: Path
) -> None:
    """BEY-12, BEY-13: valid for our reader and xmlsec1, every byte outside the signature as it was."""
    data, element = DOCUMENTS[name]
    artifact = sign_plain(data, rsa_key, spec)
    checked = check(io.BytesIO(artifact), expected(data, rsa_key, measure, spec))
    assert (checked.digest, checked.measured) == (spec.digest.value, measure(artifact))
    file = tmp_path / "signed.xml"
    file.write_bytes(artifact)
    root = x509.load_pem_x509_certificate(rsa_key.root_pem).public_bytes(Encoding.DER)
    middle, _ = rsa_key.chain
    verdict = verify_xml_with_xmlsec1(file, [root, middle], id_attributes=[element])
    assert verdict, verdict.output


def test_elliptic_keys_sign_too(p256_key: Any, sign_plain: Any, measure: Any) -> None:
    """ICP section 4: files that take newer algorithms; SHA-1 is for RSA alone."""
    check(io.BytesIO(sign_plain(INVOICE, p256_key)), expected(INVOICE, p256_key, measure))
    with pytest.raises(PermanentFailure, match="ECDSA key makes no XML signature with sha1"):
        sign_plain(INVOICE, p256_key, PLAIN_XML_SHA1)


def test_the_shape_is_that_of_the_manual(rsa_key: Any, sign_plain: Any) -> None:
    """BEY-13: next sibling, no prefix, one reference, two transforms in order, the signer's certificate alone."""
    artifact = sign_plain(INVOICE, rsa_key, PLAIN_XML_SHA1)
    assert b"</infNFe><Signature xmlns=" in artifact
    assert b"ds:" not in artifact
    signature = etree.fromstring(artifact)[1]
    assert [etree.QName(one).localname for one in signature] == ["SignedInfo", "SignatureValue", "KeyInfo"]
    assert signature.find(f"{DS}SignedInfo/{DS}SignatureMethod").get("Algorithm").endswith("#rsa-sha1")
    (reference,) = signature.findall(f"{DS}SignedInfo/{DS}Reference")
    assert reference.get("URI") == f"#{KEY}"
    assert [one.get("Algorithm").rpartition("/")[2] for one in reference.iter(f"{DS}Transform")] == [
        "xmldsig#enveloped-signature",
        "REC-xml-c14n-20010315",
    ]
    assert reference.find(f"{DS}DigestMethod").get("Algorithm").endswith("xmldsig#sha1")
    (certificate,) = signature.iter(f"{DS}X509Certificate")
    assert "\n" not in (certificate.text or "")
    assert [one.tag for one in signature.find(f"{DS}KeyInfo")] == [f"{DS}X509Data"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"<NFe><a/></NFe>", "no element with an Id"),
        (b"<NFe><infNFe/></NFe>", "no element with an Id"),
        (b'<infNFe Id="a">x</infNFe>', "document's root"),
        (b'<x><infNFe Id="a"/></x>', "empty"),
        (b'<x><infNFe Id="a">1</infNFe><infNFe Id="b">2</infNFe></x>', "2 elements to sign"),
        (b'<x><infNFe Id="a">1</infNFe><y Id="a"/></x>', "that of another element"),
        (b'<x><infNFe Id="a">1</infNFe><y id="a"/></x>', "that of another element"),
        (b'<x><infNFe Id="a b">1</infNFe></x>', "is not a name"),
        (b'<x><infNFe Id="">1</infNFe></x>', "is not a name"),
        (b'<!DOCTYPE x><x><infNFe Id="a">1</infNFe></x>', "DOCTYPE"),
        (b'<x><infNFe Id="a">1</infNFe>', "well-formed"),
    ],
)
def test_others_are_refused_before_the_key_is_used(data: bytes, text: str, rsa_key: Any, sign_plain: Any) -> None:
    """BEY-12, BEY-13: the finding is named and the key stays untouched."""
    key = attrs.evolve(rsa_key, uses=0)
    with pytest.raises(FormatRefused, match=text):
        sign_plain(data, key)
    assert key.uses == 0


def test_a_second_signature_is_refused(rsa_key: Any, sign_plain: Any) -> None:
    """BEY-13: these documents have one signature."""
    with pytest.raises(FormatRefused, match="has a signature already"):
        sign_plain(sign_plain(INVOICE, rsa_key), rsa_key)


def test_a_signature_around_is_not_broken(rsa_key: Any, sign_plain: Any) -> None:
    """BEY-12: inside an element that an earlier signature covers there is no place for another."""
    batch = b'<lote><x Id="l1"><NFe><infNFe Id="a">1</infNFe></NFe></x></lote>'
    around = sign_plain(batch, rsa_key, attrs.evolve(BASELINE_B, xml_element="x"))
    key = attrs.evolve(rsa_key, uses=0)
    with pytest.raises(FormatRefused, match="over the element where the new one belongs"):
        sign_plain(around, key)
    assert key.uses == 0


def test_any_change_is_found(rsa_key: Any, sign_plain: Any, measure: Any) -> None:
    """BEY-01, ICP-32, ICP-35: one changed byte anywhere, and nothing but a refusal comes of it."""
    artifact = sign_plain(INVOICE, rsa_key)
    for position in range(0, len(artifact), 7):
        changed = bytearray(artifact)
        changed[position] ^= 1
        with pytest.raises(CheckFailed):
            check(io.BytesIO(bytes(changed)), expected(INVOICE, rsa_key, measure))


def test_sha1_passes_only_where_it_is_expected(rsa_key: Any, sign_plain: Any, measure: Any) -> None:
    """CFG-197: a SHA-1 signature is no plain signature with SHA-256, and the other way round."""
    for made, wanted in ((PLAIN_XML_SHA1, PLAIN_XML), (PLAIN_XML, PLAIN_XML_SHA1)):
        artifact = sign_plain(INVOICE, rsa_key, made)
        with pytest.raises(CheckFailed, match="is not allowed"):
            check(io.BytesIO(artifact), expected(INVOICE, rsa_key, measure, wanted))


def test_sha1_is_in_no_other_signature(rsa_key: Any) -> None:
    """BEY-13: no other format is made with SHA-1, whatever a specification says."""
    sha1 = attrs.evolve(PLAIN_XML, digest=Digest.SHA1, is_plain_xml=False)
    for known in Format:
        with pytest.raises(KeyError):
            signer_for(known, rsa_key, sha1)
