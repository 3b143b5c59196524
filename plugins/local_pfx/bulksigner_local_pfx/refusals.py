"""The ways a PKCS#12 file does not open; each has a text of its own (OPS-112)."""

from __future__ import annotations

from bulksigner.contract.errors import PermanentFailure

__all__ = [
    "CipherNotSupported",
    "Damaged",
    "EnvelopeRefused",
    "NoCertificate",
    "NoPrivateKey",
    "NotPkcs12",
    "Unreadable",
    "WrongPassword",
]


class EnvelopeRefused(PermanentFailure):
    """Refuse a file; the message never holds a password."""


class Unreadable(EnvelopeRefused):
    """Refuse a file that is not there, may not be read or has no bytes."""


class NotPkcs12(EnvelopeRefused):
    """Refuse content of another kind."""


class Damaged(EnvelopeRefused):
    """Refuse content that began as PKCS#12 and is not whole."""


class WrongPassword(EnvelopeRefused):
    """Refuse a password that does not open the file."""


class CipherNotSupported(EnvelopeRefused):
    """Refuse an algorithm that is not known here, by its OID."""


class NoPrivateKey(EnvelopeRefused):
    """Refuse a file that holds certificates only."""


class NoCertificate(EnvelopeRefused):
    """Refuse a file in which no single certificate belongs to a private key."""
