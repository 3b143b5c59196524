"""Damaged XML and CMS files at the door: signed so that the check agrees, or refused in words (BEY-12, SEC-70)."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from bulksigner.contract.policy import Joining
from bulksigner.contract.signing import Format
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import CheckFailed, Expectation, FormatRefused, PdfRules
from bulksigner.formats.preflight import find_defects
from bulksigner.formats.spec import BASELINE_B, PLAIN_XML
from bulksigner.testing.fuzzing import FUZZ_SECONDS, fuzz, mutate_bytes, mutate_der

# A library may warn of what it then refuses.
pytestmark = pytest.mark.filterwarnings("ignore")

Door = Callable[[bytes], str]
Make = Callable[[random.Random], bytes]
SIGNED, REFUSED, FOUND = "signed", "refused", "found damaged"
XML_PIECES = (
    b"<", b">", b"/>", b"</", b"&", b";", b"\0", b"\xff", b"\xfe", b"\r", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"]]>",
    b"<!--", b"-->", b"<![CDATA[", b"<?p ", b"?>", b"<b>" * 2000, b"</b>", b"&#0;", b"&#xD800;", b"&amp;", b"&e;",
    b"<!DOCTYPE a>", b"<!DOCTYPE a [<!ENTITY e 'x'>]>", b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'>", b" xmlns=''",
    b" xmlns:ds='http://www.w3.org/2000/09/xmldsig#'", b" xmlns:p='urn:p'", b"p:", b" Id='x'", b" xml:id='x'",
    b" Id='NFe1'", b"encoding='UTF-16'", b"encoding='latin1'", b"encoding='cp037'", b"version='1.1'",
    b" a='" + b"b" * 9999,
)  # fmt: skip
INVOICE = (
    '<?xml version="1.0" encoding="{0}"?>\r\n<!-- one --><NFe xmlns="http://www.portalfiscal.inf.br/nfe" xml:lang="pt">'
    '<infNFe Id="NFe1" versao="4.00"><ide k="1 &lt;&#9;ç"><![CDATA[<c>]]>São&#13;</ide><?r s?><d xmlns=""/></infNFe>'
    "</NFe>\n<!-- -->"
)


@pytest.fixture
def make_xml(ecdsa_key: Any, sign: Any) -> Make:
    """Make damaged invoices: of several encodings, unsigned, signed, and in the shape of the tax authorities."""
    plain = [
        INVOICE.format("UTF-8").encode(),
        INVOICE.format("ISO-8859-1").encode("latin-1"),
        ("\ufeff" + INVOICE.format("UTF-16")).encode("utf-16-le"),
    ]
    signed = [sign(signer_for(Format.XADES, ecdsa_key, spec), plain[0]) for spec in (BASELINE_B, PLAIN_XML)]

    def make(chance: random.Random) -> bytes:
        content = chance.choice(plain + signed)
        for _ in range(chance.choice((0, 1, 1, 2))):
            place = chance.randrange(len(content) + 1)
            content = content[:place] + chance.choice(XML_PIECES) + content[place:]
        return mutate_bytes(content, chance) if chance.random() < 0.5 else content

    return make


@pytest.fixture
def xml_door(ecdsa_key: Any, sign: Any, measure: Any) -> Door:
    """Try a file as XAdES and as plain XML signature, and the damaged file as if it were the signed one."""
    specs = (BASELINE_B, PLAIN_XML)
    signers = [signer_for(Format.XADES, ecdsa_key, spec) for spec in specs]

    def act(content: bytes) -> str:
        verdicts = [
            _try(content, Format.XADES, signer, ecdsa_key, Expectation(Format.XADES, b"", measure(content), spec), sign)
            for spec, signer in zip(specs, signers, strict=True)
        ]
        for spec in specs:
            _check_alone(content, Expectation(Format.XADES, ecdsa_key.certificate, measure(b"<a/>"), spec))
        return SIGNED if SIGNED in verdicts else verdicts[0]

    return act


@pytest.fixture
def make_cms(ecdsa_key: Any, rsa_key: Any, sign: Any) -> Make:
    """Make damaged CMS: with one signer, several, a countersignature, and none."""
    one = sign(signer_for(Format.CADES, rsa_key), b"0001 payment of 10,00\r\n" * 20)
    counter = attrs.evolve(BASELINE_B, joining=Joining.COUNTER)
    seeds = [one, sign(signer_for(Format.CADES, rsa_key, BASELINE_B, detached=True), b"content")]
    seeds.append(sign(signer_for(Format.CADES, ecdsa_key, counter), one))

    def make(chance: random.Random) -> bytes:
        return (mutate_der if chance.random() < 0.8 else mutate_bytes)(chance.choice(seeds), chance)

    return make


@pytest.fixture
def cms_door(ecdsa_key: Any, sign: Any, measure: Any) -> Door:
    """Try a file that arrives signed, to be signed beside and over, and the damaged file as if we had signed it."""
    specs = [attrs.evolve(BASELINE_B, joining=joining) for joining in Joining]
    signers = [signer_for(Format.CADES, ecdsa_key, spec) for spec in specs]

    def act(content: bytes) -> str:
        verdicts = [
            _try(content, Format.CADES, signer, ecdsa_key, Expectation(Format.CADES, b"", measure(content), spec), sign)
            for spec, signer in zip(specs, signers, strict=True)
        ]
        for detached in (False, True):
            expectation = Expectation(Format.CADES, ecdsa_key.certificate, measure(b"content"))
            _check_alone(content, expectation, detached=detached)
        return SIGNED if SIGNED in verdicts else verdicts[0]

    return act


def _try(content: bytes, format: Format, signer: Any, key: Any, expectation: Expectation, sign: Any) -> str:
    """Sign a file; what is refused was told before (BEY-10), and what is signed stands its check, or is found."""
    used, source = key.calls, io.BytesIO(content)
    told = find_defects(source, format, expectation.original, PdfRules(), expectation.spec)
    try:
        artifact = sign(signer, content)
    except FormatRefused as error:
        refusal = error.message
    else:
        assert not told
        return _check_signed(artifact, source, attrs.evolve(expectation, certificate=key.certificate))
    # Whether a signature of this very certificate is there already is known only with the certificate.
    assert told or "this certificate already" in refusal
    assert key.calls == used
    return REFUSED


def _check_signed(artifact: bytes, source: io.BytesIO, expectation: Expectation) -> str:
    try:
        check(io.BytesIO(artifact), expectation, original=source)
    except CheckFailed:
        # A file that arrives signed may hold what only the check looks into; it is never delivered (ICP-34).
        assert expectation.format is Format.CADES
        return FOUND
    return SIGNED


def _check_alone(content: bytes, expectation: Expectation, *, detached: bool = False) -> None:
    try:
        check(io.BytesIO(content), expectation, detached=detached)
    except CheckFailed:
        return
    raise AssertionError("a file that was not signed here passed the check")


@pytest.mark.parametrize(("kind", "count"), [("xml", 250), ("cms", 250)])
def test_damaged_files_are_signed_or_refused(kind: str, count: int, request: pytest.FixtureRequest) -> None:
    """BEY-12, SEC-70: a short run, the same every time."""
    make, door = request.getfixturevalue(f"make_{kind}"), request.getfixturevalue(f"{kind}_door")
    chance = random.Random(21)
    assert {door(make(chance)) for _ in range(count)} >= {SIGNED, REFUSED}


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["xml", "cms"])
def test_damaged_files_for_a_long_time(kind: str, request: pytest.FixtureRequest) -> None:
    """BEY-12, SEC-70: for BULKSIGNER_FUZZ_SECONDS, 300 unset; no exception, no hang, no growth of memory."""
    make, door = request.getfixturevalue(f"make_{kind}"), request.getfixturevalue(f"{kind}_door")
    assert fuzz(make, door, FUZZ_SECONDS) > FUZZ_SECONDS
