"""Brings edits of profiles into a running service, whichever process made them (CFG-85, CLU-61)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from bulksigner.contract.certificate import OpenedKey
from bulksigner.observability.logs import facts
from bulksigner.profiles.model import KeyReference, OpenedProfile, StoredProfile
from bulksigner.profiles.opened import OpenedProfiles, ProfileOpener
from bulksigner.profiles.store import ProfileStore

__all__ = ["ProfileWatch"]

STOP_LIMIT_SECONDS = 5.0
_LOG = logging.getLogger("bulksigner.profiles")


class ProfileWatch:
    """Looks at the count of saves at each poll interval, in a thread of its own: a key may take long to open."""

    def __init__(
        self,
        profiles: ProfileStore,
        opened: OpenedProfiles,
        opener: ProfileOpener,
        *,
        seen: int | None,
        open_key: Callable[[KeyReference, OpenedKey], None],
        tell: Callable[[], None],
        poll_interval_seconds: float,
        also: Sequence[Callable[[], None]] = (),
    ) -> None:
        """Take the parts; `seen` is the count of saves from before the profiles were read, None if there was none.

        `open_key` makes a key known to the engine before the first job that uses it; `tell` is called after a change,
        `also` at each look, for what else may have changed.
        """
        self._profiles = profiles
        self._opened = opened
        self._opener = opener
        self._seen = seen
        self._open_key = open_key
        self._tell = tell
        self._also = also
        self._poll_interval_seconds = poll_interval_seconds
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_store_away = False

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="profile-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop; a look that waits for a key, or for workers that are busy, does not hold up the end of the service."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_LIMIT_SECONDS)

    def step(self) -> bool:
        """Look once and take over what was saved since; tell whether there was anything. Raises `StoreFailed`."""
        for look in self._also:
            look()
        saves = self._profiles.saves()
        if saves == self._seen:
            return False
        # Counted before the rows are read: a save in between is looked at once more, and none is missed.
        renewed = [self._renew(self._opened.get(stored.name), stored) for stored in self._profiles.all()]
        self._opened.replace(renewed)
        self._seen = saves
        self._tell()
        return True

    def reopen(self, name: str) -> OpenedProfile | None:
        """Try a degraded profile once more, as it is stored; return it as it is now. For the thread of the looks."""
        before = self._opened.get(name)
        if before is None or before.degraded is None:
            return before
        renewed = self._opener.open(before.row)
        if renewed.degraded is not None:
            return before
        if renewed.key is not None and renewed.key_reference is not None:
            self._open_key(renewed.key_reference, renewed.key)
        _log_renewal(before, renewed)
        self._opened.replace([renewed if profile is before else profile for profile in self._opened.all])
        self._tell()
        return renewed

    def _renew(self, before: OpenedProfile | None, stored: StoredProfile) -> OpenedProfile:
        if before is not None and before.row == stored:
            return before
        renewed = self._opener.open(stored) if before is None else self._opener.renew(before, stored)
        if renewed.key is not None and renewed.key_reference is not None and not _has_same_key(before, renewed):
            self._open_key(renewed.key_reference, renewed.key)
        _log_renewal(before, renewed)
        return renewed

    def _run(self) -> None:
        while not self._stopping.wait(self._poll_interval_seconds):
            try:
                self.step()
            except Exception:  # noqa: BLE001 - the database may be away, a driver may raise anything; it is asked again
                if not self._is_store_away:
                    _LOG.exception("Edits of profiles cannot be taken over")
                self._is_store_away = True
            else:
                self._is_store_away = False


def _has_same_key(before: OpenedProfile | None, after: OpenedProfile) -> bool:
    return before is not None and before.hold is after.hold


def _log_renewal(before: OpenedProfile | None, after: OpenedProfile) -> None:
    properties = facts(profile=after.name, row_version=after.row.row_version)
    if after.degraded is not None:
        _LOG.critical("Profile '%s' is degraded: %s", after.name, after.degraded, extra=properties)
    elif before is None:
        _LOG.info("A new signing profile was taken over", extra=properties)
    elif before.degraded is not None:
        _LOG.info("Profile '%s' is not degraded any more", after.name, extra=properties)
    elif not _has_same_key(before, after) and after.key is not None:
        _LOG.info("Profile '%s' signs with another certificate from now on", after.name, extra=properties)
    else:
        _LOG.info("An edit of profile '%s' was taken over", after.name, extra=properties)
