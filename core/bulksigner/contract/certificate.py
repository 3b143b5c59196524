"""Certificate sources: where a certificate and its private key come from (role `certificate source`)."""

from __future__ import annotations

import enum
from typing import Protocol, runtime_checkable

__all__ = ["CanBeTried", "CertificateSource", "Digest", "KeyAlgorithm", "KnowsFault", "OpenedKey"]


class KeyAlgorithm(enum.Enum):
    """Kinds of private key that the signature formats can use."""

    RSA = "rsa"
    ECDSA = "ecdsa"


class Digest(enum.Enum):
    """Digest algorithms of the signature policies; the value is the `hashlib` name.

    SHA-1 is for plain XML signatures alone, where a profile allows it until a day (BEY-13); a source need not have it.
    """

    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA512 = "sha512"


@runtime_checkable
class OpenedKey(Protocol):
    """A certificate with its private key, open for use and held for the life of the process (PERF-01)."""

    @property
    def certificate(self) -> bytes:
        """Return the signer's certificate, DER."""
        ...

    @property
    def chain(self) -> tuple[bytes, ...]:
        """Return the issuers' certificates, DER, nearest first, as far as they are known."""
        ...

    @property
    def algorithm(self) -> KeyAlgorithm:
        """Return the kind of the private key."""
        ...

    def sign(self, data: bytes, digest: Digest) -> bytes:
        """Hash and sign `data`.

        RSA gives PKCS#1 v1.5 (RFC 8017 8.2), ECDSA the DER `Ecdsa-Sig-Value` (RFC 3279 2.2.3).
        Raises `ProviderError` in words for an operator. Thread-safe where the source is `concurrent`.
        """
        ...

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        """Sign a digest value made elsewhere; otherwise as `sign`."""
        ...

    def close(self) -> None:
        """Let go of the key; closing twice is harmless."""
        ...


@runtime_checkable
class KnowsFault(Protocol):
    """What an opened key may have besides, where it depends on something that can be taken away."""

    @property
    def fault(self) -> str | None:
        """Say why the last signature failed, or None while the key signs; asked at each probe, so it answers at once.

        It turns the readiness row of the profile red (API-86).
        """
        ...


@runtime_checkable
class CanBeTried(Protocol):
    """What an opened key may have besides, where it can be lost and found again without a new one being opened."""

    def try_again(self) -> None:
        """Find the key anew and see that it signs something that means nothing; raises `ProviderError` with the reason.

        It is called again and again while a profile is held (BEY-20), so it never tries a PIN that was refused.
        """
        ...


@runtime_checkable
class CertificateSource(Protocol):
    """Opens keys from the block of settings that the plugin declared for it."""

    @property
    def name(self) -> str:
        """Return the value of `Certificate:Source` that chooses this source, such as `Pfx`."""
        ...

    @property
    def concurrent(self) -> bool:
        """Tell whether one opened key may sign in several threads at once (CFG-80 warns where not)."""
        ...

    @property
    def portable(self) -> bool:
        """Tell whether the block may travel to a worker process that opens the key again (PERF-06)."""
        ...

    def locator(self, block: object) -> str:
        """Name the place of the key for banner and logs, without any secret."""
        ...

    def open(self, block: object) -> OpenedKey:
        """Open the key that `block` (an instance of the declared class) names.

        Raises `ProviderError`; the text says what is wrong and becomes the reason of a degraded profile.
        """
        ...
