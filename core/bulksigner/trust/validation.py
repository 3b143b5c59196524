"""Whether a certificate may sign now: chain, usage and revocation, looked at once in a while and not per job."""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Callable, Iterable

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.signing import ValidationData
from bulksigner.formats.chain import (
    ChainProblem,
    ChainRefused,
    Link,
    build_chain,
    check_revocation,
    check_usage,
    is_list_of,
)
from bulksigner.observability.redaction import mask_cpf
from bulksigner.trust.evidence import Evidence, EvidenceDesk
from bulksigner.trust.roots import TrustSet

__all__ = ["CertificateValidation", "Verdict"]

_LOG = logging.getLogger("bulksigner.trust")
_REFUSAL_COUNTS = datetime.timedelta(seconds=60)
_GAPS_TOLD = 3
_Key = tuple[bytes, tuple[bytes, ...], bool]


@attrs.frozen
class Verdict:
    """What a check found; `refused` is the reason without a CPF in it, or None. It counts until `until`."""

    refused: str | None
    problem: ChainProblem | None
    until: datetime.datetime
    path_length: int = 0


class CertificateValidation:
    """Checks certificates against the trust set of the host and keeps the verdicts (CFG-92, OPS-117)."""

    def __init__(
        self,
        trust: TrustSet,
        desk: EvidenceDesk,
        *,
        recheck: datetime.timedelta,
        clock: Callable[[], datetime.datetime],
    ) -> None:
        """Take the parts; a good verdict counts for `recheck`, or until the first piece of its evidence ends."""
        self.trust = trust
        self._desk = desk
        self._recheck = recheck
        self._clock = clock
        self._verdicts: dict[_Key, Verdict] = {}
        self._locks: dict[_Key, threading.Lock] = {}
        self._guard = threading.Lock()

    def prune(self) -> None:
        """Remove evidence of long ago from the disk."""
        self._desk.prune()

    def known(self, key: OpenedKey, *, require_non_repudiation: bool) -> Verdict | None:
        """Return the verdict that counts now, or None; costs a look into a dictionary."""
        verdict = self._verdicts.get((key.certificate, key.chain, require_non_repudiation))
        return verdict if verdict is not None and self._clock() < verdict.until else None

    def find_refusal(self, key: OpenedKey, *, require_non_repudiation: bool) -> str | None:
        """Return why the last check of a certificate refused it, or None; nothing is checked for the asking."""
        verdict = self._verdicts.get((key.certificate, key.chain, require_non_repudiation))
        return None if verdict is None else verdict.refused

    def judge(self, key: OpenedKey, *, require_non_repudiation: bool) -> Verdict:
        """Return the verdict that counts now, checking where there is none; may wait for the network.

        Of callers that ask at the same time one checks.
        """
        name = (key.certificate, key.chain, require_non_repudiation)
        with self._guard:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            known = self.known(key, require_non_repudiation=require_non_repudiation)
            if known is not None:
                return known
            verdict = self._check(key, require_non_repudiation)
            self._verdicts[name] = verdict
        if verdict.refused is not None:
            _LOG.warning("A certificate was refused: %s", verdict.refused)
        return verdict

    def collect(
        self, certificate: bytes, chain: Iterable[bytes], *, moment: datetime.datetime
    ) -> tuple[ValidationData, datetime.datetime]:
        """Return what proves a certificate later, of a signer or of a time stamp, and until when it may be used.

        It may wait for the network.

        Raises `ChainRefused` where it is not good at `moment`, or nothing proves that it was not revoked.
        """
        given = tuple(chain)
        roots = [root.encoded for root in self.trust.roots]
        path = build_chain(certificate, (*given, *self.trust.list_above((certificate, *given))), roots, moment=moment)
        evidence = self._check_revocation(certificate, path, roots)
        certificates = (certificate, *(link.issuer for link in path))
        until = self._clock() + self._recheck
        lists = (one for one in evidence.lists if is_list_of(one, certificates))
        data = ValidationData(certificates, tuple(dict.fromkeys(lists)), tuple(dict.fromkeys(evidence.answers)))
        return data, min(until, evidence.until or until)

    def _check(self, key: OpenedKey, require_non_repudiation: bool) -> Verdict:
        now = self._clock()
        others = (*key.chain, *self.trust.list_above((key.certificate, *key.chain)))
        roots = [root.encoded for root in self.trust.roots]
        try:
            check_usage(key.certificate, require_non_repudiation=require_non_repudiation)
            path = build_chain(key.certificate, others, roots, moment=now)
            evidence = self._check_revocation(key.certificate, path, roots)
        except ChainRefused as error:
            return Verdict(mask_cpf(error.message), error.problem, now + _REFUSAL_COUNTS)
        until = now + self._recheck
        return Verdict(None, None, min(until, evidence.until or until), len(path) + 1)

    def _check_revocation(self, certificate: bytes, path: tuple[Link, ...], roots: list[bytes]) -> Evidence:
        evidence = self._desk.gather(path, no_older_than=self._recheck)
        try:
            self._weigh(certificate, path, roots, evidence)
        except ChainRefused as error:
            # What was had may be damaged, or of an authority that has changed its key since, or by a responder that
            # nobody appointed.
            if error.problem is ChainProblem.REVOKED or not (evidence.is_from_cache or evidence.answers):
                raise
            evidence = self._desk.gather(path, no_older_than=datetime.timedelta(), thorough=True)
            self._weigh(certificate, path, roots, evidence)
        return evidence

    def _weigh(self, certificate: bytes, path: tuple[Link, ...], roots: list[bytes], evidence: Evidence) -> None:
        try:
            check_revocation(
                certificate,
                [link.issuer for link in path],
                roots,
                crls=evidence.lists,
                ocsps=evidence.answers,
                moment=self._clock(),
            )
        except ChainRefused as error:
            if error.problem is not ChainProblem.NOT_OBTAINABLE or not evidence.gaps:
                raise
            gaps = "; ".join(dict.fromkeys(evidence.gaps[-_GAPS_TOLD:]))
            raise ChainRefused(error.problem, f"{error.message} {gaps}.") from error
