"""The key of the envelopes: what it is derived from, and that it shows itself nowhere."""

from __future__ import annotations

import hashlib
import hmac
import pickle
import unicodedata

import pytest

from bulksigner.contract.errors import BulkSignerError
from bulksigner.encryption.key import EnvelopeKey, find_iterations_fault, read_salt

SALT = bytes(range(16))


def test_the_password_counts_exactly_as_given() -> None:
    """ENC-15: neither trimmed nor normalised."""
    composed, decomposed = "senha-ção", unicodedata.normalize("NFD", "senha-ção")
    passwords = [composed, decomposed, f" {composed}", f"{composed}\n"]
    keys = {bytes(EnvelopeKey.derive(password, SALT, 10_000).reveal()) for password in passwords}
    assert len(keys) == 4
    assert hashlib.pbkdf2_hmac("sha256", composed.encode(), SALT, 10_000, 32) in keys


def test_a_key_shows_itself_nowhere() -> None:
    """ENC-19: neither in text nor in a format."""
    key = EnvelopeKey(b"secret of thirty-two bytes, yes!")
    assert repr(key) == str(key) == f"{key}" == "EnvelopeKey(***)"


def test_a_wiped_key_encrypts_nothing() -> None:
    """ENC-19: a task that outlives the service must not use a key of zeros."""
    key = EnvelopeKey(b"secret of thirty-two bytes, yes!")
    held = key.reveal()
    key.wipe()
    assert held == bytearray(32)
    with pytest.raises(BulkSignerError, match="stopping"):
        key.reveal()


def test_a_key_reaches_a_worker_whole() -> None:
    """ENC-06: what went through the pipe is the same key."""
    key = EnvelopeKey(b"secret of thirty-two bytes, yes!")
    assert pickle.loads(pickle.dumps(key)).reveal() == key.reveal()


def test_the_check_value_is_of_the_key() -> None:
    """ENC-21: the first four bytes of an HMAC under the key."""
    raw = b"secret of thirty-two bytes, yes!"
    assert EnvelopeKey(raw).check_value() == hmac.digest(raw, b"bsenc-kcv", "sha256")[:4].hex()


def test_other_lengths_are_no_key() -> None:
    """ENC-13."""
    with pytest.raises(ValueError, match="32 bytes"):
        EnvelopeKey(b"short")


@pytest.mark.parametrize(
    "text",
    [
        "AAECAwQFBgcICQoLDA0ODw",  # no padding
        "AAECAwQFBgcICQoLDA0ODw=",
        "AAECAwQFBgcICQoLDA0ODw===",
        "AAECAwQFBgcICQoLDA0ODw==\n",
        "AAECAwQF\nBgcICQoLDA0ODw==",
        " AAECAwQFBgcICQoLDA0ODw==",
        "-_ECAwQFBgcICQoLDA0ODw==",
        "AAECAwQFBgcICQoLDA0ODç==",
        "AAEC!wQFBgcICQoLDA0ODw==",
        "a salt of the deployment",
    ],
)
def test_a_salt_is_standard_base64_and_nothing_else(text: str) -> None:
    """ENC-17: alphabet, padding and one line."""
    with pytest.raises(ValueError, match="standard base64"):
        read_salt(text)


def test_a_salt_has_sixteen_bytes_at_least() -> None:
    """ENC-17."""
    assert read_salt("AAECAwQFBgcICQoLDA0ODw==") == SALT
    with pytest.raises(ValueError, match="15 bytes"):
        read_salt("AAECAwQFBgcICQoLDA0O")
    with pytest.raises(ValueError, match="0 bytes"):
        read_salt("")


def test_iterations_have_limits() -> None:
    """ENC-18: both limits are allowed, one beyond is not."""
    assert [find_iterations_fault(count) for count in (10_000, 600_000, 100_000_000)] == [None] * 3
    assert "10000 is the least" in (find_iterations_fault(9_999) or "")
    assert "100000000 is the most" in (find_iterations_fault(100_000_001) or "")
