"""The proof of chains for signatures that carry it: collected before the key is used, kept while it counts, judged."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import attrs

from bulksigner.contract.errors import PermanentFailure, TemporaryFailure
from bulksigner.contract.signing import ValidationData
from bulksigner.formats.chain import ChainProblem, ChainRefused, build_chain, check_revocation
from bulksigner.formats.timestamp import Timestamp, list_certificates
from bulksigner.observability.redaction import mask_cpf
from bulksigner.trust.evidence import EvidenceDesk
from bulksigner.trust.roots import TrustSet
from bulksigner.trust.validation import CertificateValidation

__all__ = ["ChainJudge", "EvidencePlan", "ProofMissing", "RevokedServices", "SignatureProofs"]

_FAILURE_COUNTS = datetime.timedelta(seconds=10)
_SILENCE_COUNTS = datetime.timedelta(minutes=5)
_Name = tuple[bytes, tuple[bytes, ...]]


class ProofMissing(TemporaryFailure):
    """Report that nothing that is fresh proves a chain now."""

    default_code = "sign.revocation-data-missing"


@attrs.frozen
class _Collected:
    """What was had for a chain, or why nothing was; it counts until `until`."""

    until: datetime.datetime
    data: ValidationData | None = None
    refused: ChainRefused | None = None


class SignatureProofs:
    """Collects the proof of chains, see `Proofs`; of callers that ask for the same chain at the same time one fetches.

    `sample` returns a token of the service that stamps now.
    """

    def __init__(
        self,
        validation: CertificateValidation,
        sample: Callable[[], bytes],
        *,
        clock: Callable[[], datetime.datetime],
    ) -> None:
        self._validation = validation
        self._sample = sample
        self._clock = clock
        self._collected: dict[_Name, _Collected] = {}
        self._locks: dict[_Name, threading.Lock] = {}
        self._guard = threading.Lock()

    def prepare(self, certificate: bytes, chain: tuple[bytes, ...]) -> None:
        """Raise where the proof of a signer, or of the service that stamps, is not to be had."""
        self.collect(certificate, chain)
        self.collect_stamp(self._sample())

    def collect(self, certificate: bytes, chain: tuple[bytes, ...]) -> ValidationData:
        """Return the proof of a signer, its certificate first, its root last."""
        name = (certificate, chain)
        with self._guard:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            known = self._collected.get(name)
            if known is None or self._clock() >= known.until:
                known = self._collected[name] = self._collect(certificate, chain)
        if known.data is None:
            _refuse(known.refused)
        return known.data

    def collect_stamp(self, token: bytes) -> ValidationData:
        """Return the proof of the service that signed a token."""
        certificate, chain = list_certificates(token)
        return self.collect(certificate, chain)

    def _collect(self, certificate: bytes, chain: tuple[bytes, ...]) -> _Collected:
        now = self._clock()
        try:
            data, until = self._validation.collect(certificate, chain, moment=now)
        except ChainRefused as error:
            return _Collected(now + _FAILURE_COUNTS, refused=error)
        return _Collected(until, data)


@attrs.frozen
class _Standing:
    """Why a service is not believed, or None; it counts until `until`."""

    until: datetime.datetime
    reason: str | None = None


class RevokedServices:
    """Knows of each time-stamp service whether its certificate was revoked; asked once in a while and not per stamp."""

    def __init__(self, validation: CertificateValidation, *, clock: Callable[[], datetime.datetime]) -> None:
        self._validation = validation
        self._clock = clock
        self._known: dict[bytes, _Standing] = {}
        self._guard = threading.Lock()

    def find(self, stamp: Timestamp) -> str | None:
        """Say that the service of a stamp was revoked, or None; may wait for the network.

        Where nothing tells, the stamp counts: only the levels that carry their proof need one (see `SignatureProofs`).
        """
        with self._guard:
            known = self._known.get(stamp.certificate)
            if known is None or self._clock() >= known.until:
                known = self._known[stamp.certificate] = self._look(stamp)
        return known.reason

    def _look(self, stamp: Timestamp) -> _Standing:
        now = self._clock()
        try:
            _, until = self._validation.collect(stamp.certificate, stamp.chain, moment=now)
        except ChainRefused as error:
            is_revoked = error.problem is ChainProblem.REVOKED
            return _Standing(now + _SILENCE_COUNTS, mask_cpf(error.message) if is_revoked else None)
        return _Standing(until)


def _refuse(refused: ChainRefused | None) -> NoReturn:
    message = "" if refused is None else mask_cpf(refused.message)
    if refused is not None and refused.problem is not ChainProblem.NOT_OBTAINABLE:
        raise PermanentFailure(
            f"The proof that belongs into the signature cannot be collected: {message}", code="sign.certificate-invalid"
        ) from refused
    raise ProofMissing(f"The proof that belongs into the signature is not to be had now: {message}") from refused


@attrs.frozen
class ChainJudge:
    """Decides whether what was found in a signed file proves a chain up to a root of this host, see `ProofJudge`."""

    trust: TrustSet
    clock: Callable[[], datetime.datetime]

    def judge_signer(self, certificate: bytes, data: ValidationData) -> None:
        """Raise `ChainRefused` where the data is not enough for a signer, by itself and without network."""
        roots = [root.encoded for root in self.trust.roots]
        path = build_chain(certificate, data.certificates, roots, moment=self.clock())
        issuers = [link.issuer for link in path]
        if not set(issuers) <= set(data.certificates):
            raise ChainRefused(ChainProblem.UNKNOWN_ISSUER, "a certificate of the chain is not in the signature.")
        check_revocation(certificate, issuers, roots, crls=data.lists, ocsps=data.answers, moment=self.clock())

    def list_certificates(self, token: bytes) -> tuple[bytes, tuple[bytes, ...]]:
        """Return the certificate that signed a token and the others in it; raises `TimestampRefused`."""
        return list_certificates(token)

    def list_issuers(self, certificate: bytes, others: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Return the issuers of a certificate up to a root; raises `ChainRefused` where it leads to none."""
        roots = [root.encoded for root in self.trust.roots]
        known = (*others, *self.trust.list_above((certificate, *others)))
        return tuple(link.issuer for link in build_chain(certificate, known, roots, moment=self.clock()))

    def judge_stamp(self, token: bytes, data: ValidationData) -> None:
        """Raise `BulkSignerError` where the data is not enough for the service that signed a token."""
        self.judge_signer(list_certificates(token)[0], data)


@attrs.frozen
class EvidencePlan:
    """Where evidence is fetched from and kept; travels to worker processes, which share the cache on disk."""

    cache: Path
    recheck: datetime.timedelta
    offline: bool = False
    lists_folder: Path | None = None
    limit_seconds: float = 10.0

    def open(self, trust: TrustSet, clock: Callable[[], datetime.datetime]) -> CertificateValidation:
        """Return what a process works with; nothing is fetched yet."""
        desk = EvidenceDesk(self.cache, clock, self.offline, self.lists_folder, self.limit_seconds)
        return CertificateValidation(trust, desk, recheck=self.recheck, clock=clock)
