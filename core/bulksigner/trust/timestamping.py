"""Asks time-stamp services in their order until one answers well; one that fails is left alone for a while."""

from __future__ import annotations

import datetime
import hashlib
import logging
import secrets
import threading
from collections.abc import Callable, Sequence

import attrs

from bulksigner.contract.certificate import Digest
from bulksigner.contract.errors import KeyTrouble, ProviderError, TemporaryFailure
from bulksigner.contract.settings import Secret
from bulksigner.formats.chain import ChainRefused, build_chain
from bulksigner.formats.timestamp import Timestamp, TimestampRefused, build_request, read_response
from bulksigner.trust.fetch import fetch
from bulksigner.trust.roots import TrustSet

__all__ = ["TimestampClient", "TimestampService", "TimestampsFailed", "require_trusted"]

_LOG = logging.getLogger("bulksigner.trust")
_HEADERS = {"Content-Type": "application/timestamp-query", "Accept": "application/timestamp-reply"}
_ANSWER_LIMIT_BYTES = 1 << 20
_NONCE_BITS = 64
_FIRST_REST = datetime.timedelta(seconds=5)
_LONGEST_REST = datetime.timedelta(minutes=5)
_CLOCK_TOLERANCE = datetime.timedelta(minutes=5)


class TimestampsFailed(TemporaryFailure):
    """Report that no service gave a time stamp, with the reason of each."""

    default_code = "sign.timestamp-failed"
    default_trouble = KeyTrouble.PERHAPS_USED


@attrs.frozen
class TimestampService:
    """One service: its address, the policy to ask for (an OID, or its own choice), who asks, and its time limit."""

    url: str
    policy: str | None = None
    user: str | None = None
    password: Secret | None = None
    limit_seconds: float = 10.0


@attrs.define
class _Rest:
    """How a service has failed lately."""

    failures: int = 0
    until: datetime.datetime | None = None
    reason: str = ""


def require_trusted(stamp: Timestamp, trust: TrustSet) -> None:
    """Require that the certificate of a stamp led to a root of the trust set at its time; raises `ChainRefused`."""
    others = (*stamp.chain, *trust.list_above((stamp.certificate, *stamp.chain)))
    build_chain(stamp.certificate, others, [root.encoded for root in trust.roots], moment=stamp.time)


class TimestampClient:
    """Gets time stamps; safe in several threads.

    A token counts when it answers the request, its certificate leads to a root of the trust set at the time it names,
    and that time is near this host's.
    """

    def __init__(
        self,
        services: Sequence[TimestampService],
        trust: TrustSet,
        *,
        clock: Callable[[], datetime.datetime],
        find_revoked: Callable[[Timestamp], str | None] | None = None,
    ) -> None:
        """Take the parts; `find_revoked` says why the service of a stamp is not believed any more, or None."""
        self._services = tuple(services)
        self._find_revoked = find_revoked
        self._trust = trust
        self._clock = clock
        self._rests = {service: _Rest() for service in self._services}
        self._guard = threading.Lock()

    def stamp(self, content: bytes, digest: Digest = Digest.SHA256) -> Timestamp:
        """Return a time stamp over `content`; raises `TimestampsFailed`."""
        return self.stamp_digest(hashlib.new(digest.value, content).digest(), digest)

    def stamp_digest(self, value: bytes, digest: Digest = Digest.SHA256) -> Timestamp:
        """Return a time stamp over content that has the digest `value`; raises `TimestampsFailed`."""
        reasons = []
        for service in self._services:
            resting = self._find_rest(service)
            if resting is not None:
                reasons.append(resting)
                continue
            try:
                stamp = self._ask(service, value, digest)
            except ProviderError as error:
                reasons.append(self._let_rest(service, error.message.rstrip(".")))
            else:
                with self._guard:
                    self._rests[service] = _Rest()
                return stamp
        if not reasons:
            raise TimestampsFailed("No time-stamp service is configured.")
        raise TimestampsFailed(f"No time stamp could be had: {'; '.join(reasons)}.")

    def require_awake(self) -> None:
        """Raise `TimestampsFailed` while each service rests, as it failed a moment ago; nothing is asked."""
        resting = [self._find_rest(service) for service in self._services]
        if all(reason is not None for reason in resting):
            raise TimestampsFailed(f"No time stamp could be had: {'; '.join(filter(None, resting))}.")

    def _ask(self, service: TimestampService, value: bytes, digest: Digest) -> Timestamp:
        nonce = secrets.randbits(_NONCE_BITS) | 1
        answer = fetch(
            service.url,
            limit_seconds=service.limit_seconds,
            limit_bytes=_ANSWER_LIMIT_BYTES,
            body=build_request(value, digest, nonce=nonce, policy=service.policy),
            headers=_HEADERS,
            credentials=None if service.user is None else (service.user, service.password or Secret("")),
        )
        try:
            stamp = read_response(answer, value, digest, nonce=nonce, policy=service.policy)
        except TimestampRefused as error:
            raise TimestampRefused(f"{service.url}: {error.message}") from error
        ahead = stamp.time - self._clock()
        if abs(ahead) > _CLOCK_TOLERANCE:
            raise TimestampRefused(
                f"{service.url}: its time is {ahead.total_seconds():+.0f} s off this host's; one of the clocks is wrong"
            )
        try:
            require_trusted(stamp, self._trust)
        except ChainRefused as error:
            raise TimestampRefused(f"{service.url}: {error.message}") from error
        revoked = None if self._find_revoked is None else self._find_revoked(stamp)
        if revoked is not None:
            raise TimestampRefused(f"{service.url}: {revoked}")
        return stamp

    def _find_rest(self, service: TimestampService) -> str | None:
        """Say why a service is not asked now, or None."""
        with self._guard:
            rest = self._rests[service]
            if rest.until is None or self._clock() >= rest.until:
                return None
            return f"{rest.reason} (not asked again before {rest.until:%H:%M:%S} UTC)"

    def _let_rest(self, service: TimestampService, reason: str) -> str:
        with self._guard:
            rest = self._rests[service]
            if rest.until is not None and self._clock() < rest.until:
                # Asked before the rest began: it is the same failure, met by another file.
                return reason
            failures = rest.failures + 1
            length = min(_LONGEST_REST, _FIRST_REST * 2 ** min(failures - 1, 10))
            self._rests[service] = _Rest(failures, self._clock() + length, reason)
        _LOG.warning("A time-stamp service failed: %s; it rests for %g s", reason, length.total_seconds())
        return reason
