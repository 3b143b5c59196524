"""The check of CMS files: what it lets through, and that every damage is found."""

from __future__ import annotations

import ast
import datetime
import hashlib
import io
import random
from pathlib import Path
from typing import Any

import attrs
import pytest

import bulksigner.formats
from bulksigner.contract.certificate import Digest
from bulksigner.contract.signing import Format
from bulksigner.formats import der
from bulksigner.formats.cades import CadesSigner
from bulksigner.formats.cms import SignedData
from bulksigner.formats.cms_check import check_cms
from bulksigner.formats.der_reader import Reader
from bulksigner.formats.model import CheckFailed, Expectation
from bulksigner.formats.spec import BASELINE_B

# A library may warn of a damaged certificate before it refuses it, as of a serial number that became negative.
pytestmark = pytest.mark.filterwarnings("ignore")

CONTENT = b"0001 payment of 10,00\r\n" * 20
FORMS = [(False, False), (True, False), (False, True), (True, True)]
FORM_NAMES = ["attached-der", "detached-der", "attached-pem", "detached-pem"]
CHECKING = {
    "cms_check",
    "cms_proof_check",
    "evidence_check",
    "stamp_check",
    "der_reader",
    "pades_check",
    "pdf_proof_check",
    "pdf_crypt",
    "pdf_reader",
    "pdf_sections",
    "pdf_syntax",
    "policy_check",
}
CHECKING.add("signer_check")
SHARED = {"model"}


@pytest.fixture
def expectation(rsa_key: Any, measure: Any) -> Expectation:
    return Expectation(Format.CADES, rsa_key.certificate, measure(CONTENT))


def test_checks_share_no_code_with_signing() -> None:
    """PERF-04, BEY-01: the checking modules import the shared model and each other, nothing that signs."""
    folder = Path(bulksigner.formats.__file__).parent
    for module in CHECKING:
        for node in ast.walk(ast.parse((folder / f"{module}.py").read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert not name.startswith(("pyhanko", "asn1crypto")), (module, name)
                if name.startswith("bulksigner.formats."):
                    assert name.rsplit(".", 1)[1] in CHECKING | SHARED, (module, name)


@pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA512], ids=lambda digest: digest.value)
@pytest.mark.parametrize("pem", [False, True], ids=["der", "pem"])
def test_facts_are_those_of_the_signature(
    any_key: Any, digest: Digest, pem: bool, sign: Any, measure: Any, signed_at: datetime.datetime
) -> None:
    """BEY-01: the artifact's measures, algorithms and time come from the artifact alone."""
    artifact = sign(CadesSigner(any_key, attrs.evolve(BASELINE_B, digest=digest), pem=pem), CONTENT)
    checked = check_cms(io.BytesIO(artifact), Expectation(Format.CADES, any_key.certificate, measure(CONTENT)), pem=pem)
    assert checked.measured == measure(artifact)
    assert (checked.algorithm, checked.digest, checked.signing_time) == (any_key.algorithm, digest.value, signed_at)


@pytest.mark.parametrize(("detached", "pem"), FORMS, ids=FORM_NAMES)
def test_every_flipped_byte_is_found(
    rsa_key: Any, expectation: Expectation, detached: bool, pem: bool, sign: Any
) -> None:
    """BEY-01: one bit flipped in any byte fails the check, but where only the issuer's own signature could tell."""
    artifact = bytearray(sign(CadesSigner(rsa_key, BASELINE_B, detached=detached, pem=pem), CONTENT))
    issuer = rsa_key.chain[0]
    unseen = range(0)
    if not pem:
        start = artifact.index(issuer)
        # The root signs the intermediate and is left out: its trust is another check's.
        unseen = range(start, start + len(issuer))
    passed = []
    for position in range(len(artifact)):
        artifact[position] ^= 0x01
        try:
            check_cms(io.BytesIO(artifact), expectation, detached=detached, pem=pem)
        except CheckFailed:
            pass
        else:
            passed.append(position)
        artifact[position] ^= 0x01
    if pem:
        # In base64 the intermediate's bytes lie somewhere in the middle.
        assert len(passed) < len(issuer) * 4 // 3
    else:
        assert set(passed) <= set(unseen)


