"""Signing methods: how a signature comes about (role `signing method`), and what a signature looks like."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import attrs

from bulksigner.contract.appearance import Appearance
from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.settings import Secret

__all__ = [
    "Dispatched",
    "Format",
    "Measured",
    "Overtaken",
    "PdfChoice",
    "Proofs",
    "Refused",
    "Signed",
    "SigningMethod",
    "SigningRequest",
    "Stamps",
    "Unknown",
    "ValidationData",
    "Waiting",
]


class Format(enum.Enum):
    """Signature formats; the value is the wire name (API-01)."""

    PADES = "Pades"
    CADES = "Cades"
    XADES = "Xades"


@attrs.frozen
class Measured:
    """Length in bytes and SHA-256 (32 bytes) of a file, as measured by one read of it."""

    length: int
    sha256: bytes


@attrs.frozen
class PdfChoice:
    """What a profile chose for PDF files: the passwords to try on those that need one, in this order, and the looks.

    `appearance` is None where signatures are not shown.
    """

    passwords: tuple[Secret, ...] = ()
    appearance: Appearance | None = None


class Stamps(Protocol):
    """Asks the time-stamp services of the host; safe in several threads, and all of it may wait for the network.

    Each member raises `TemporaryFailure` with the code `sign.timestamp-failed` where no service gives a stamp.
    """

    @property
    def room(self) -> int:
        """Return the largest length in bytes of what `make` returns."""
        ...

    def prepare(self) -> None:
        """Raise where no stamp is to be had now; a key is not used for what could not be stamped."""
        ...

    def stamp(self, content: bytes) -> bytes:
        """Return the token over `content`, DER (RFC 3161)."""
        ...

    def stamp_digest(self, sha256: bytes) -> bytes:
        """Return the token over content whose SHA-256 (32 bytes) is given."""
        ...

    def make(self, signature: bytes) -> bytes:
        """Return the unsigned attributes of a CMS signer that hold the token over its signature value."""
        ...


@attrs.frozen
class ValidationData:
    """The proof of chains: certificates with their roots, revocation lists and OCSP responses, each DER."""

    certificates: tuple[bytes, ...]
    lists: tuple[bytes, ...] = ()
    answers: tuple[bytes, ...] = ()

    def join(self, other: ValidationData) -> ValidationData:
        """Return both without what is there twice, such as those of a signer and of its time stamp."""
        return ValidationData(
            tuple(dict.fromkeys(self.certificates + other.certificates)),
            tuple(dict.fromkeys(self.lists + other.lists)),
            tuple(dict.fromkeys(self.answers + other.answers)),
        )


class Proofs(Protocol):
    """Collects what proves chains later; safe in several threads, and all of it may wait for the network.

    What was collected is kept until it ends. Each member raises `TemporaryFailure` with the code
    `sign.revocation-data-missing` where the proof of a chain is not to be had, and `PermanentFailure` with the code
    `sign.certificate-invalid` where a certificate is not good or was revoked.
    """

    def prepare(self, certificate: bytes, chain: tuple[bytes, ...]) -> None:
        """Raise where the proof of a signer, or of the time-stamp service, is not to be had before the key is used."""
        ...

    def collect(self, certificate: bytes, chain: tuple[bytes, ...]) -> ValidationData:
        """Return the proof of a signer: its own certificate first, then its issuers up to the root."""
        ...

    def collect_stamp(self, token: bytes) -> ValidationData:
        """Return the proof of the service that signed a time stamp, its own certificate first."""
        ...


@attrs.frozen
class SigningRequest:
    """All that a method needs to sign one staged file; paths are local."""

    job_id: str
    file_name: str
    format: Format
    staged: Path
    staged_measured: Measured
    target: Path
    key: OpenedKey | None
    signed_at: datetime.datetime
    options: Mapping[str, str] = attrs.field(factory=dict)
    spec: SignatureSpec | None = None
    """What the signature must carry by the profile's policy; None leaves it to the method."""
    metadata: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    stamps: Stamps | None = attrs.field(default=None, repr=False)
    """Where stamps come from if `spec.is_stamped`; None on a host that names no service."""
    pdf: PdfChoice | None = None
    """What the profile chose for PDF files; None where it chose nothing, and for other formats."""
    proofs: Proofs | None = attrs.field(default=None, repr=False)
    """Where the proof of chains comes from if `spec.is_proven`; None on a host that names no time-stamp service."""


@attrs.frozen
class Signed:
    """The signed file is complete at the request's target; `measured` is of that file."""

    measured: Measured


@attrs.frozen
class Dispatched:
    """A remote side has the file; `reference` names it there."""

    reference: str


@attrs.frozen
class Waiting:
    """The remote side has not decided yet."""


@attrs.frozen
class Refused:
    """The remote side will not sign; the reason is fit to be shown."""

    reason: str


@attrs.frozen
class Overtaken:
    """A remote document moved on before it was signed here."""

    found: str


@attrs.frozen
class Unknown:
    """After an interruption the outcome cannot be established."""

    reason: str


@runtime_checkable
class SigningMethod(Protocol):
    """Makes a signature here, or has it made elsewhere."""

    @property
    def name(self) -> str:
        """Return the value of `Method` that chooses this method, such as `Local`."""
        ...

    @property
    def needs_certificate(self) -> bool:
        """Tell whether a profile of this method must open a key."""
        ...

    def sign(self, request: SigningRequest) -> Signed | Dispatched | Overtaken:
        """Sign the staged file, or hand it over.

        The bytes read must be hashed again in that read and refused before the key is used when they are not
        `staged_measured` (PIPE-77). Raises `StepFailed` or `ProviderError`.
        """
        ...

    def poll(self, dispatched: Dispatched) -> Signed | Waiting | Refused:
        """Ask the remote side once; only for methods that dispatch."""
        ...

    def withdraw(self, dispatched: Dispatched) -> None:
        """Take back what was dispatched, best effort, after the local cancel was committed."""
        ...

    def settle(self, job_id: str) -> Signed | Overtaken | Unknown:
        """Find out how an interrupted job ended; reads, never signs."""
        ...
