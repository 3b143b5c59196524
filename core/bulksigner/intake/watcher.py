"""One watcher for each input folder: events are hints, the scan decides (PIPE-40 to PIPE-47)."""

from __future__ import annotations

import datetime
import enum
import errno
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from bulksigner.contract.errors import ProviderError
from bulksigner.contract.storage import Entry
from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolder
from bulksigner.intake.notices import Notices
from bulksigner.intake.offers import BATCH, Offer, Outcome, OutcomeKind
from bulksigner.intake.settled import Settled
from bulksigner.intake.stability import Stability
from bulksigner.jobs.model import utc_now

if TYPE_CHECKING:
    from bulksigner.profiles.model import OpenedProfile
    from bulksigner.settings.model import WatchedFolderSettings

__all__ = ["FolderWatcher", "WatcherState", "WatcherStatus"]

_UNBOUND_LOOK_SECONDS = 2.0
_BROKEN_LOOK_SECONDS = 1.0
_RECHECK_SECONDS = 30.0
_LONGEST_BACKOFF_SECONDS = 30.0
_NO_EVENTS_SECONDS = 30.0
_GATHER_SECONDS = 0.05
_GATHERS_PER_INTERVAL = 10
_PAUSE_PER_LOOK = 25
"""Events wait that many times as long as a look took, so that looking at a full folder leaves time for its files."""

log = logging.getLogger(__name__)


class WatcherState(enum.Enum):
    """What a watcher does (PIPE-46)."""

    INITIALIZING = "Initializing"
    RUNNING = "Running"
    UNASSIGNED = "Unassigned"
    STOPPED = "Stopped"


@attrs.frozen
class WatcherStatus:
    """One watcher as the interface shows it; `candidate_count` is of files that are not stable yet.

    A scan is a look that listed the folder; `enqueued_count` counts from the start of the service. `watch_fault` says
    why a folder that should report changes does not.
    """

    folder: str
    state: WatcherState
    last_error: str
    consecutive_errors: int
    candidate_count: int
    last_scan_at: datetime.datetime | None
    last_enqueue_at: datetime.datetime | None
    enqueued_count: int
    watch_fault: str


