"""What every signature format shares: its signer, its check and their refusals."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import BinaryIO, Protocol

import attrs

from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.errors import BulkSignerError, join
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format, Measured, PdfChoice, ValidationData

__all__ = [
    "CheckFailed",
    "Checked",
    "ContentChanged",
    "Expectation",
    "FileSigner",
    "FormatRefused",
    "Hashed",
    "JudgeStamp",
    "PdfRules",
    "ProofJudge",
]


class FormatRefused(BulkSignerError):
    """Refuse content that the format cannot sign; the text names the first defect and its place.

    `problem`, `place` (byte, line:column or part of the file) and `remedy` are what a finding shows of it (BEY-10).
    """

    default_code = "sign.failed"

    def __init__(self, problem: str, *, place: str = "", remedy: str = "", code: str | None = None) -> None:
        super().__init__(join(problem, remedy), code=code)
        self.problem = problem
        self.place = place
        self.remedy = remedy


class ContentChanged(BulkSignerError):
    """Refuse to use the key: the bytes read are not the bytes that were staged (PIPE-77)."""

    default_code = "approval.content-changed"


class CheckFailed(BulkSignerError):
    """Report the first thing that is wrong with a signed file (ICP-34)."""

    default_code = "verify.failed"


_NOTHING_CHOSEN = PdfChoice()


@attrs.frozen
class PdfRules:
    """What is done with PDF files that are not as they should be (CFG-200, CFG-201), and what the profile chose."""

    ignore_owner_restrictions: bool = False
    repair_unsigned: bool = False
    choice: PdfChoice = _NOTHING_CHOSEN

    @classmethod
    def read(cls, options: Mapping[str, str], choice: PdfChoice | None = None) -> PdfRules:
        """Read the options of a request, each on when `true`."""
        return cls(
            options.get("ignore_owner_restrictions") == "true",
            options.get("repair_unsigned") == "true",
            choice or _NOTHING_CHOSEN,
        )


@attrs.frozen
class Hashed:
    """What a time stamp covers, where it is too long to be held: its digest, and by which algorithm."""

    algorithm: str
    digest: bytes


JudgeStamp = Callable[[bytes, bytes | Hashed], datetime.datetime]
"""Takes a token and what it must cover, and returns its time; raises `BulkSignerError` where it does not count."""


class ProofJudge(Protocol):
    """Decides whether the data found in a signed file proves a chain by itself, up to a root of this host.

    Each member raises `BulkSignerError` where it does not.
    """

    def judge_signer(self, certificate: bytes, data: ValidationData) -> None:
        """Judge the proof of a signer."""
        ...

    def judge_stamp(self, token: bytes, data: ValidationData) -> None:
        """Judge the proof of the service that signed a time stamp."""
        ...

    def list_certificates(self, token: bytes) -> tuple[bytes, tuple[bytes, ...]]:
        """Return the certificate that signed a time stamp, and the others in it."""
        ...

    def list_issuers(self, certificate: bytes, others: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Return the issuers of a certificate up to a root of this host, by the others found beside it."""
        ...


class FileSigner(Protocol):
    """Signs files of one format with one opened key; everything that does not differ by file is made once."""

    def sign(self, source: BinaryIO, target: BinaryIO, *, expected: Measured, signed_at: datetime.datetime) -> Measured:
        """Read `source`, write the signed file to `target` and measure what was written.

        `source` is read from its start and seekable; `target` is empty, writable and seekable. Raises
        `ContentChanged` before the key is used when the bytes read are not `expected`, `FormatRefused` when the
        content cannot be signed in this format, `ProviderError` from the key.
        """
        ...


@attrs.frozen
class Expectation:
    """What a check holds an artifact against; it gets nothing else from the signing step (BEY-01).

    `spec` says what the signature must carry; without it any kind of signature of the format will do.
    `judge_stamp` decides on time stamps as this host trusts them; a specification with one needs it. `proof_judge`
    decides on the proof of chains, which a specification with one needs besides.
    """

    format: Format
    certificate: bytes
    original: Measured
    spec: SignatureSpec | None = None
    may_be_repaired: bool = False
    judge_stamp: JudgeStamp | None = attrs.field(default=None, eq=False, repr=False)
    passwords: tuple[Secret, ...] = ()
    """What may open an original that is protected."""
    proof_judge: ProofJudge | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Checked:
    """What a check saw: the artifact as measured in the same read, and facts of the signature."""

    measured: Measured
    algorithm: KeyAlgorithm
    digest: str
    signing_time: datetime.datetime | None
    repair: str | None = None
    """What of the original is not in the artifact as it was, where that may be."""
