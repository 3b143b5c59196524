"""Browser sessions of operators: a sealed ticket in a cookie, never the API key (SEC-19 to SEC-22)."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable
from typing import Protocol

import attrs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bulksigner.contract.settings import Secret
from bulksigner.web.equality import is_same_secret
from bulksigner.web.key_ring import KeyRing, RingKey

__all__ = ["LIFETIME", "Revocations", "Sessions", "Ticket", "read_cookie"]

LIFETIME = datetime.timedelta(hours=8)
"""From the last request that a person made (SEC-20)."""
SLIDES_AFTER = datetime.timedelta(minutes=1)
"""A ticket younger than this is not written anew: a page of many requests sets one cookie."""
_VERSION = b"\x01"
_NONCE_BYTES = 12
_KEY_ID_BYTES = 4
_LONGEST_COOKIE = 4096


class Revocations(Protocol):
    """The tickets that were given back before their time (SEC-22)."""

    def revoke(self, ticket_id: str, until: datetime.datetime) -> None:
        """Keep a ticket from counting, at least until then."""
        ...

    def is_revoked(self, ticket_id: str) -> bool:
        """Tell whether a ticket was given back."""
        ...


@attrs.frozen
class Ticket:
    """What the cookie says; `csrf` is the synchroniser token of the session (SEC-34)."""

    id: str
    name: str
    issued_at: datetime.datetime
    expires_at: datetime.datetime
    csrf: str = attrs.field(repr=False)


class Sessions:
    """Issues, reads, prolongs and revokes tickets; one of another API key is none (SEC-19)."""

    def __init__(
        self,
        ring: KeyRing,
        revocations: Revocations,
        api_key: Secret,
        cookie_name: str,
        clock: Callable[[], datetime.datetime],
    ) -> None:
        self.cookie_name = cookie_name
        self._ring = ring
        self._revocations = revocations
        self._api_key = api_key
        self._clock = clock

    def begin(self, name: str) -> Ticket:
        """Return a ticket that nobody had before (SEC-22)."""
        now = self._clock()
        return Ticket(secrets.token_hex(16), name, now, now + LIFETIME, secrets.token_urlsafe(32))

    def seal(self, ticket: Ticket) -> str:
        """Return the value of the cookie."""
        key = self._ring.newest()
        content = {
            "id": ticket.id,
            "name": ticket.name,
            "iat": ticket.issued_at.timestamp(),
            "exp": ticket.expires_at.timestamp(),
            "csrf": ticket.csrf,
            "key": self._fingerprint(key),
        }
        nonce = os.urandom(_NONCE_BYTES)
        sealed = AESGCM(key.secret).encrypt(nonce, json.dumps(content).encode(), self._context(key.id))
        return base64.urlsafe_b64encode(_VERSION + key.id + nonce + sealed).rstrip(b"=").decode()

    def open(self, cookie: str | None) -> Ticket | None:
        """Return the ticket of a cookie that is ours, whole and in force; what was revoked is not looked up."""
        if not cookie or len(cookie) > _LONGEST_COOKIE or not self._api_key:
            return None
        try:
            raw = base64.b64decode(cookie + "=" * (-len(cookie) % 4), altchars=b"-_", validate=True)
        except ValueError:
            return None
        at = len(_VERSION)
        key = self._ring.find(raw[at : at + _KEY_ID_BYTES])
        if raw[:at] != _VERSION or key is None:
            return None
        at += _KEY_ID_BYTES
        try:
            content = json.loads(
                AESGCM(key.secret).decrypt(raw[at : at + _NONCE_BYTES], raw[at + _NONCE_BYTES :], self._context(key.id))
            )
        except (InvalidTag, ValueError):
            return None
        if not is_same_secret(content["key"].encode(), self._fingerprint(key).encode()):
            return None
        issued, expires = (datetime.datetime.fromtimestamp(content[name], datetime.UTC) for name in ("iat", "exp"))
        ticket = Ticket(content["id"], content["name"], issued, expires, content["csrf"])
        return ticket if ticket.expires_at > self._clock() else None

    def find(self, cookie: str | None) -> Ticket | None:
        """Return the ticket of a cookie unless it was revoked."""
        ticket = self.open(cookie)
        return None if ticket is None or self._revocations.is_revoked(ticket.id) else ticket

    def prolong(self, ticket: Ticket) -> Ticket | None:
        """Return the same ticket with a whole lifetime before it, or None while it is too young for that."""
        now = self._clock()
        if now - ticket.issued_at < SLIDES_AFTER:
            return None
        return attrs.evolve(ticket, issued_at=now, expires_at=now + LIFETIME)

    def end(self, ticket: Ticket) -> None:
        """Revoke a ticket, and every later copy of it."""
        self._revocations.revoke(ticket.id, self._clock() + LIFETIME)

    def sign(self, text: str) -> str:
        """Return a keyed digest of a text that only this deployment can make."""
        return _digest(self._ring.newest(), b"text|" + text.encode())

    def has_signed(self, text: str, digest: str) -> bool:
        """Tell whether a digest is one that `sign` gave, now or under an older key."""
        expected = [_digest(key, b"text|" + text.encode()) for key in self._ring.keys]
        return any(is_same_secret(digest.encode(), one.encode()) for one in expected)

    def _fingerprint(self, key: RingKey) -> str:
        return _digest(key, b"api-key|" + self._api_key.reveal().encode())

    def _context(self, key_id: bytes) -> bytes:
        """Tie a ticket to its purpose, so that nothing else sealed with the key can be shown as one."""
        return b"bulksigner session|" + _VERSION + key_id + b"|" + self.cookie_name.encode()


def read_cookie(header: str | None, name: str) -> str | None:
    """Return the value of a cookie; None when it is absent, or there twice, as only a forger sends it."""
    pairs = (pair.partition("=") for pair in (header or "").split(";"))
    values = [value.strip().strip('"') for found, _, value in pairs if found.strip() == name]
    return values[0] if len(values) == 1 else None


def _digest(key: RingKey, value: bytes) -> str:
    return hmac.new(key.secret, b"bulksigner digest|" + value, hashlib.sha256).hexdigest()
