"""The key of the envelopes: derived once from a password, kept in memory only (ENC-13 to ENC-19)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from bulksigner.contract.errors import BulkSignerError

__all__ = [
    "DEFAULT_ITERATIONS",
    "FEWEST_ITERATIONS",
    "MOST_ITERATIONS",
    "SHORTEST_SALT_BYTES",
    "EnvelopeKey",
    "find_iterations_fault",
    "read_salt",
]

DEFAULT_ITERATIONS = 600_000
FEWEST_ITERATIONS = 10_000
MOST_ITERATIONS = 100_000_000
SHORTEST_SALT_BYTES = 16
_KEY_BYTES = 32
_CHECK_BYTES = 4


def read_salt(text: str) -> bytes:
    """Decode a salt: standard base64 with padding and nothing else; raises `ValueError` that says why (ENC-17)."""
    try:
        salt = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not standard base64 with its padding, on one line") from None
    if len(salt) < SHORTEST_SALT_BYTES:
        raise ValueError(f"has {len(salt)} bytes once decoded, and {SHORTEST_SALT_BYTES} is the least")
    return salt


def find_iterations_fault(iterations: int) -> str | None:
    """Say why a count of iterations is refused, or None (ENC-18)."""
    if iterations < FEWEST_ITERATIONS:
        return f"is {iterations}, and {FEWEST_ITERATIONS} is the least"
    if iterations > MOST_ITERATIONS:
        return f"is {iterations}, and {MOST_ITERATIONS} is the most"
    return None


class EnvelopeKey:
    """The AES-256 key of every envelope; shows itself nowhere, and is overwritten when it is done with (ENC-19)."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        """Take 32 bytes."""
        if len(key) != _KEY_BYTES:
            raise ValueError(f"an envelope key has {_KEY_BYTES} bytes")
        self._key = bytearray(key)

    @classmethod
    def derive(cls, password: str, salt: bytes, iterations: int) -> EnvelopeKey:
        """Derive the key (ENC-13); takes a tenth of a second to a minute.

        The password counts exactly as given, in UTF-8 (ENC-15). Raises `ValueError` for one that is no Unicode text.
        """
        return cls(hashlib.pbkdf2_hmac("sha256", password.encode("utf-8"), salt, iterations, _KEY_BYTES))

    def reveal(self) -> bytearray:
        """Return the key for a cipher, not a copy; raises `BulkSignerError` once it was wiped."""
        if not any(self._key):
            raise BulkSignerError("The key of encrypted outputs is gone: the service is stopping.")
        return self._key

    def check_value(self) -> str:
        """Return what tells keys apart without telling them (ENC-21): four bytes of an HMAC, in hex."""
        return hmac.digest(self.reveal(), b"bsenc-kcv", "sha256")[:_CHECK_BYTES].hex()

    def wipe(self) -> None:
        """Overwrite the key; copies that a library made may remain (ENC-19)."""
        self._key[:] = bytes(_KEY_BYTES)

    def __repr__(self) -> str:
        return "EnvelopeKey(***)"
