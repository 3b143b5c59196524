"""Rescan on an operator's word: every file of the folders, whatever became of its last job (PIPE-100, API-71)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from bulksigner.contract.errors import ProviderError
from bulksigner.contract.storage import Entry
from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.intake.offers import BATCH, Offer, OutcomeKind
from bulksigner.intake.stability import Stability

if TYPE_CHECKING:
    from bulksigner.profiles.model import OpenedProfile
    from bulksigner.settings.model import WatchedFolderSettings

__all__ = ["FolderReport", "RescanReport", "Rescanner"]

log = logging.getLogger(__name__)


@attrs.define
class FolderReport:
    """What a rescan of one folder came to (API-71)."""

    name: str
    path: str
    scanned: int = 0
    enqueued: int = 0
    already_active: int = 0
    ignored: int = 0
    errors: int = 0
    already_processed: int = 0
    unassigned: bool = False
    enqueued_files: list[str] = attrs.field(factory=list)

    def count(self, kind: OutcomeKind, name: str) -> None:
        """Count one file's outcome; a file that vanished meanwhile is no error and no work."""
        if kind is OutcomeKind.ENQUEUED:
            self.enqueued += 1
            self.enqueued_files.append(name)
        elif kind is OutcomeKind.ALREADY_ACTIVE:
            self.already_active += 1
        elif kind is OutcomeKind.ALREADY_PROCESSED:
            self.already_processed += 1
        elif kind in (OutcomeKind.ERROR, OutcomeKind.PATH_TOO_LONG, OutcomeKind.METADATA_INVALID):
            self.errors += 1
        else:
            self.ignored += 1


@attrs.frozen
class RescanReport:
    """What a rescan came to, folder by folder."""

    folders: tuple[FolderReport, ...]

    def total(self, field: str) -> int:
        """Add up one field of all folders; of `unassigned`, the folders that are."""
        return sum(getattr(report, field) for report in self.folders)


class Rescanner:
    """Enqueues what lies in the folders now; waits, at most the stability timeout, until files stand still."""

    def __init__(
        self,
        folders: OpenedFolders,
        service: EnqueueService,
        bound: Callable[[str], OpenedProfile | None],
        settings: WatchedFolderSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folders = folders
        self._service = service
        self._bound = bound
        self._settings = settings
        self._clock = clock
        self._sleep = sleep

    def rescan(self, folder: str | None) -> RescanReport:
        """Rescan one folder, or all; raises `NotFound` (`folder.not-found`) for a name that is not configured."""
        chosen = list(self._folders) if folder is None else [self._folders.get(folder)]
        scans = [_Scan(opened, self._new_stability(opened)) for opened in chosen]
        pending = [scan for scan in scans if self._is_open(scan)]
        # All folders are sampled side by side: the wait is that of one.
        while pending := [scan for scan in pending if self._sample(scan)]:
            self._sleep(self._interval_seconds)
        return RescanReport(tuple(scan.report for scan in scans))

    @property
    def _interval_seconds(self) -> float:
        return self._settings.stability_poll_interval_ms / 1000

    def _new_stability(self, opened: OpenedFolder) -> Stability:
        return Stability(
            self._settings.stability_required_samples,
            self._interval_seconds,
            self._settings.stability_timeout_seconds,
            opened.is_being_written,
        )

    def _is_open(self, scan: _Scan) -> bool:
        profile = self._bound(scan.opened.name)
        if profile is None:
            log.info("Input folder %s is bound to no profile; the rescan leaves it out", scan.opened.name)
            scan.report.unassigned = True
            return False
        if not profile.stored.enabled:
            log.info(
                "Input folder %s: the profile %s is disabled; the rescan leaves its files where they are",
                scan.opened.name,
                profile.stored.name,
            )
            entries = scan.listing()
            scan.report.scanned = scan.report.ignored = len(entries or ())
            return False
        fault = scan.opened.find_fault()
        if fault is not None:
            log.warning("Input folder %s: %s; the rescan leaves it out", scan.opened.name, fault)
            scan.report.errors += 1
            return False
        return True

    def _sample(self, scan: _Scan) -> bool:
        """Take one sample; tell whether files of the folder still have to stand still."""
        entries = scan.listing()
        if entries is None:
            return False
        candidates = scan.pending(entries)
        observed = scan.stability.observe(candidates, self._clock(), scan.opened.find_sidecars(entries))
        for entry in observed.timed_out:
            log.warning(
                "Input folder %s: %s did not stand still, or is still open for writing; the rescan leaves it",
                scan.opened.name,
                entry.name,
            )
            scan.report.errors += 1
            scan.done.add(entry.name)
        self._offer(scan, observed.stable)
        return len(scan.stability) > 0

    def _offer(self, scan: _Scan, stable: Sequence[Entry]) -> None:
        for first in range(0, len(stable), BATCH):
            batch = stable[first : first + BATCH]
            outcomes = self._service.offer([Offer(scan.opened, entry, is_rescan=True) for entry in batch])
            for entry, outcome in zip(batch, outcomes, strict=True):
                scan.report.count(outcome.kind, entry.name)
                scan.done.add(entry.name)


class _Scan:
    """One folder on its way: the files it had at the first listing, and which of them were answered for."""

    def __init__(self, opened: OpenedFolder, stability: Stability) -> None:
        self.opened = opened
        self.stability = stability
        self.report = FolderReport(opened.name, opened.folder.location)
        self.done: set[str] = set()
        self._wanted: set[str] | None = None

    def listing(self) -> list[Entry] | None:
        """List the folder; None, counted and logged, when that fails."""
        try:
            return list(self.opened.folder.entries())
        except ProviderError:
            log.exception("Input folder %s could not be listed for the rescan", self.opened.name)
            self.report.errors += 1
            return None

    def pending(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the files that need an answer: those of the first listing, so that a busy folder ends, too."""
        if self._wanted is None:
            self._wanted = {entry.name for entry in entries if self.opened.is_candidate_name(entry.name)}
            self.report.scanned = len(entries)
            self.report.ignored = len(entries) - len(self._wanted)
        return [entry for entry in entries if entry.name in self._wanted and entry.name not in self.done]
