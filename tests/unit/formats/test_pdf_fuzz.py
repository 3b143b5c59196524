"""Damaged PDF files at the door: each is signed so that the check agrees, or refused in words (BEY-11, SEC-70)."""

from __future__ import annotations

import io
import itertools
import random
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from bulksigner.contract.signing import Format
from bulksigner.formats.dispatch import check
from bulksigner.formats.model import CheckFailed, Expectation, FormatRefused, PdfRules
from bulksigner.formats.pades import PadesSigner, look_at_pdf
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.fuzzing import FUZZ_SECONDS, fuzz
from bulksigner.testing.pdf_corpus import AWKWARD, PROTECTIONS, protect

# A library may warn of what it then refuses.
pytestmark = pytest.mark.filterwarnings("ignore")

REPAIRING = PdfRules(repair_unsigned=True)
LARGE = {"10,000 pages", "1,500 levels of pages"}
CONTENTS = re.compile(rb"(?<=/Contents <)[0-9a-f]*(?=>)")
NUMBER = re.compile(rb"\d+")
NAME = re.compile(rb"/[A-Za-z0-9]+")
REFERENCE = re.compile(rb"\d+ \d+ R")
NUMBERS = (b"0", b"1", b"-1", b"2", b"65535", b"2147483647", b"4294967296", b"9" * 19, b"9" * 400, b"1.5", b"")
PIECES = (
    b"<<", b">>", b"[", b"]", b"(", b")", b"<", b">", b"%", b"/", b"null", b"true", b"R", b"obj", b"endobj",
    b"stream\n", b"endstream", b"xref\n", b"trailer\n", b"startxref\n", b"%%EOF\n", b"\0", b"\r",
    b"[" * 3000, b"<<" * 3000, b"(" * 3000, b"<</A " * 1500,
    b"/Kids [2 0 R]", b"/Prev 0", b"/Prev 15", b"/XRefStm 15", b"/Encrypt 1 0 R", b"/Length 1 0 R",
    b"/Filter /LZWDecode", b"/Filter [/FlateDecode /FlateDecode]", b"/DecodeParms <</Predictor 15 /Columns 0>>",
    b"/AcroForm 1 0 R", b"/Fields [1 0 R]", b"/Annots 1 0 R", b"/Perms 1 0 R", b"/Type /XRef", b"/Extensions 1 0 R",
    b"/Version 7", b"/Parent 3 0 R", b"/V 1 0 R /FT /Sig", b"/Reference [1 0 R]", b"/Lock 1 0 R", b"/Metadata 1 0 R",
)  # fmt: skip


def mutate_tokens(content: bytes, chance: random.Random) -> bytes:
    """Exchange numbers, names and references for others, or put pieces of the syntax anywhere."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        kind = chance.randrange(5)
        if kind == 4 or not content:
            position = chance.randrange(len(content) + 1)
            content = content[:position] + chance.choice(PIECES) + content[position:]
            continue
        pattern = (NUMBER, NUMBER, NAME, REFERENCE)[kind]
        found = list(pattern.finditer(content))
        if not found:
            continue
        mark = chance.choice(found)
        other = chance.choice(found)[0] if kind else chance.choice(NUMBERS)
        content = content[: mark.start()] + other + content[mark.end() :]
    return content


@pytest.fixture
def seeds(rsa_key: Any, sign: Any) -> list[bytes]:
    """The corpus, protected files, and signed ones."""
    made = [awkward.make() for name, awkward in AWKWARD.items() if name not in LARGE]
    made += [protect(AWKWARD["fields in streams"].make(), kind) for kind in PROTECTIONS]
    signer = PadesSigner(rsa_key, BASELINE_B)
    return made + [sign(signer, AWKWARD[name].make()) for name in ("table", "streams", "hybrid", "fields", "PDF/A-1b")]


@pytest.fixture
def try_door(ecdsa_key: Any, sign: Any, measure: Any) -> Callable[..., str]:
    """Try one file: signed and found good, or refused before the key was used; the look says the same."""
    signers = {rules: PadesSigner(ecdsa_key, BASELINE_B, rules=rules) for rules in (PdfRules(), REPAIRING)}

    def act(content: bytes, rules: PdfRules = REPAIRING) -> str:
        used = ecdsa_key.calls
        told = None
        try:
            look_at_pdf(io.BytesIO(content), measure(content), rules)
        except FormatRefused as refused:
            told = refused
        try:
            artifact = sign(signers[rules], content)
        except FormatRefused:
            assert told is not None
            assert ecdsa_key.calls == used
            verdict = "refused"
        else:
            assert told is None
            may_be_repaired = rules.repair_unsigned
            expectation = Expectation(
                Format.PADES, ecdsa_key.certificate, measure(content), may_be_repaired=may_be_repaired
            )
            repair = check(io.BytesIO(artifact), expectation, original=io.BytesIO(content)).repair
            assert repair is None or may_be_repaired
            assert artifact.startswith(content if repair is None else content[content.index(b"%PDF-") :])
            verdict = "signed" if repair is None else "repaired"
        return verdict

    return act


def damage(seeds: list[bytes], mutate: Any, chance: random.Random) -> bytes:
    """Make a damaged file."""
    seed = chance.choice(seeds)
    damaged: bytes = mutate(seed, chance) if seed and chance.random() < 0.4 else mutate_tokens(seed, chance)
    return damaged


def test_damaged_files_are_signed_or_refused(seeds: Any, mutate: Any, try_door: Callable[..., str]) -> None:
    """BEY-11, SEC-70: a short run, the same every time."""
    chance = random.Random(11)
    verdicts = [try_door(damage(seeds, mutate, chance)) for _ in range(400)]
    assert set(verdicts) == {"signed", "repaired", "refused"}


def test_damaged_artifacts_are_found(seeds: Any, mutate: Any, ecdsa_key: Any, sign: Any, measure: Any) -> None:
    """BEY-01: the check lets nothing through but what it can account for, and raises nothing else."""
    chance = random.Random(12)
    content = AWKWARD["fields in streams"].make()
    protected = protect(content, "aes-128")
    for original in (content, protected, AWKWARD["hybrid"].make()):
        artifact = sign(PadesSigner(ecdsa_key, BASELINE_B), original)
        expectation = Expectation(Format.PADES, ecdsa_key.certificate, measure(original))
        for _ in range(150):
            tail = mutate_tokens(artifact[len(original) :], chance)
            try:
                check(io.BytesIO(original + tail), expectation)
            except CheckFailed:
                continue
            # Inside the CMS are bytes that nothing but the issuers' own signatures protects.
            assert CONTENTS.sub(b"", tail) == CONTENTS.sub(b"", artifact[len(original) :])


@pytest.mark.soak
def test_damaged_files_for_a_long_time(seeds: Any, mutate: Any, try_door: Callable[..., str]) -> None:
    """BEY-11: for BULKSIGNER_FUZZ_SECONDS, 300 unset; no exception, no hang, no growth of memory."""
    rules = itertools.cycle((PdfRules(), REPAIRING))
    tried = fuzz(partial(damage, seeds, mutate), lambda content: try_door(content, next(rules)), FUZZ_SECONDS)
    assert tried > FUZZ_SECONDS