class FolderWatcher:
    """Looks at one folder and offers what became stable, all of one look as one batch.

    Files that were answered for are remembered with the look of them, so that they cost neither a query nor a second
    offer while nothing about them changes.
    """

    def __init__(
        self,
        opened: OpenedFolder,
        service: EnqueueService,
        bound: Callable[[str], OpenedProfile | None],
        settings: WatchedFolderSettings,
        notices: Notices,
        *,
        clock: Callable[[], float] = time.monotonic,
        scrub: Callable[[str], str] = str,
    ) -> None:
        self._opened = opened
        self._service = service
        self._bound = bound
        self._notices = notices
        self._clock = clock
        self._scrub = scrub
        self._interval_seconds = settings.stability_poll_interval_ms / 1000
        self._stability = Stability(
            settings.stability_required_samples,
            self._interval_seconds,
            settings.stability_timeout_seconds,
            opened.is_being_written,
        )
        self._gather_seconds = min(_GATHER_SECONDS, self._interval_seconds / _GATHERS_PER_INTERVAL)
        self._pause_seconds = self._interval_seconds
        self._timeout_seconds = settings.stability_timeout_seconds
        self._most_failures = settings.max_consecutive_failures
        self._fallback_poll_seconds = settings.poll_interval_seconds or _NO_EVENTS_SECONDS
        self._settled = Settled()
        self._state = WatcherState.INITIALIZING
        self._last_error = ""
        self._errors = 0
        self._last_scan_at: datetime.datetime | None = None
        self._last_enqueue_at: datetime.datetime | None = None
        self._enqueued_count = 0
        self._told = ""
        self._watch_fault = ""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def folder(self) -> str:
        """Return the name of the watched folder."""
        return self._opened.name

    @property
    def status(self) -> WatcherStatus:
        """Return the watcher as it stands."""
        return WatcherStatus(
            self.folder,
            self._state,
            self._scrub(self._last_error),
            self._errors,
            len(self._stability),
            self._last_scan_at,
            self._last_enqueue_at,
            self._enqueued_count,
            self._watch_fault,
        )

    def start(self) -> None:
        """Begin to watch in a thread of its own, with a full listing first."""
        self._thread = threading.Thread(target=self._run, name=f"watch-{self.folder}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching and wait for the look that is going on."""
        self._stopping.set()
        self._notices.ring()
        if self._thread is not None:
            self._thread.join()
        self._notices.close()

    def look_again(self) -> None:
        """Look as soon as possible, whatever the folder reports."""
        self._notices.ring()

    def offer_again(self, name: str) -> None:
        """Make a file a candidate whatever was answered for it before (PIPE-94)."""
        self._settled.forget(name)
        self._notices.ring()

    def job_ended(self, name: str) -> None:
        """Note that the job of a file ended: what has the name now, if anything, may be a new arrival (PIPE-44)."""
        if self._settled.forget(name):
            self._notices.ring()

    def step(self) -> float | None:
        """Look once; return in how many seconds to look again, None when only a notice can make that necessary."""
        self._pause_seconds = self._interval_seconds
        profile = self._bound(self.folder)
        if profile is None or not profile.stored.enabled:
            self._rest(profile)
            return _UNBOUND_LOOK_SECONDS
        self._told = ""
        # The watch comes before the listing: what arrives in between is then noticed, not missed.
        self._watch()
        began = self._clock()
        fault = self._opened.find_fault()
        if fault is not None:
            self._looking_failed(fault)
            return _UNBOUND_LOOK_SECONDS
        try:
            entries = list(self._opened.folder.entries())
        except ProviderError as error:
            self._looking_failed(error.message)
            return _BROKEN_LOOK_SECONDS
        self._state = WatcherState.RUNNING
        self._last_scan_at = utc_now()
        if not self._errors:
            self._last_error = ""
        now = self._clock()
        fresh = self._settled.sift(entries, now, self._opened.is_candidate_name)
        observed = self._stability.observe(fresh, now, self._opened.find_sidecars(entries) if fresh else {})
        self._pause_seconds = self._pause_after(self._clock() - began)
        for entry in observed.timed_out:
            log.warning(
                "Input folder %s: %s did not stand still for %d seconds, or is still open for writing; it is looked at "
                "again when it changes, or in another %d seconds",
                self.folder,
                entry.name,
                self._timeout_seconds,
                self._timeout_seconds,
            )
            self._settled.keep(entry, until=now + self._timeout_seconds)
        if observed.stable:
            self._offer(observed.stable, now)
        return self._next_look_seconds()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                delay_seconds = self.step()
            # A provider of a plugin may raise anything; one bad look must not end the watch of this folder.
            except Exception as error:
                log.exception("Input folder %s could not be looked at", self.folder)
                self._last_error = f"{type(error).__name__}: {error}"
                delay_seconds = _BROKEN_LOOK_SECONDS
            if self._state is WatcherState.STOPPED:
                return
            looked_at = self._clock()
            # A file that is due does not wait for the pause of events.
            due_seconds = self._interval_seconds if delay_seconds is None else max(self._gather_seconds, delay_seconds)
            self._notices.wait(delay_seconds)
            self._stopping.wait(max(0.0, looked_at + min(self._pause_seconds, due_seconds) - self._clock()))
            # One look answers for every event of the pause.
            self._notices.wait(0)

    def _watch(self) -> None:
        if not self._opened.has_events or self._notices.is_watching:
            return
        try:
            self._notices.open()
            self._watch_fault = ""
        except OSError as error:
            # A folder that is not there is the listing's to report.
            if not self._watch_fault and error.errno != errno.ENOENT:
                log.warning("Input folder %s reports no changes: %s; it is listed instead", self.folder, error.strerror)
            self._watch_fault = str(error.strerror or error)

    def _looking_failed(self, message: str) -> None:
        if self._last_error != message:
            log.warning("Input folder %s: %s", self.folder, message)
        self._last_error = message

    def _rest(self, profile: OpenedProfile | None) -> None:
        if profile is None:
            self._state = WatcherState.UNASSIGNED
            line = "is bound to no profile; its files wait untouched"
        else:
            self._state = WatcherState.RUNNING
            line = f"belongs to the disabled profile {profile.stored.name}; its files wait"
        if self._told != line:
            log.warning("Input folder %s %s", self.folder, line)
        self._told = line

    def _offer(self, stable: Sequence[Entry], now: float) -> None:
        for first in range(0, len(stable), BATCH):
            batch = stable[first : first + BATCH]
            with self._settled.answering(batch):
                outcomes = self._service.offer([Offer(self._opened, entry) for entry in batch])
                if self._count(outcomes):
                    for entry in stable[first:]:
                        self._settled.keep(entry, until=now + self._backoff_seconds())
                    return
                for entry, outcome in zip(batch, outcomes, strict=True):
                    self._settled.keep(entry, until=self._answer_ends_at(outcome.kind, now))

    def _answer_ends_at(self, kind: OutcomeKind, now: float) -> float | None:
        if kind in (OutcomeKind.ENQUEUED, OutcomeKind.IGNORED, OutcomeKind.PATH_TOO_LONG):
            return None
        if kind in (OutcomeKind.ALREADY_ACTIVE, OutcomeKind.ERROR):
            # `job_ended` is the news; the clock is there for a job that ended without it. An error is of the file.
            return now + _RECHECK_SECONDS
        return now + self._interval_seconds

    def _backoff_seconds(self) -> float:
        return min(_LONGEST_BACKOFF_SECONDS, self._interval_seconds * (1 << self._errors))

    def _count(self, outcomes: Sequence[Outcome]) -> bool:
        """Keep count of failures in a row (PIPE-47); tell whether this batch failed."""
        kinds = {outcome.kind for outcome in outcomes}
        if enqueued := sum(outcome.kind is OutcomeKind.ENQUEUED for outcome in outcomes):
            self._enqueued_count += enqueued
            self._last_enqueue_at = utc_now()
        if kinds & {OutcomeKind.ENQUEUED, OutcomeKind.ALREADY_ACTIVE}:
            self._errors = 0
        failed = [outcome for outcome in outcomes if outcome.kind is OutcomeKind.ERROR]
        if failed:
            self._last_error = failed[0].reason
        if all(outcome.is_of_file for outcome in failed):
            return False
        # A batch is one attempt: a database that is away for a moment during a large drop is one error, not hundreds.
        # A full disk makes the watch slower, and never ends it: with space again it goes on by itself (BEY-22).
        is_passing = all(outcome.passes for outcome in failed if not outcome.is_of_file)
        self._errors = min(self._errors + 1, self._most_failures - is_passing)
        if self._errors >= self._most_failures:
            self._state = WatcherState.STOPPED
            log.error(
                "Input folder %s is not watched any more after %d failures in a row: %s. Mend the cause and restart.",
                self.folder,
                self._errors,
                self._last_error,
            )
        return True

    def _pause_after(self, look_seconds: float) -> float:
        return min(self._interval_seconds, max(self._gather_seconds, look_seconds * _PAUSE_PER_LOOK))

    def _next_look_seconds(self) -> float | None:
        now = self._clock()
        delays = [max(0.0, at - now) for at in (self._stability.next_at, self._settled.next_at) if at is not None]
        if self._opened.poll_interval_seconds is not None:
            delays.append(self._opened.poll_interval_seconds)
        elif not (self._opened.has_events and self._notices.is_watching and self._notices.is_complete):
            delays.append(self._fallback_poll_seconds)
        return min(delays, default=None)
