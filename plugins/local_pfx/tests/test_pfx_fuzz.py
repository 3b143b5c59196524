"""Damaged PKCS#12 files at the door: a refusal in words, or an opened key; never anything else (OPS-112, SEC-70)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from bulksigner.testing.fuzzing import FUZZ_SECONDS, fuzz, mutate_bytes, mutate_der
from bulksigner_local_pfx.refusals import EnvelopeRefused
from bulksigner_local_pfx.source import open_pfx

# A library may warn of what it then refuses.
pytestmark = pytest.mark.filterwarnings("ignore")

PASSWORD = "correct horse"


@pytest.fixture
def make(openssl_pfx: Callable[..., bytes], rsa_identity: Any, ec_identity: Any) -> Callable[[random.Random], bytes]:
    """Make damaged files: encrypted the new and the old way, and open ones, whose damage gets past the password."""
    modern = serialize_key_and_certificates(
        None, ec_identity.key, ec_identity.certificate, None, BestAvailableEncryption(PASSWORD.encode())
    )
    options = (
        ("-nomac", "-keypbe", "NONE", "-certpbe", "NONE"),
        ("-nomac", "-keypbe", "PBE-SHA1-3DES", "-certpbe", "NONE"),
        ("-nomac", "-iter", "1"),
        ("-legacy", "-iter", "1"),
        ("-iter", "1"),
    )
    seeds = [modern]
    seeds += [openssl_pfx(one, *more, password=PASSWORD) for one in (rsa_identity, ec_identity) for more in options]

    def damage(chance: random.Random) -> bytes:
        return (mutate_der if chance.random() < 0.8 else mutate_bytes)(chance.choice(seeds), chance)

    return damage


def door(content: bytes) -> str:
    """Open a file as the source does."""
    try:
        key = open_pfx(content, PASSWORD, [])
    except EnvelopeRefused as refused:
        told = refused.message
    else:
        key.close()
        return "opened"
    assert PASSWORD not in told
    return "refused"


def test_damaged_files_are_opened_or_refused(make: Callable[[random.Random], bytes]) -> None:
    """OPS-112: a short run, the same every time."""
    chance = random.Random(22)
    assert {door(make(chance)) for _ in range(200)} == {"opened", "refused"}


@pytest.mark.soak
def test_damaged_files_for_a_long_time(make: Callable[[random.Random], bytes]) -> None:
    """OPS-112, SEC-70: for BULKSIGNER_FUZZ_SECONDS, 300 unset; no exception, no hang, no growth of memory."""
    assert fuzz(make, door, FUZZ_SECONDS) > FUZZ_SECONDS
