"""The time stamp of a signature as an addition to it: how much room it takes, and the attribute that holds it."""

from __future__ import annotations

import threading

from bulksigner.contract.certificate import Digest
from bulksigner.formats.unsigned import encode_timestamp, stamp_room
from bulksigner.trust.timestamping import TimestampClient

__all__ = ["SignatureStamps"]

_PROBE = b"bulksigner asks how long a time stamp is"


class SignatureStamps:
    """Makes the unsigned attributes of signatures with a time stamp; safe in several threads.

    Room is asked for before there is a signature, as a PDF must keep it: one stamp over a fixed text tells it, once.
    """

    def __init__(self, client: TimestampClient, digest: Digest = Digest.SHA256) -> None:
        self._client = client
        self._digest = digest
        self._room = 0
        self._guard = threading.Lock()

    @property
    def room(self) -> int:
        """Return the largest length in bytes of what `make` returns. Raises `TimestampsFailed`."""
        with self._guard:
            if not self._room:
                self._room = stamp_room(self._client.stamp(_PROBE, self._digest).token)
            return self._room

    def make(self, signature: bytes) -> bytes:
        """Return the encoded unsigned attributes for a signature value. Raises `TimestampsFailed`."""
        token = self._client.stamp(signature, self._digest).token
        with self._guard:
            # A service that begins to send longer tokens costs one file, not all that follow.
            self._room = max(self._room, stamp_room(token))
        return encode_timestamp(token)
