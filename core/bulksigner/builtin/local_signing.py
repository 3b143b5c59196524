"""The signing method `Local`: a key of this host signs the staged file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import BulkSignerError, KeyTrouble, PermanentFailure, ProviderError, StepFailed
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import (
    Dispatched,
    Format,
    Measured,
    Refused,
    Signed,
    SigningRequest,
    Unknown,
    Waiting,
)
from bulksigner.files import durable
from bulksigner.formats.dispatch import signer_for
from bulksigner.formats.model import ContentChanged, FileSigner, FormatRefused, PdfRules
from bulksigner.formats.spec import BASELINE_B

__all__ = ["DETACHED", "PEM", "LocalSigning"]

DETACHED, PEM = "detached", "pem"
_YES = "true"
_FAILED = "sign.failed"
_SignerKey = tuple[int, Format, bool, bool, PdfRules, SignatureSpec]


class LocalSigning:
    """Signs with the opened key of the profile.

    The request's options `detached`, `pem` and those of `PdfRules` are on when `true`.
    """

    name = "Local"
    needs_certificate = True

    def __init__(self) -> None:
        # The key is kept beside its signer, so that an id in use is never that of another key.
        self._signers: dict[_SignerKey, tuple[OpenedKey, FileSigner]] = {}
        self._making = threading.Lock()

    def sign(self, request: SigningRequest) -> Signed:
        """Sign the staged file; the target is complete and flushed when this returns, and absent when it raises."""
        if request.key is None:
            raise StepFailed("The profile has no opened key.", code=_FAILED)
        try:
            spec = request.spec or BASELINE_B
            signer = self._signer(request.key, request, spec)
            if spec.is_stamped and request.stamps is not None:
                _prepare(request.stamps.prepare)
            if spec.is_proven and request.proofs is not None:
                _prepare(partial(request.proofs.prepare, request.key.certificate, request.key.chain))
            return Signed(_sign_file(signer, request))
        except (FormatRefused, ContentChanged, ProviderError) as error:
            raise StepFailed(error.message, code=_code_of(error), trouble=error.trouble) from error
        except OSError as error:
            raise StepFailed(
                f"{error.filename or request.target}: {error.strerror or error}; look at the disk of the work folder.",
                code=_FAILED,
            ) from error

    def poll(self, dispatched: Dispatched) -> Signed | Waiting | Refused:
        """Refuse: nothing is dispatched here."""
        raise PermanentFailure(f"The method Local has no remote document {dispatched.reference}.")

    def withdraw(self, dispatched: Dispatched) -> None:
        """Refuse: nothing is dispatched here."""
        raise PermanentFailure(f"The method Local has no remote document {dispatched.reference}.")

    def settle(self, job_id: str) -> Unknown:
        """Answer that nothing outside of the job's folder tells how signing ended."""
        return Unknown(f"Job {job_id} was interrupted while its file was signed on this host.")

    def _signer(self, key: OpenedKey, request: SigningRequest, spec: SignatureSpec) -> FileSigner:
        detached, pem = request.options.get(DETACHED) == _YES, request.options.get(PEM) == _YES
        rules = PdfRules.read(request.options, request.pdf)
        place = (id(key), request.format, detached, pem, rules, spec)
        with self._making:
            known = self._signers.get(place)
            if known is None:
                signer = signer_for(
                    request.format,
                    key,
                    spec,
                    detached=detached,
                    pem=pem,
                    pdf=rules,
                    stamps=request.stamps,
                    proofs=request.proofs,
                )
                known = (key, signer)
                if not spec.xml_file:
                    # One that names its file is of no use to the next.
                    self._signers[place] = known
        return known[1]


def _prepare(act: Callable[[], None]) -> None:
    """Do what comes before the key is used."""
    try:
        act()
    except ProviderError as error:
        raise StepFailed(error.message, code=_code_of(error), trouble=KeyTrouble.UNUSED) from error


def _code_of(error: BulkSignerError) -> str:
    # A provider may have left the code open; on a job there must be one (PIPE-86).
    return error.code or _FAILED


def _sign_file(signer: FileSigner, request: SigningRequest) -> Measured:
    with open(request.staged, "rb") as source:
        return durable.write_new(
            request.target,
            lambda target: signer.sign(source, target, expected=request.staged_measured, signed_at=request.signed_at),
        )