def test_damaged_issuer_is_found_where_the_signer_depends_on_it(
    rsa_key: Any, expectation: Expectation, sign: Any
) -> None:
    """BEY-01: the intermediate's name and key must be those that issued the signer's certificate."""
    artifact = sign(CadesSigner(rsa_key, BASELINE_B), CONTENT)
    issuer = rsa_key.chain[0]
    key = bytes(issuer)[issuer.index(b"\x02\x82\x01\x01\x00") + 20 :][:8]
    for part in (b"Test Issuer", key):
        damaged = artifact.replace(issuer, issuer.replace(part, bytes([part[0] ^ 1]) + part[1:]))
        assert damaged != artifact
        with pytest.raises(CheckFailed, match="damaged, or is not of the signer's chain"):
            check_cms(io.BytesIO(damaged), expectation)


@pytest.mark.parametrize(("detached", "pem"), FORMS, ids=FORM_NAMES)
def test_appended_and_cut_off_files_fail(
    rsa_key: Any, expectation: Expectation, detached: bool, pem: bool, sign: Any
) -> None:
    """BEY-01: the file is the signature, no more and no less."""
    artifact = sign(CadesSigner(rsa_key, BASELINE_B, detached=detached, pem=pem), CONTENT)
    for damaged in (artifact + b"\0", artifact + b"\n", artifact + artifact, b"\n" + artifact):
        with pytest.raises(CheckFailed):
            check_cms(io.BytesIO(damaged), expectation, detached=detached, pem=pem)
    for length in range(0, len(artifact), 7):
        with pytest.raises(CheckFailed):
            check_cms(io.BytesIO(artifact[:length]), expectation, detached=detached, pem=pem)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"-----BEGIN PKCS7-----\n", b"-----BEGIN PKCS7-----\r\n"),
        (b"PKCS7-----\n", b"CMS-----\n"),
        (b"\n-----END", b"\n\n-----END"),
        (b"\n-----END", b"=\n-----END"),
        (b"BEGIN PKCS7-----\n", b"BEGIN PKCS7-----\n\n"),
        (b"\nMII", b"\nMI\nI"),
    ],
)
def test_text_is_pem_in_one_way_only(rsa_key: Any, expectation: Expectation, old: bytes, new: bytes, sign: Any) -> None:
    """BEY-01: no bytes of a PEM file are left that nothing protects."""
    artifact = sign(CadesSigner(rsa_key, BASELINE_B, pem=True), CONTENT)
    assert old in artifact
    with pytest.raises(CheckFailed):
        check_cms(io.BytesIO(artifact.replace(old, new)), expectation, pem=True)


def test_other_content_and_other_certificate_fail(
    rsa_key: Any, ecdsa_key: Any, expectation: Expectation, sign: Any, measure: Any
) -> None:
    """ICP-34: a good signature of other bytes, or by another signer, is a failure."""
    attached = sign(CadesSigner(rsa_key, BASELINE_B), CONTENT)
    detached = sign(CadesSigner(rsa_key, BASELINE_B, detached=True), CONTENT)
    changed = b"9" + CONTENT[1:]
    with pytest.raises(CheckFailed, match="SHA-256 differ"):
        check_cms(io.BytesIO(attached), attrs.evolve(expectation, original=measure(changed)))
    with pytest.raises(CheckFailed, match="bytes, the original"):
        check_cms(io.BytesIO(attached), attrs.evolve(expectation, original=measure(changed + b"9")))
    with pytest.raises(CheckFailed, match="messageDigest"):
        check_cms(io.BytesIO(detached), attrs.evolve(expectation, original=measure(changed)), detached=True)
    for certificate in (ecdsa_key.certificate, rsa_key.chain[0]):
        with pytest.raises(CheckFailed):
            check_cms(io.BytesIO(attached), attrs.evolve(expectation, certificate=certificate))


def test_form_must_be_the_one_that_was_ordered(rsa_key: Any, expectation: Expectation, sign: Any) -> None:
    """ICP-34: attached is not detached, PEM is not DER."""
    for made_detached, made_pem in FORMS:
        artifact = sign(CadesSigner(rsa_key, BASELINE_B, detached=made_detached, pem=made_pem), CONTENT)
        for detached, pem in FORMS:
            if (detached, pem) != (made_detached, made_pem):
                with pytest.raises(CheckFailed):
                    check_cms(io.BytesIO(artifact), expectation, detached=detached, pem=pem)


