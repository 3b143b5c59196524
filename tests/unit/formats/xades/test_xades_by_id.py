"""XAdES of one element by its Id (BEY-12), with xmlsec1 as the outside judge."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from lxml import etree

from bulksigner.contract.signing import Format
from bulksigner.formats.dispatch import check
from bulksigner.formats.model import CheckFailed, Expectation, FormatRefused, PdfRules
from bulksigner.formats.preflight import find_defects
from bulksigner.formats.spec import BASELINE_B

DS = "{http://www.w3.org/2000/09/xmldsig#}"
ESOCIAL = "http://www.esocial.gov.br/schema/evt/evtAdmissao/v1"
BY_ID = attrs.evolve(BASELINE_B, xml_element="evt")
EVENT = (
    f'<?xml version="1.0" encoding="UTF-8"?>\r\n<eSocial xmlns="{ESOCIAL}"><before>0</before><evt Id="ID1">\r\n <a  '
    "b='1'>é<!-- a comment --></a>\r\n</evt><after>2</after></eSocial>\r\n"
).encode()
DEEP = b'<p:l xmlns:p="urn:l" xmlns="urn:d" xml:lang="pt"><x><p:evt ID="a-1"><b xmlns=""/></p:evt></x><y id="b"/></p:l>'
BARE = b'<lote><evt id="_1" xml:space="preserve"/></lote>'
ROOT = b'<!-- before --><evt xmlns="urn:e" Id="r"><a>1</a></evt>'
WIDE = '\ufeff<?xml version="1.0" encoding="UTF-16"?><l xmlns="urn:l"><evt Id="w">ç</evt ></l>'.encode("utf-16-le")
DOCUMENTS = {
    "event": (EVENT, "Id", f"{ESOCIAL}:evt"),
    "deep": (DEEP, "ID", "urn:l:evt"),
    "bare": (BARE, "id", "evt"),
    "root": (ROOT, "Id", "urn:e:evt"),
    "utf-16": (WIDE, "Id", "urn:l:evt"),
}


@pytest.fixture
def look(measure: Any) -> Callable[..., Any]:
    def run(artifact: bytes, data: bytes, key: Any, spec: Any = BY_ID) -> Any:
        return check(io.BytesIO(artifact), Expectation(Format.XADES, key.certificate, measure(data), spec))

    return run


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("kind", ["rsa_key", "p256_key"])
def test_elements_are_signed_by_their_id(
    name: str, kind: str, request: Any, sign: Any, look: Any, xmlsec1: Any, measure: Any
) -> None:
    """BEY-12, ICP-32: our check and xmlsec1 accept it; the signature is the root's last child, and no byte moved."""
    data, attribute, element = DOCUMENTS[name]
    key = request.getfixturevalue(kind)
    artifact = sign(data, key, BY_ID)
    assert look(artifact, data, key).measured == measure(artifact)
    assert xmlsec1(artifact, key, f"--id-attr:{attribute}", element)
    root = etree.fromstring(artifact)
    (first, _) = root[-1].findall(f"{DS}SignedInfo/{DS}Reference")
    assert first.get("URI") in {"#ID1", "#a-1", "#_1", "#r", "#w"}
    transforms = [one.get("Algorithm").rpartition("/")[2] for one in first.iter(f"{DS}Transform")]
    around = ["xmldsig#enveloped-signature"] if name == "root" else []
    assert transforms == [*around, "REC-xml-c14n-20010315"]


def test_what_is_in_the_element_is_covered_and_what_is_not_is_not(
    rsa_key: Any, sign: Any, look: Any, xmlsec1: Any
) -> None:
    """BEY-01, BEY-12: others find a changed byte in the element only; our check finds one anywhere in the file."""
    artifact = sign(EVENT, rsa_key, BY_ID)
    register = ("--id-attr:Id", f"{ESOCIAL}:evt")
    for old, new, accepted in (
        (b"b='1'", b"b='2'", False),
        ("é".encode(), "è".encode(), False),
        (b'Id="ID1"', b'Id="ID2"', False),
        (b"<after>2", b"<after>3", True),
        (b"<before>0", b"<before>1", True),
    ):
        changed = artifact.replace(old, new)
        assert changed != artifact
        assert xmlsec1(changed, rsa_key, *register) is accepted, (old, new)
        with pytest.raises(CheckFailed, match="not the original"):
            look(changed, EVENT, rsa_key)


def test_any_change_is_found(rsa_key: Any, sign: Any, look: Any) -> None:
    """BEY-01, ICP-32: one changed byte anywhere, in the signature too, and nothing but a refusal comes of it."""
    artifact = sign(EVENT, rsa_key, BY_ID)
    # Nothing signs the last certificate of the chain, a root; whom to trust is decided elsewhere.
    root = range(artifact.rindex(b"<ds:X509Certificate>"), artifact.index(b"</ds:X509Data>"))
    for position in set(range(0, len(artifact), 5)) - set(root):
        changed = bytearray(artifact)
        changed[position] ^= 1
        with pytest.raises(CheckFailed):
            look(bytes(changed), EVENT, rsa_key)


