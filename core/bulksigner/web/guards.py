"""Who may call a route (API-08 to API-11)."""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets

import falcon

from bulksigner.contract.errors import Refusal
from bulksigner.contract.settings import Secret
from bulksigner.operations.people import Person

__all__ = ["ApiKeyGuard", "Policy", "person_of"]

HOLDER_OF_KEY = Person("operator", "ApiKey")
"""Whoever has the key is an operator and has no other name (SEC-26)."""


class Policy(enum.Enum):
    """What a caller must show; a route that declares nothing is `OPERATOR`."""

    ANONYMOUS = "Anonymous"
    OPERATOR = "Operator"


class ApiKeyGuard:
    """Compares the key header of a request with the configured key, in constant time (SEC-18)."""

    def __init__(self, api_key: Secret, header: str) -> None:
        self._header = header
        self._is_configured = bool(api_key)
        # A key of this process alone: digests of two keys tell nothing about either, nor about their lengths.
        self._pepper = secrets.token_bytes(32)
        self._expected = self._digest(api_key.reveal().encode())

    def _digest(self, value: bytes) -> bytes:
        return hmac.new(self._pepper, value, hashlib.sha256).digest()

    def admit(self, policy: Policy, request: falcon.Request) -> Person | None:
        """Let the request pass and say who asks, None on an anonymous route; raises `Refusal` with a code of `auth`."""
        if policy is Policy.ANONYMOUS:
            return None
        # WSGI hands header bytes over as Latin-1 text (PEP 3333).
        given = (request.get_header(self._header) or "").encode("latin-1", "replace")
        is_equal = hmac.compare_digest(self._digest(given), self._expected)
        if not self._is_configured:
            raise Refusal("Auth:ApiKey is empty; set it and restart.", code="auth.misconfigured")
        if not is_equal:
            raise Refusal(
                f"Send the API key in the header {self._header}; it is missing or wrong.",
                code="auth.invalid-credentials",
            )
        return HOLDER_OF_KEY


def person_of(request: falcon.Request) -> Person:
    """Return who asks on a route that is not anonymous."""
    person = request.context.person
    if not isinstance(person, Person):
        raise TypeError(f"{request.path} is open to anybody, and needs to know who asks")
    return person
