"""What the service asks of a driver process and what that answers; no secret but the PIN of a login travels."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "Drop",
    "HeldCertificate",
    "KeyFacts",
    "Login",
    "Look",
    "OpenKey",
    "ReadFlags",
    "Ready",
    "Request",
    "Sight",
    "Sign",
    "TokenId",
    "Trouble",
]


class TokenId(NamedTuple):
    """What tells one token from another, wherever it is plugged in."""

    label: str
    serial: str

    def __str__(self) -> str:
        return f"'{self.label}' (serial {self.serial})"


class Look(NamedTuple):
    """Ask for every initialised token, as `list[Sight]`; nobody is logged in for it."""


class ReadFlags(NamedTuple):
    """Ask for the flags of a token as they are now."""

    token: TokenId


class Login(NamedTuple):
    """Log in, once for the life of the process; without a PIN the token's own pad asks for it, or none is needed."""

    token: TokenId
    pin: str | None
    has_pad: bool

    def __repr__(self) -> str:
        return f"Login({self.token})"


class OpenKey(NamedTuple):
    """Ask for the private key of a certificate, by the id that both have, or by the modulus; `KeyFacts`."""

    token: TokenId
    key_id: bytes
    is_rsa: bool
    modulus: bytes | None


class Sign(NamedTuple):
    """Ask for the signature that a mechanism makes of `data`; `pss_digest` names the hash of RSASSA-PSS."""

    handle: int
    mechanism: str
    data: bytes
    pss_digest: str | None


class Drop(NamedTuple):
    """Close what is open on a token."""

    token: TokenId


Request = Look | ReadFlags | Login | OpenKey | Sign | Drop


class HeldCertificate(NamedTuple):
    """One certificate on a token, DER, with its id there."""

    key_id: bytes
    certificate: bytes


class Sight(NamedTuple):
    """One token as it is seen: `flags` of PKCS #11, and the certificates that show without a PIN or after it."""

    token: TokenId
    flags: int
    is_logged_in: bool
    certificates: tuple[HeldCertificate, ...]


class KeyFacts(NamedTuple):
    """An open key: its handle in this driver process, and the mechanisms of its token by name."""

    handle: int
    mechanisms: frozenset[str]


class Ready(NamedTuple):
    """Say that the process is up."""


class Trouble(NamedTuple):
    """What went wrong, by the name that the library has for it; the text never holds a PIN."""

    name: str
    text: str