def test_detached_sha512_cannot_be_held_against_the_original(rsa_key: Any, expectation: Expectation, sign: Any) -> None:
    """BEY-01: what cannot be checked is not let through."""
    spec = attrs.evolve(BASELINE_B, digest=Digest.SHA512)
    artifact = sign(CadesSigner(rsa_key, spec, detached=True), CONTENT)
    with pytest.raises(CheckFailed, match="must use SHA-256"):
        check_cms(io.BytesIO(artifact), expectation, detached=True)


def assemble(key: Any, change: Any, moment: datetime.datetime) -> bytes:
    """Sign attributes that were changed first, so that only their content is wrong."""
    signed_data = SignedData(key, BASELINE_B, with_signing_time=True)
    attributes = change(der.members(signed_data.attributes(hashlib.sha256(CONTENT).digest(), moment)))
    return signed_data.detached(attributes, key.sign(attributes, Digest.SHA256))


CHANGES = {
    "without digest": (lambda members: der.set_of(m for m in members if b"\x09\x04\x31" not in m), "messageDigest"),
    "without type": (lambda members: der.set_of(m for m in members if b"\x09\x03\x31" not in m), "contentType"),
    "without certificate": (lambda members: der.set_of(m for m in members if b"\x02\x2f\x31" not in m), "signingCert"),
    "twice": (lambda members: der.set_of([*members, members[0]]), "twice"),
    "unsorted": (lambda members: der.element(0x31, b"".join(sorted(members, reverse=True))), "DER order"),
    "wrong ESS hash": (
        lambda members: der.set_of(
            m.replace(b"\x04\x20", b"\x04\x20", 1) if b"\x02\x2f\x31" not in m else flip(m) for m in members
        ),
        "names another",
    ),
    "bad time": (
        lambda members: der.set_of(m.replace(b"260304", b"261304") for m in members),
        "signingTime is not a time",
    ),
}


def flip(attribute: bytes) -> bytes:
    position = attribute.index(b"\x04\x20") + 5
    return attribute[:position] + bytes([attribute[position] ^ 1]) + attribute[position + 1 :]


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_attributes_fail_though_signed(
    rsa_key: Any, expectation: Expectation, signed_at: datetime.datetime, name: str
) -> None:
    """ICP-30: each signed attribute is looked at, not only the signature over them."""
    change, text = CHANGES[name]
    with pytest.raises(CheckFailed, match=text):
        check_cms(io.BytesIO(assemble(rsa_key, change, signed_at)), expectation, detached=True)


@pytest.mark.parametrize("year", [1950, 1969, 2049, 2050])
def test_the_time_is_read_as_it_was_stated(
    rsa_key: Any, expectation: Expectation, signed_at: datetime.datetime, year: int
) -> None:
    """ICP-30: two digits from 50 on mean 19xx (RFC 5280 4.1.2.5.1)."""
    moment = signed_at.replace(year=year, microsecond=0)
    checked = check_cms(io.BytesIO(assemble(rsa_key, der.set_of, moment)), expectation, detached=True)
    assert checked.signing_time == moment


@pytest.mark.parametrize(("detached", "pem"), FORMS, ids=FORM_NAMES)
@pytest.mark.parametrize("rounds", [200, pytest.param(20000, marks=pytest.mark.soak)])
def test_malformed_files_raise_nothing_else(
    rsa_key: Any, expectation: Expectation, detached: bool, pem: bool, rounds: int, mutate: Any, sign: Any
) -> None:
    """ICP-34: whatever the bytes are, the check ends in its own words."""
    artifact = sign(CadesSigner(rsa_key, BASELINE_B, detached=detached, pem=pem), CONTENT)
    chance = random.Random(f"{detached} {pem}")
    failed = 0
    for _ in range(rounds):
        try:
            check_cms(io.BytesIO(mutate(artifact, chance)), expectation, detached=detached, pem=pem)
        except CheckFailed:
            failed += 1
    assert failed > rounds * 0.6


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ("", "lacks"),
        ("30", "cut off"),
        ("3080", "not DER"),
        ("308101", "shortest form"),
        ("30820001", "shortest form"),
        ("3082", "not DER"),
        ("3005", "cut off"),
        ("308fffffffffffffffffffffffffffffffff", "not DER"),
        ("0201", "lacks"),
    ],
)
def test_reader_refuses_what_is_not_der(encoded: str, text: str) -> None:
    """PERF-04: lengths are definite, shortest and within the data."""
    with pytest.raises(CheckFailed, match=text):
        Reader(bytes.fromhex(encoded), "test").take(0x30)
