"""XAdES signatures as xmlsec1 reads them."""

from __future__ import annotations

import base64
import datetime
import io
import re

import attrs
import pytest
from cryptography.hazmat.primitives.asymmetric import utils
from lxml import etree

from bulksigner.contract.certificate import Digest
from bulksigner.contract.errors import ProviderError
from bulksigner.contract.policy import CertificateElement, PolicyIdentifier
from bulksigner.formats.model import ContentChanged, FormatRefused
from bulksigner.formats.spec import BASELINE_B
from bulksigner.formats.xades import XadesSigner
from bulksigner.formats.xades_check import check_xml

SIGNATURE = re.compile(r'<ds:Signature xmlns:ds="[^"]*" Id="signature-[0-9a-f]{16}">.*</ds:Signature>', re.DOTALL)

SHAPES = {
    "plain": "<a>texto</a>",
    "line ends": '<?xml version="1.0"?>\r\n<a>\r\n  <b>x</b>\r\n\t<c  k = "1"\r\n l=\'2\' />\r\n</a >\r\n',
    "bare carriage returns": "<a>\r<b>um&#13;dois&#xA;</b>\r</a>\r",
    "cdata and entities": "<a><![CDATA[<b>&amp;</b>]]> &quot;&#233;&gt; ]]&gt;<e></e><f/></a>",
    "outside the root": "<?xml version='1.0'?><!-- </a> --><?p one?>\n<a>x</a>\n\n<!-- </a> --><?q two ?>\n<!-- e -->",
    "comments inside": "<a><!-- one --><b>x<!-- two -->y</b><?p a?><!-- </a> --></a>",
    "no namespace, said on the root": '<a xmlns=""><b xmlns="urn:one"/></a>',
    "default namespaces that change": '<a xmlns="urn:one"><b xmlns=""><c xmlns="urn:two"/></b><d xmlns="urn:one"/></a>',
    "prefixes": '<z:a xmlns:z="urn:z" xmlns:B="urn:B" xmlns:b="urn:b" xmlns="urn:d" B:k="1" b:k="2" k="3"><b:c/></z:a>',
    "our prefixes taken": '<a xmlns:ds="urn:other" xmlns:xades="urn:more"><ds:b xades:c="1"/></a>',
    "our namespaces declared": '<a xmlns:ds="http://www.w3.org/2000/09/xmldsig#" xmlns="http://uri.etsi.org/"></a>',
    "xml attributes": '<a xml:lang="pt-BR" xml:space="preserve" xml:base="x?a&amp;&quot;&#9;" Id="a"> <b/> </a>',
    "xml:id": '<a xml:id="root"><b xml:id="leaf"/></a>',
    "xml prefix declared": '<a xmlns:xml="http://www.w3.org/XML/1998/namespace" xml:lang="pt"></a>',
    "empty": "<a></a>",
    "beyond the first plane": "<a título='\U0001d11e'>\U0001d11e€</a>",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_xades_shape_is_spliced_and_verifies(shape, sign, xmlsec1, rsa_key):
    """BEY-12: xmlsec1 accepts the signature, and without it the input is there byte for byte."""
    data = SHAPES[shape].encode()
    artifact = sign(data, rsa_key)
    assert xmlsec1(artifact, rsa_key)
    assert SIGNATURE.sub("", artifact.decode()).encode() == data


@pytest.mark.parametrize(
    ("declared", "codec", "mark"),
    [
        ("", "utf-8", b""),
        ("UTF-8", "utf-8", b""),
        ("utf-8", "utf-8", b"\xef\xbb\xbf"),
        ("", "utf-8", b"\xef\xbb\xbf"),
        ("UTF-16", "utf-16-le", b"\xff\xfe"),
        ("UTF-16", "utf-16-be", b"\xfe\xff"),
        ("", "utf-16-le", b"\xff\xfe"),
        ("ISO-8859-1", "latin-1", b""),
        ("windows-1252", "cp1252", b""),
    ],
)
def test_xades_encoding_is_kept(declared, codec, mark, sign, xmlsec1, rsa_key, invoice):
    """BEY-12: the signature is written in the encoding of the document."""
    declaration = f'<?xml version="1.0" encoding="{declared}"?>\r\n' if declared else ""
    data = mark + invoice(declaration=declaration, attributes=' xml:lang="pt-BR"').encode(codec)
    artifact = sign(data, rsa_key)
    assert xmlsec1(artifact, rsa_key)
    assert mark + SIGNATURE.sub("", artifact[len(mark) :].decode(codec)).encode(codec) == data


@pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA512])
@pytest.mark.parametrize("kind", ["rsa", "p256", "p384", "p521"])
def test_xades_keys_and_digests(kind, digest, sign, xmlsec1, make_key, invoice):
    """ICP-41: RSA, and ECDSA with r and s side by side at the size of the curve."""
    key = make_key(kind)
    artifact = sign(invoice().encode(), key, attrs.evolve(BASELINE_B, digest=digest))
    assert xmlsec1(artifact, key)
    algorithm = "rsa" if kind == "rsa" else "ecdsa"
    assert f"xmldsig-more#{algorithm}-{digest.value}".encode() in artifact


