"""Awkward XML files: each is signed and valid in two engines, or refused before the key is used (BEY-12, ICP-32)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.contract.signing import Format
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import Expectation, FormatRefused
from bulksigner.formats.policies import read_key, shipped_policies
from bulksigner.testing.verify import verify_xml_with_xmlsec1

HEAD = '<?xml version="1.0" encoding="{}"?>'
BODY = '<a xmlns="urn:a"><b>Ação &amp; Cia</b></a>'
BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
DEEP = "<a>" + "<b>" * 150 + "x" + "</b>" * 150 + "</a>"
TOO_DEEP = "<a>" + "<b>" * 300 + "x" + "</b>" * 300 + "</a>"
SIGNATURE = (
    '<s:Signature xmlns:s="http://www.w3.org/2000/09/xmldsig#"><s:SignedInfo><s:Reference URI="{}"><s:Transforms/>'
    "</s:Reference></s:SignedInfo></s:Signature>"
)

SIGNED: dict[str, bytes] = {
    "plain": BODY.encode(),
    "declared utf-8": (HEAD.format("UTF-8") + BODY).encode(),
    "byte order mark": b"\xef\xbb\xbf" + (HEAD.format("utf-8") + BODY).encode(),
    "utf-16 little": b"\xff\xfe" + (HEAD.format("UTF-16") + BODY).encode("utf-16-le"),
    "utf-16 big": b"\xfe\xff" + (HEAD.format("UTF-16") + BODY).encode("utf-16-be"),
    "iso-8859-1": (HEAD.format("ISO-8859-1") + BODY).encode("latin-1"),
    "windows-1252": (HEAD.format("windows-1252") + BODY.replace("Cia", "Cia – €")).encode("cp1252"),
    "us-ascii": (HEAD.format("US-ASCII") + "<a>&#231;&#x1F600;</a>").encode(),
    "crlf": b"<a>\r\n  <b>1</b>\r\n  <c x='1'\r\n y='2'/>\r\n</a>\r\n",
    "lone cr": b"<a>\r<b>1\r2</b>\r</a>\r",
    "character reference of cr": b"<a>&#13;<b x='&#13;&#10;&#9;'/></a>",
    "cdata": b"<a><![CDATA[<b>&amp;</b>]]>]]&gt;</a>",
    "cdata beside text": b"<a>x<![CDATA[]]>y<![CDATA[z]]></a>",
    "instructions": b"<?xml-stylesheet href='a.xsl'?><a><?php echo 1 ?><b/></a><?end?>",
    "comments": b"<!-- before --><a><!-- in --><b>1<!-- x -->2</b></a><!-- after -->",
    "mixed namespaces": b'<p:a xmlns:p="urn:p" xmlns="urn:d"><b xmlns=""><p:c xmlns:p="urn:q" p:x="1"/></b></p:a>',
    "no namespace, said on the root": b'<a xmlns=""><b/></a>',
    "default namespace that changes": b'<a xmlns="urn:1"><b xmlns="urn:2"><c xmlns="urn:1"/></b><d xmlns=""/></a>',
    "prefix of the signature in use": b'<ds:a xmlns:ds="urn:mine"><ds:b xmlns:xades="urn:mine2" xades:c="1"/></ds:a>',
    "unused namespaces": b'<a xmlns:z="urn:z" xmlns:y="urn:y" xmlns:x="urn:z"><b/></a>',
    "xml:lang": b'<a xml:lang="pt-BR" xml:space="preserve"><b xml:lang="en"> x </b></a>',
    "xml:base and xml:id": b'<a xml:base="http://x/" xml:id="root"><b xml:id="two"/></a>',
    "attribute order and quotes": b"<a z='1' b=\"2\" a='\"'   c = '&lt;&gt;&apos;'></a>",
    "blanks in the end tag": b"<a><b></b  ></a\r\n >\n",
    "empty elements": b"<a><b/><c></c><d /></a>",
    "names beyond ascii": "<ação é='1'><ünï/></ação>".encode(),
    "astral characters": "<a>\U0001f600\U00010348</a>".encode(),
    "references to characters": b"<a b='&#xA;&#x20;'>&#x41;&#66;&amp;&lt;&gt;&quot;&apos;</a>",
    "deep": DEEP.encode(),
    "many attributes": b"<a " + b" ".join(b"a%d='%d'" % (n, n) for n in range(200)) + b"></a>",
    "duplicate ids without a reference": b"<a><b Id='x'/><b Id='x'/></a>",
    "ids like ours": b"<a><b Id='reference-1'/><b Id='properties-1'/></a>",
    "a signature over a part": ("<a><b Id='b1'>1</b>" + SIGNATURE.format("#b1") + "</a>").encode(),
    "blanks around the root": b"\n\n<a>1</a>\n\n\n",
    "long text": b"<a>" + b"x" * 1_000_000 + b"</a>",
    "standalone": b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<a>1</a>',
}

REFUSED: dict[str, tuple[bytes, str]] = {
    "doctype": (b"<!DOCTYPE a><a>1</a>", "DOCTYPE"),
    "external doctype": (b"<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/a.dtd'><a>1</a>", "DOCTYPE"),
    "external entity": (b"<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>", "DOCTYPE"),
    "entity bomb": (f"<!DOCTYPE a [<!ENTITY e0 'x'>{BOMB}]><a>&e9;</a>".encode(), "DOCTYPE"),
    "unknown entity": (b"<a>&nbsp;</a>", "1:4"),
    "declared encoding contradicts": (b"\xff\xfe" + (HEAD.format("UTF-8") + BODY).encode("utf-16-le"), "contradicts"),
    "utf-16 without a mark": ((HEAD.format("UTF-16") + BODY).encode("utf-16-le"), "byte order mark"),
    "utf-32": (BODY.encode("utf-32"), "well-formed|byte order|no text"),
    "encoding that is unknown": ((HEAD.format("EBCDIC-XY") + BODY).encode(), "encoding"),
    "bytes that are not utf-8": (b"<a>\xe7\xe3o</a>", "1:"),
    "xml 1.1": (b'<?xml version="1.1"?><a>1</a>', "1.1"),
    "empty root": (b"<a/>", "empty"),
    "no xml": (b"name;value\n1;2\n", "well-formed"),
    "nothing": (b"", "well-formed"),
    "cut off": (b"<a><b>1</b>", "well-formed"),
    "two roots": (b"<a>1</a><b>2</b>", "well-formed"),
    "undeclared prefix": (b"<p:a>1</p:a>", "well-formed"),
    "duplicate attribute": (b"<a b='1' b='2'>1</a>", "well-formed"),
    "control character": (b"<a>\x01</a>", "well-formed"),
    "nul": (b"<a>\x00</a>", "well-formed"),
    "too deep": (TOO_DEEP.encode(), "deeper"),
    "too many attributes": (b"<a " + b" ".join(b"a%d='1'" % n for n in range(300)) + b"></a>", "attributes"),
    "relative namespace": (b'<a xmlns="relative">1</a>', "absolute URI"),
    "namespace with an ampersand": (b'<a xmlns="urn:a&amp;b">1</a>', "blanks"),
    "namespace with a blank": (b'<a xmlns="urn:a b">1</a>', "well-formed"),
    "duplicate ids of a reference": (
        ("<a><b Id='x'/><b Id='x'/>" + SIGNATURE.format("#x") + "</a>").encode(),
        "several elements carry",
    ),
    "signed as a whole": (("<a>" + SIGNATURE.format("") + "</a>").encode(), "over its whole content"),
    "itself a signature": (SIGNATURE.format("").encode(), "itself an XML signature"),
}


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize("kind", ["rsa", "p256"])
def test_it_is_signed_and_valid_in_two_engines(
    name: str, kind: str, request: pytest.FixtureRequest, measure: Any, tmp_path: Path
) -> None:
    """BEY-12: valid for our reader and for xmlsec1, and without the signature the bytes are those handed in."""
    data, key = SIGNED[name], request.getfixturevalue(f"{kind}_key")
    spec = shipped_policies().usable(Format.XADES, "AD-RB", None, read_key(key))[0].spec(etsi_filter=False)
    target = io.BytesIO()
    signer = signer_for(Format.XADES, key, spec)
    signer.sign(io.BytesIO(data), target, expected=measure(data), signed_at=read_time())
    checked = check(target, Expectation(Format.XADES, key.certificate, measure(data), spec))
    assert checked.signing_time == read_time()
    artifact = target.getvalue()
    start = next(n for n in range(len(data) + 1) if n == len(data) or artifact[n] != data[n])
    assert artifact[len(artifact) - (len(data) - start) :] == data[start:]
    file = tmp_path / "signed.xml"
    file.write_bytes(artifact)
    if name == "a signature over a part":
        # xmlsec1 judges the first signature, which here is one that only looks like one.
        return
    root = x509.load_pem_x509_certificate(key.root_pem).public_bytes(Encoding.DER)
    verdict = verify_xml_with_xmlsec1(file, [root])
    assert verdict, verdict.output


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_before_the_key_is_used(name: str, rsa_key: Any, measure: Any) -> None:
    """BEY-12, SEC-70: the first defect is named, with the code of a refusal, and the key stays untouched."""
    data, text = REFUSED[name]
    key, target = attrs.evolve(rsa_key, uses=0), io.BytesIO()
    with pytest.raises(FormatRefused, match=text) as raised:
        signer_for(Format.XADES, key).sign(io.BytesIO(data), target, expected=measure(data), signed_at=read_time())
    assert raised.value.code == "sign.failed"
    assert (key.uses, target.getvalue()) == (0, b"")


def read_time() -> Any:
    from datetime import UTC, datetime

    return datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
