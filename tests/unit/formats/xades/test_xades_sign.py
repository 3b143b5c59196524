"""XAdES signatures as xmlsec1 reads them."""

from __future__ import annotations

import re

import attrs
import pytest

from bulksigner.contract.certificate import Digest
from bulksigner.formats.spec import BASELINE_B

SIGNATURE = re.compile(r'<ds:Signature xmlns:ds="[^"]*" Id="signature-[0-9a-f]{16}">.*</ds:Signature>', re.DOTALL)

SHAPES = {
    "plain": "<a>texto</a>",
    "line ends": '<?xml version="1.0"?>\r\n<a>\r\n  <b>x</b>\r\n\t<c  k = "1"\r\n l=\'2\' />\r\n</a >\r\n',
    "bare carriage returns": "<a>\r<b>um&#13;dois&#xA;</b>\r</a>\r",
    "cdata and entities": "<a><![CDATA[<b>&amp;</b>]]> &quot;&#233;&gt; ]]&gt;<e></e><f/></a>",
    "outside the root": "<?xml version='1.0'?><!-- </a> --><?p one?>\n<a>x</a>\n\n<!-- </a> --><?q two ?>\n<!-- e -->",
    "comments inside": "<a><!-- one --><b>x<!-- two -->y</b><?p a?><!-- </a> --></a>",
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


@pytest.mark.parametrize("digest", Digest)
@pytest.mark.parametrize("kind", ["rsa", "p256", "p384", "p521"])
def test_xades_keys_and_digests(kind, digest, sign, xmlsec1, make_key, invoice):
    """ICP-41: RSA, and ECDSA with r and s side by side at the size of the curve."""
    key = make_key(kind)
    artifact = sign(invoice().encode(), key, attrs.evolve(BASELINE_B, digest=digest))
    assert xmlsec1(artifact, key)
    algorithm = "rsa" if kind == "rsa" else "ecdsa"
    assert f"xmldsig-more#{algorithm}-{digest.value}".encode() in artifact