@pytest.mark.parametrize("element", CertificateElement)
def test_xades_row_decides_elements(element, sign, xmlsec1, expectation, rsa_key):
    """ICP-32: certificate element, signing time and policy follow the row; issuer names keep their characters."""
    policy = PolicyIdentifier("2.16.76.1.7.1.6.2.5", Digest.SHA256, bytes(32), "http://politicas.example/PA.xml?a&b")
    row = attrs.evolve(BASELINE_B, policy=policy, xades_signing_time=False, xades_certificate_element=element)
    artifact = sign(b"<a>x</a>", rsa_key, row)
    assert xmlsec1(artifact, rsa_key)
    checked = check_xml(io.BytesIO(artifact), expectation(b"<a>x</a>", rsa_key))
    assert checked.signing_time is None
    root = etree.fromstring(artifact)
    names = {"x": "http://uri.etsi.org/01903/v1.3.2#", "ds": "http://www.w3.org/2000/09/xmldsig#"}
    properties = root.find(".//x:SignedSignatureProperties", names)
    assert [etree.QName(child).localname for child in properties] == [element.value, "SignaturePolicyIdentifier"]
    assert properties.findtext(".//x:Identifier", namespaces=names) == "urn:oid:2.16.76.1.7.1.6.2.5"
    assert properties.findtext(".//x:SPURI", namespaces=names) == policy.uri
    issuer = properties.findtext(".//ds:X509IssuerName", namespaces=names)
    if element is CertificateElement.SIGNING_CERTIFICATE:
        assert issuer.startswith("CN=AC Certificação Única,O=ICP-Teste")
    else:
        assert issuer is None


def test_xades_form_of_baseline(sign, rsa_key):
    """ICP-41: prefixes, one-line base64, signer's certificate first and the chain after it, time in UTC."""
    text = sign(b"<a>x</a>", rsa_key).decode()
    assert "\n" not in text
    certificates = re.findall(r"<ds:X509Certificate>([^<]*)</ds:X509Certificate>", text)
    assert [base64.b64decode(value) for value in certificates] == [rsa_key.certificate, *rsa_key.chain]
    assert "<xades:SigningTime>2025-09-01T15:30:15Z</xades:SigningTime>" in text
    assert len(set(re.findall(r' Id="([^"]*)"', text))) == 3


def test_xades_identifiers_never_collide(sign, rsa_key, monkeypatch):
    """BEY-12: an Id that the document might already have is drawn again."""
    drawn = iter(["0" * 16, "1" * 16])
    monkeypatch.setattr("bulksigner.formats.xades.secrets.token_hex", lambda _: next(drawn))
    artifact = sign(b'<a Id="properties-0000000000000000"></a>', rsa_key)
    assert b'<xades:SignedProperties Id="properties-1111111111111111">' in artifact


TEMPLATE = (
    '<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:SignedInfo>'
    '<ds:CanonicalizationMethod Algorithm="http://www.w3.org/TR/2001/REC-xml-c14n-20010315"/>'
    '<ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"/><ds:Reference URI="{uri}">'
    "<ds:Transforms>{transform}</ds:Transforms>"
    '<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"/><ds:DigestValue/></ds:Reference>'
    "</ds:SignedInfo><ds:SignatureValue/><ds:KeyInfo><ds:X509Data/></ds:KeyInfo></ds:Signature>"
)
ENVELOPED = '<ds:Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/>'
WITHOUT_SIGNATURES = (
    '<ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116">'
    "<ds:XPath>not(ancestor-or-self::ds:Signature)</ds:XPath></ds:Transform>"
)
ID_OF_INVOICE = ("--id-attr:Id", "http://www.portalfiscal.inf.br/nfe:infNFe")


