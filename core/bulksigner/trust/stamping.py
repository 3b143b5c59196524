"""The time stamps of signatures: what a process needs to ask for them, to keep room for them, and to judge them."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable

import attrs

from bulksigner.contract.certificate import Digest
from bulksigner.formats.model import Hashed
from bulksigner.formats.timestamp import TimestampRefused, read_token
from bulksigner.formats.unsigned import encode_timestamp, stamp_room
from bulksigner.trust.proving import ChainJudge, EvidencePlan, RevokedServices, SignatureProofs
from bulksigner.trust.roots import TrustSet
from bulksigner.trust.timestamping import TimestampClient, TimestampService, require_trusted

__all__ = ["SignatureStamps", "Stamping", "StampingPlan"]

_PROBE = b"bulksigner asks how long a time stamp is"
_ROOM_OF_SEVERAL = 16 * 1024
"""Tokens of another service, with its chain, may be far longer than those of the one that tells the room."""


class SignatureStamps:
    """Makes the time stamps of signatures, see `Stamps`; safe in several threads.

    Room is asked for before there is a signature, as a PDF must keep it: one stamp over a fixed text tells it, once.
    """

    def __init__(self, client: TimestampClient, digest: Digest = Digest.SHA256, *, least_room: int = 0) -> None:
        self._client = client
        self._digest = digest
        self._least_room = least_room
        self._room = 0
        self._sample = b""
        self._guard = threading.Lock()

    @property
    def room(self) -> int:
        """Return the largest length in bytes of what `make` returns. Raises `TimestampsFailed`."""
        with self._guard:
            if not self._room:
                self._sample = self._client.stamp(_PROBE, self._digest).token
                self._room = max(self._least_room, stamp_room(self._sample))
            return self._room

    @property
    def sample(self) -> bytes:
        """Return a token such as `stamp` made last. Raises `TimestampsFailed`."""
        return self._sample if self.room else b""

    def prepare(self) -> None:
        """Raise `TimestampsFailed` where no service has answered well yet, or all of them failed a moment ago."""
        if self.room:
            self._client.require_awake()

    def stamp(self, content: bytes) -> bytes:
        """Return the token over `content`. Raises `TimestampsFailed`."""
        return self._keep(self._client.stamp(content, self._digest).token)

    def stamp_digest(self, sha256: bytes) -> bytes:
        """Return the token over content whose SHA-256 is given. Raises `TimestampsFailed`."""
        return self._keep(self._client.stamp_digest(sha256).token)

    def _keep(self, token: bytes) -> bytes:
        with self._guard:
            # A service that begins to send longer tokens costs one file, not all that follow.
            self._room, self._sample = max(self._room, stamp_room(token)), token
        return token

    def make(self, signature: bytes) -> bytes:
        """Return the encoded unsigned attributes for a signature value. Raises `TimestampsFailed`."""
        return encode_timestamp(self.stamp(signature))


@attrs.frozen
class Stamping:
    """Time stamps in one process: those that are made, and the verdict on those that are found in signed files."""

    stamps: SignatureStamps
    trust: TrustSet
    policies: frozenset[str]
    """Those that services are asked for; empty where one of them chooses for itself."""
    proofs: SignatureProofs | None = None
    proof_judge: ChainJudge | None = None

    def judge(self, token: bytes, covered: bytes | Hashed) -> datetime.datetime:
        """Return the time of a token found in a signed file over what it must cover.

        Raises `TimestampRefused` or `ChainRefused` where it is damaged, of something else, or of nobody trusted here.
        """
        stamp = read_token(token, covered)
        if self.policies and stamp.policy not in self.policies:
            raise TimestampRefused(f"it is of the policy {stamp.policy}, which no service is asked for.")
        require_trusted(stamp, self.trust)
        return stamp.time


@attrs.frozen
class StampingPlan:
    """Services in their order, whom to trust, and where the proof of chains is had; travels to worker processes."""

    services: tuple[TimestampService, ...]
    trust: TrustSet
    evidence: EvidencePlan | None = None

    def open(self, clock: Callable[[], datetime.datetime]) -> Stamping:
        """Return what a process works with; nothing is asked yet."""
        asked = [service.policy for service in self.services]
        policies = frozenset(policy for policy in asked if policy) if all(asked) else frozenset[str]()
        validation = None if self.evidence is None else self.evidence.open(self.trust, clock)
        revoked = None if validation is None else RevokedServices(validation, clock=clock).find
        client = TimestampClient(self.services, self.trust, clock=clock, find_revoked=revoked)
        least_room = _ROOM_OF_SEVERAL if len(self.services) > 1 else 0
        stamps = SignatureStamps(client, least_room=least_room)
        proofs = None
        if validation is not None:
            proofs = SignatureProofs(validation, lambda: stamps.sample, clock=clock)
        return Stamping(stamps, self.trust, policies, proofs, ChainJudge(self.trust, clock))
