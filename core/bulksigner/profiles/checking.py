"""Keeps the verdicts on certificates fresh while no job asks, so that readiness knows and no job waits (OPS-117)."""

from __future__ import annotations

import logging
import threading

from bulksigner.contract.certificate import OpenedKey
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.trust.validation import CertificateValidation

__all__ = ["CertificateRefresh"]

_LOG = logging.getLogger("bulksigner.profiles")


class CertificateRefresh:
    """Checks the certificates of open profiles that ask for it, where no verdict counts any more."""

    def __init__(self, profiles: OpenedProfiles, validation: CertificateValidation) -> None:
        self._profiles = profiles
        self._validation = validation
        self._thread: threading.Thread | None = None

    def begin_if_due(self) -> None:
        """Check in a thread of its own, where some profile has no verdict and no check is under way."""
        if self._list_due() and (self._thread is None or not self._thread.is_alive()):
            # A daemon, since an authority that does not answer must not hold up the exit of the process.
            self._thread = threading.Thread(target=self._run, name="certificate-check", daemon=True)
            self._thread.start()

    def look(self) -> None:
        """Check every profile that has no verdict now; may wait for the network."""
        for key, asked in self._list_due():
            self._validation.judge(key, require_non_repudiation=asked)

    def _list_due(self) -> list[tuple[OpenedKey, bool]]:
        """Return the key of each profile without a verdict, and whether nonRepudiation is asked for."""
        asking = [
            (profile.key, profile.stored.require_non_repudiation)
            for profile in self._profiles.all
            if profile.key is not None and profile.stored.enabled and profile.stored.validate_certificate
        ]
        return [
            (key, asked) for key, asked in asking if self._validation.known(key, require_non_repudiation=asked) is None
        ]

    def _run(self) -> None:
        try:
            self.look()
        except Exception:  # noqa: BLE001 - a job that asks is told; here the next look tries again
            _LOG.exception("The certificates could not be checked")
