"""One way to compare what a caller shows with what it should be (SEC-18)."""

from __future__ import annotations

import hashlib
import hmac
import secrets

__all__ = ["is_same_secret"]

# A key of this process alone: digests of two values tell nothing about either, nor about their lengths.
_PEPPER = secrets.token_bytes(32)


def is_same_secret(given: bytes, expected: bytes) -> bool:
    """Tell whether two values are equal, in a time that depends on neither's content."""
    return hmac.compare_digest(_digest(given), _digest(expected))


def _digest(value: bytes) -> bytes:
    return hmac.new(_PEPPER, value, hashlib.sha256).digest()
