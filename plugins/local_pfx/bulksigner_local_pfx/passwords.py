"""The ways a password is written as bytes, one reading for each habit of the programs that make PKCS#12 files."""

from __future__ import annotations

import attrs

__all__ = ["Reading", "readings_of"]


@attrs.frozen(repr=False)
class Reading:
    """One way to read a password: `wide` for RFC 7292 appendix B, `octets` for PBKDF2."""

    wide: bytes
    octets: bytes


def _widen(text: str) -> bytes:
    return text.encode("utf-16-be") + b"\x00\x00"


def readings_of(password: str) -> tuple[Reading, ...]:
    """List the readings of a password, the most likely first.

    An empty password is either no bytes at all or the two zero bytes of an empty BMPString. OpenSSL before 1.1 took
    the bytes of a UTF-8 terminal for Latin-1; on a Latin-1 terminal the octets of PBKDF2 differ instead.
    """
    if not password:
        return (Reading(b"\x00\x00", b""), Reading(b"", b""))
    utf8 = password.encode("utf-8")
    found = [Reading(_widen(password), utf8), Reading(_widen(utf8.decode("latin-1")), utf8)]
    try:
        found.append(Reading(_widen(password), password.encode("latin-1")))
    except UnicodeEncodeError:
        return tuple(dict.fromkeys(found))
    return tuple(dict.fromkeys(found))