def test_signatures_of_something_else_do_not_pass(rsa_key: Any, sign: Any, look: Any) -> None:
    """ICP-32: the check demands the element that the profile names, not any that a valid signature is of."""
    other = attrs.evolve(BASELINE_B, xml_element="evt2")
    data = EVENT.replace(b"<after>", b'<evt2 Id="ID2">3</evt2><after>')
    for made, wanted, text in (
        (other, BY_ID, "not to the element evt"),
        (BASELINE_B, BY_ID, "not to the element evt"),
        (BY_ID, BASELINE_B, "not to the whole document"),
        (BY_ID, attrs.evolve(BASELINE_B, xml_element="evt3"), "0 elements evt3"),
    ):
        with pytest.raises(CheckFailed, match=text):
            look(sign(data, rsa_key, made), data, rsa_key, wanted)


def test_the_check_refuses_documents_that_leave_a_doubt(
    rsa_key: Any, sign: Any, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-01: with a signer that took the first element or Id that it met, the check would find it."""
    from bulksigner.formats import xades

    def take_first(root: Any, name: str) -> Any:
        element = next(root.iter(f"{{*}}{name}"))
        return element, element.get("Id")

    monkeypatch.setattr(xades, "find_named", take_first)
    for data, text in (
        (b'<l><evt Id="a">1</evt><evt Id="b">2</evt></l>', "2 elements evt"),
        (b'<l><evt Id="a">1</evt><x ID="a">2</x></l>', "more than once"),
        (b'<l><evt Id="a">1</evt><x xml:id="a">2</x></l>', "more than once"),
    ):
        with pytest.raises(CheckFailed, match=text):
            look(sign(data, rsa_key, BY_ID), data, rsa_key)


@pytest.mark.parametrize(
    ("data", "text", "place", "remedy"),
    [
        (b"<l>\n<a/></l>", "no element evt", "1:1", "Xml:SignElement"),
        (b'<l><evt Id="a"/>\n<evt Id="b"/></l>', r"2 elements evt \(lines 1, 2\)", "2:1", "one at a time"),
        (b'<l><evt Id="a">\n<evt Id="b"/></evt></l>', "2 elements evt", "2:1", "one at a time"),
        (b"<l>\n<evt/></l>", "no Id, ID or id", "2:1", "Give it one"),
        (b'<l>\n<evt Id="a" id="b"/></l>', "has Id, id at once", "2:1", "Give it one"),
        (b'<l>\n<evt Id="a b"/></l>', "is not a name", "2:1", "Begin it with a letter"),
        (b'<l>\n<evt Id=""/></l>', "is not a name", "2:1", "Begin it with a letter"),
        (b'<l>\n<evt Id="a"/>\n<x ID="a"/></l>', "at line 3, too", "2:1", "its own"),
        (b'<l>\n<evt Id="a"/>\n<x xml:id="a"/></l>', "at line 3, too", "2:1", "its own"),
        (b'<evt Id="a"/>', "root element is empty", "", ""),
        (b'<l xmlns:p="../p"><evt xmlns:p="urn:p" Id="a"/></l>', "no canonical form", "", ""),
        (b'<l><evt xmlns:p="../p" Id="a"/></l>', "no canonical form", "", ""),
    ],
)
def test_others_are_refused_before_the_key_is_used(
    data: bytes, text: str, place: str, remedy: str, rsa_key: Any, sign: Any, measure: Any
) -> None:
    """BEY-10, BEY-12: place and remedy are told, the key stays untouched, and the look beforehand says the same."""
    key = attrs.evolve(rsa_key, uses=0)
    with pytest.raises(FormatRefused, match=text) as caught:
        sign(data, key, BY_ID)
    assert key.uses == 0
    assert (caught.value.place, remedy in caught.value.remedy) == (place, True)
    [finding] = find_defects(io.BytesIO(data), Format.XADES, measure(data), PdfRules(), BY_ID)
    assert (finding.text, finding.place) == (caught.value.problem, place)


def test_a_document_is_signed_twice(rsa_key: Any, p256_key: Any, sign: Any, look: Any, xmlsec1: Any) -> None:
    """BEY-12: the first signature, beside the element, stays valid when a second one comes after it."""
    once = sign(EVENT, rsa_key, BY_ID)
    twice = sign(once, p256_key, BY_ID)
    look(twice, once, p256_key)
    for number, key in ((1, rsa_key), (2, p256_key)):
        node = f"(//*[local-name()='Signature'])[{number}]"
        assert xmlsec1(twice, key, "--id-attr:Id", f"{ESOCIAL}:evt", node=node)