@pytest.mark.parametrize(
    ("uri", "transform"),
    [("#NFe35250911222333000181550010000000011000000017", ENVELOPED), ("", WITHOUT_SIGNATURES)],
    ids=["by Id", "by XPath"],
)
def test_xades_on_top_of_another_signature(uri, transform, sign, xmlsec1, xmlsec1_sign, expectation, rsa_key, invoice):
    """BEY-12: a signature that the document holds stays, is covered and still verifies beside the new one."""
    first = "(//*[local-name()='Signature'])[1]"
    text = invoice().replace("</NFe>", TEMPLATE.format(uri=uri, transform=transform) + "</NFe>")
    data = xmlsec1_sign(text.encode(), rsa_key, *ID_OF_INVOICE)
    assert xmlsec1(data, rsa_key, *ID_OF_INVOICE)
    artifact = sign(data, rsa_key)
    assert xmlsec1(artifact, rsa_key, *ID_OF_INVOICE, node=first)
    assert xmlsec1(artifact, rsa_key)
    check_xml(io.BytesIO(artifact), expectation(data, rsa_key))
    value = artifact.index(b"<ds:SignatureValue>") + 30
    assert not xmlsec1(artifact[:value] + b"AAAA" + artifact[value + 4 :], rsa_key)


@pytest.mark.parametrize("uri", ["", "#all", "#xpointer(/)", "#xpointer(id('all'))"])
def test_xades_refuses_to_break_a_signature(uri, sign, rsa_key):
    """BEY-12: a signature over the whole content would not survive another one."""
    text = f'<a Id="all">\n{TEMPLATE.format(uri=uri, transform=ENVELOPED)}</a>'
    with pytest.raises(FormatRefused, match=r"^Refused at 2:1: the document holds a signature over its whole content"):
        sign(text.encode(), rsa_key)
    with pytest.raises(FormatRefused, match="over its whole content"):
        sign(sign(b"<a></a>", rsa_key), rsa_key)


def test_xades_refuses_ambiguous_reference(sign, rsa_key):
    """BEY-12: an Id that a signature refers to must be unique; other values may repeat."""
    sign(b'<a><b id="1"/><c id="1"/></a>', rsa_key)
    text = f'<a><b id="1"/><c Id="1"/>{TEMPLATE.format(uri="#1", transform=ENVELOPED)}</a>'
    with pytest.raises(FormatRefused, match="'#1', which several elements carry"):
        sign(text.encode(), rsa_key)
    with pytest.raises(FormatRefused, match="is itself an XML signature"):
        sign(TEMPLATE.encode(), rsa_key)


@pytest.mark.parametrize("change", [b"<a>y</a>", b"<a>x</a> ", b"<a>x</a", b"", b"not xml"])
def test_xades_changed_content_leaves_key_alone(change, measure, make_key):
    """PIPE-77: bytes that are not the staged ones are refused before the key is used."""
    key, target = make_key("p256"), io.BytesIO()
    with pytest.raises(ContentChanged):
        XadesSigner(key, BASELINE_B).sign(
            io.BytesIO(change), target, expected=measure(b"<a>x</a>"), signed_at=datetime.datetime.now(datetime.UTC)
        )
    assert (key.uses, target.getvalue()) == (0, b"")


@pytest.mark.parametrize("answer", [b"no DER", utils.encode_dss_signature(1 << 300, 1)])
def test_xades_broken_key_answer_is_named(answer, make_key, sign, monkeypatch):
    """ICP-43: an answer that is no ECDSA signature of the curve is the key's fault, in words."""
    key = make_key("p256")
    monkeypatch.setattr(type(key), "sign", lambda self, data, digest: answer)
    with pytest.raises(ProviderError, match="not an ECDSA signature"):
        sign(b"<a></a>", key)
