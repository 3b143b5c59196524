"""Damaged files: nothing but the declared errors, and what is still signed is signed well."""

from __future__ import annotations

import io
import random
import re

import pytest

from bulksigner.formats.model import CheckFailed, FormatRefused
from bulksigner.formats.xades_check import check_xml

# A library may warn of a damaged certificate before it refuses it, as of a serial number that became negative.
pytestmark = pytest.mark.filterwarnings("ignore")

PIECES = [
    *(bytes([byte]) for byte in b"<>/'\"= \r\n&;\0\xff\xfe\xc3"),
    *(
        b"<b>",
        b"</b>",
        b"<b/>",
        b"</a>",
        b"<a>",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"]]>",
        b"<?p ",
        b"?>",
        b"\xed\xa0\x80",
    ),
    *(b"<!DOCTYPE a>", b"<!DOCTYPE a [<!ENTITY e 'x'>]>", b"&e;", b"&amp;", b"&#13;", b"&#xD800;"),
    *(b" xmlns='urn:y'", b" xmlns=''", b" xmlns:p='urn:p'", b"p:", b" xml:lang='en'", b" xml:id='x'", b" Id='x'"),
    *(b"\xef\xbb\xbf", b"encoding='UTF-16'", b"encoding='latin1'"),
]

SAMPLE = (
    "<?xml version='1.0' encoding='{0}'?>\r\n<!-- one --><?p q?>\n<a xmlns='urn:a' xmlns:p='urn:p' xml:lang='pt'>"
    "\r\n<p:b p:k='1' k='&lt;&#9;ç'><![CDATA[<c>]]></p:b><c xmlns=''>&#13;é<!-- two --></c><?r s?><d xmlns='urn:d'/>"
    "</a>\n<!-- -->"
)


def _samples():
    return [
        SAMPLE.format("UTF-8").encode(),
        SAMPLE.format("windows-1252").encode("cp1252"),
        ("\ufeff" + SAMPLE.format("UTF-16")).encode("utf-16-le"),
    ]


def _mutate(data, chance):
    mutant = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        start = chance.randrange(len(mutant) + 1)
        end = min(len(mutant), start + chance.choice((0, 1, 1, 2, 8, 40)))
        way = chance.randrange(4)
        if way == 0:
            mutant[start:end] = chance.choice(PIECES)
        elif way == 1:
            mutant[start:end] = chance.randbytes(end - start)
        elif way == 2:
            mutant[start:start] = mutant[chance.randrange(len(mutant) + 1) :][: chance.randrange(60)]
        else:
            del mutant[start : (end if chance.random() < 0.9 else None)]
    return bytes(mutant)


def _sign_mutants(count, seed, sign, expectation, key, judge):
    """Return how many of the mutants could be signed; each of those must pass every reader."""
    chance, signed = random.Random(seed), 0
    for number in range(count):
        mutant = _mutate(chance.choice(_samples()), chance)
        try:
            artifact = sign(mutant, key)
        except FormatRefused:
            continue
        signed += 1
        check_xml(io.BytesIO(artifact), expectation(mutant, key))
        assert judge(artifact, key), (seed, number, mutant)
    return signed


def _check_mutants(count, seed, sign, expectation, key):
    """Return how many changed mutants pass; only a spelling that XML does not tell apart may."""
    chance, passed = random.Random(seed), 0
    for original in _samples():
        artifact = sign(original, key)
        for number in range(count // 3):
            mutant = _mutate(artifact, chance)
            try:
                check_xml(io.BytesIO(mutant), expectation(original, key))
            except CheckFailed:
                continue
            passed += mutant != artifact
            assert _normal(mutant) == _normal(artifact), (seed, number, mutant)
    return passed


def _normal(artifact):
    """Take out what no reader can tell apart, and what nothing vouches for: the last issuer, attributes in KeyInfo.

    No reader tells apart blanks inside tags, and a prefix declared again as it is declared already.
    """
    text = re.sub(rb"\s+", b" ", artifact.replace(b"\0", b"").replace(b"'", b'"'))
    text = text.replace(b' xmlns:p="urn:p"', b"")
    text = re.sub(rb"\s+(?=[/>])|(?<=[\w\"])\s+(?==)|(?<==)\s+(?=\")", b"", text)
    text = re.sub(rb"<ds:(KeyInfo|X509Data|X509Certificate) [^>]*>", rb"<ds:\1>", text)
    return re.sub(rb"[^>]*(?=</ds:X509Certificate></ds:X509Data>)", b"", text)


def test_xades_mutants_of_the_input(sign, expectation, p256_key):
    """BEY-12: a damaged file is refused with `FormatRefused`, or signed so that the check passes."""
    signed = _sign_mutants(900, 1, sign, expectation, p256_key, lambda artifact, key: True)
    assert 50 < signed < 850


def test_xades_mutants_of_the_artifact(sign, expectation, p256_key):
    """ICP-34: a damaged artifact fails its check with `CheckFailed` and nothing else."""
    assert _check_mutants(900, 1, sign, expectation, p256_key) < 20


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
def test_xades_mutants_by_the_thousand(seed, sign, expectation, p256_key, xmlsec1):
    """BEY-12, ICP-34: as above, and xmlsec1 accepts every damaged file that was signed."""
    assert _sign_mutants(1500, seed, sign, expectation, p256_key, xmlsec1)
    assert _check_mutants(6000, seed, sign, expectation, p256_key) < 120
