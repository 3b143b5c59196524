"""Tells in good time that certificates end: once for each profile, certificate and threshold (BEY-21)."""

from __future__ import annotations

import datetime
import hashlib
import logging
import time
from collections.abc import Callable

from bulksigner.observability.logs import facts
from bulksigner.profiles.deployment import read_fact, record_fact
from bulksigner.profiles.model import OpenedProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records.errors import UniqueViolation
from bulksigner.records.events import Event, write_event
from bulksigner.records.store import Store

__all__ = ["DAYS", "ExpiryWatch", "describe_end", "find_threshold"]

DAYS = (1, 7, 14, 30, 60)
"""Days before the end of a certificate at which it is told of, nearest first."""
_ENDED = 0
_INTERVAL_SECONDS = 600.0
_LOG = logging.getLogger("bulksigner.profiles")


def find_threshold(ends: datetime.datetime, now: datetime.datetime) -> int | None:
    """Return the nearest threshold that is reached, in days; 0 after the end, None while there is time."""
    if now >= ends:
        return _ENDED
    return next((days for days in DAYS if ends - now <= datetime.timedelta(days=days)), None)


def describe_end(ends: datetime.datetime | None, now: datetime.datetime) -> str | None:
    """Say that a certificate ends soon, or has ended; None while there is time."""
    if ends is None or (threshold := find_threshold(ends, now)) is None:
        return None
    if threshold == _ENDED:
        return f"the certificate ended at {ends:%Y-%m-%dT%H:%M:%SZ}; renew it"
    return f"the certificate ends in {(ends - now).days} day(s); renew it"


class ExpiryWatch:
    """Looks at the certificates of the open profiles and writes an event when one reaches a threshold.

    What was told is recorded in the database, so that neither a restart nor another instance tells it again.
    """

    def __init__(self, store: Store, profiles: OpenedProfiles, clock: Callable[[], datetime.datetime]) -> None:
        self._store = store
        self._profiles = profiles
        self._clock = clock
        self._told: set[str] = set()
        self._next_look = 0.0

    def look_if_due(self) -> None:
        """Look when the last look is a while ago."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _INTERVAL_SECONDS
            self.look()

    def look(self) -> None:
        """Look at every certificate now. Raises `StoreFailed`."""
        now = self._clock()
        for profile in self._profiles.all:
            ends = profile.certificate_not_after
            if profile.key is None or ends is None or not profile.stored.enabled:
                continue
            threshold = find_threshold(ends, now)
            if threshold is not None:
                self._tell(profile, profile.key.certificate, ends, threshold, now)

    def _tell(
        self,
        profile: OpenedProfile,
        certificate: bytes,
        ends: datetime.datetime,
        threshold: int,
        now: datetime.datetime,
    ) -> None:
        thumbprint = hashlib.sha256(certificate).hexdigest()
        name = f"certificate-end-told:{profile.stored.id}:{thumbprint[:32]}:{threshold}"
        if name in self._told:
            return
        text = f"Signing profile '{profile.name}': {describe_end(ends, now)}."
        details = {
            "profile": profile.name,
            "thumbprintSha256": thumbprint,
            "notAfter": f"{ends:%Y-%m-%dT%H:%M:%SZ}",
            "thresholdDays": threshold,
        }
        event = Event("CertificateExpired" if threshold == _ENDED else "CertificateExpiring", text, details)

        def act() -> bool:
            if read_fact(self._store, name) is not None:
                return False
            record_fact(self._store, name, f"{now:%Y-%m-%dT%H:%M:%SZ}", now)
            write_event(self._store, event, now)
            return True

        try:
            is_new = self._store.write(act, settle=lambda: True if read_fact(self._store, name) else None)
        except UniqueViolation:
            is_new = False
        self._told.add(name)
        if is_new:
            _LOG.warning("%s", text, extra=facts(profile=profile.name, threshold_days=threshold))
