"""Holds the jobs of a profile back while something keeps every file of it from being signed (BEY-20)."""

from __future__ import annotations

import datetime
import enum
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping

import attrs

from bulksigner.contract.certificate import CanBeTried
from bulksigner.contract.errors import BulkSignerError, PermanentFailure
from bulksigner.jobs.queue import Queue
from bulksigner.observability.logs import facts
from bulksigner.profiles.model import OpenedProfile, StoredProfile
from bulksigner.profiles.opened import OpenedProfiles, ProfileOpener
from bulksigner.records.events import Event, write_event
from bulksigner.records.notes import StoredNotes

__all__ = ["NOTES_OF", "Cause", "Hold", "Holds", "Probe", "end_holds", "try_key"]

_LOG = logging.getLogger("bulksigner.profiles")
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 300.0
_SOON_SECONDS = 30.0
"""A profile that is held again so soon after its release is probed less often, not from the beginning."""
NOTES_OF = "core"
"""Under whose name the notes are kept, beside those of plugins."""


class Cause(enum.Enum):
    """Where the trouble lies, which says how to see that it is over; the value is stored."""

    PROFILE = "profile"
    """Degraded, or its certificate or policies are not valid now."""
    KEY = "key"
    CERTIFICATE = "certificate"
    TIMESTAMPS = "time-stamps"
    SPACE = "space"


Probe = Callable[[OpenedProfile], str | None]
"""Says why a cause is still there, or None; may wait, and may raise `BulkSignerError` with the reason."""


@attrs.define
class Hold:
    """One profile that is held."""

    cause: Cause
    reason: str
    since: datetime.datetime
    names: set[str]
    """The profile's name, in each spelling that its jobs have."""
    row: StoredProfile | None
    pause_seconds: float
    probe_at: float
    note: str | None = None
    """The note as it is stored; None until then."""

    def describe(self) -> str:
        """Say that and why, for people."""
        return f"held since {self.since:%Y-%m-%dT%H:%M:%SZ}, its jobs wait: {self.reason}"


class Holds:
    """The profiles that are held. `hold` takes effect at once; `step` tells of it, probes and releases.

    What is held is noted in the database: a restart neither uses the key to find it out again nor tells it twice.
    """

    def __init__(
        self,
        profiles: OpenedProfiles,
        queue: Queue,
        notes: StoredNotes,
        probes: Mapping[Cause, Probe],
        reopen: Callable[[str], OpenedProfile | None],
        scrub: Callable[[str], str] = str,
    ) -> None:
        """Take the parts; `reopen` tries a degraded profile once more and answers it as it is then."""
        self._profiles = profiles
        self._queue = queue
        self._notes = notes
        self._probes = probes
        self._reopen = reopen
        self._scrub = scrub
        self._guard = threading.Lock()
        self._held: dict[str, Hold] = {}
        self._released: dict[str, tuple[float, float]] = {}
        self._to_remove: dict[str, tuple[OpenedProfile, Hold]] = {}

    def find(self, name: str) -> Hold | None:
        """Return the hold on a profile, or None."""
        return self._held.get(name.casefold())

    def begin(self) -> None:
        """Take up what was held in the life before, and hold what cannot sign now. Raises `StoreFailed`."""
        for profile in self._profiles.all:
            note = self._notes.read(_name_of(profile))
            if note is not None:
                self._take_up(profile, note)
        self._hold_faulty()

    def hold(self, profile: OpenedProfile, cause: Cause, reason: str, *, spelled: str | None = None) -> None:
        """Hold a profile from now on; one that is held stays so. `spelled` is its name as a job has it."""
        key = profile.name.casefold()
        with self._guard:
            known = self._held.get(key)
            names = {profile.name, spelled or profile.name}
            if known is not None:
                if names <= known.names:
                    return
                known.names |= names
            else:
                pause = self._next_pause(key)
                self._held[key] = Hold(
                    cause,
                    self._scrub(reason),
                    self._notes.clock(),
                    names,
                    profile.row,
                    pause,
                    time.monotonic() + pause,
                )
            self._tell_queue()

    def probe_soon(self) -> None:
        """Have what is held probed at the next step, however long the pauses are by now."""
        for hold in list(self._held.values()):
            hold.probe_at = 0.0

    def step(self) -> None:
        """Note and tell what is new, probe what is due, release what can sign again. Raises `StoreFailed`."""
        self._hold_faulty()
        for key, hold in list(self._held.items()):
            profile = self._profiles.get(key)
            if profile is None:
                self._let_go(key)
                continue
            if hold.note is None:
                self._tell_held(profile, hold)
            if time.monotonic() >= hold.probe_at or profile.row != hold.row:
                self._probe(profile, hold)
        for key, (profile, hold) in list(self._to_remove.items()):
            self._tell_released(profile, hold)
            del self._to_remove[key]

    def _hold_faulty(self) -> None:
        now = self._notes.clock()
        for profile in self._profiles.all:
            if self.find(profile.name) is None and (fault := profile.find_fault(now)) is not None:
                self.hold(profile, Cause.PROFILE, fault)

    def _take_up(self, profile: OpenedProfile, note: str) -> None:
        told = json.loads(note)
        since = datetime.datetime.fromisoformat(told["since"])
        with self._guard:
            # Due at once: whatever was wrong may have been mended while the service was down.
            self._held[profile.name.casefold()] = Hold(
                Cause(told["cause"]),
                told["reason"],
                since,
                {profile.name, *told["names"]},
                profile.row,
                FIRST_PAUSE_SECONDS,
                0.0,
                note,
            )
            self._tell_queue()

    def _next_pause(self, key: str) -> float:
        pause, released_at = self._released.get(key, (0.0, 0.0))
        if pause and time.monotonic() - released_at < pause + _SOON_SECONDS:
            return min(2 * pause, LONGEST_PAUSE_SECONDS)
        return FIRST_PAUSE_SECONDS

    def _probe(self, profile: OpenedProfile, hold: Hold) -> None:
        hold.row = profile.row
        reason = self._find_reason(profile, hold.cause)
        if reason is None:
            key = profile.name.casefold()
            self._released[key] = (hold.pause_seconds, time.monotonic())
            self._let_go(key)
            if hold.note is not None:
                self._to_remove[key] = (profile, hold)
            return
        hold.reason = self._scrub(reason)
        hold.pause_seconds = min(2 * hold.pause_seconds, LONGEST_PAUSE_SECONDS)
        hold.probe_at = time.monotonic() + hold.pause_seconds

    def _find_reason(self, profile: OpenedProfile, cause: Cause) -> str | None:
        if profile.degraded is not None:
            profile = self._reopen(profile.name) or profile
        fault = profile.find_fault(self._notes.clock())
        probe = self._probes.get(cause)
        if fault is not None or probe is None:
            return fault
        try:
            return probe(profile)
        except BulkSignerError as error:
            return error.message
        except Exception as error:  # noqa: BLE001 - a driver may raise anything; it is probed again
            return f"the probe failed: {type(error).__name__}: {error}"

    def _let_go(self, key: str) -> None:
        with self._guard:
            self._held.pop(key, None)
            self._tell_queue()

    def _tell_queue(self) -> None:
        self._queue.hold({name for hold in self._held.values() for name in hold.names})

    def _tell_held(self, profile: OpenedProfile, hold: Hold) -> None:
        note = json.dumps(
            {
                "cause": hold.cause.value,
                "reason": hold.reason,
                "since": hold.since.isoformat(),
                "names": sorted(hold.names),
            }
        )
        text = f"Signing profile '{profile.name}' is held: {hold.reason}"
        event = Event("ProfileHeld", text, {"profile": profile.name, "cause": hold.cause.value, "reason": hold.reason})
        if _swap(self._notes, profile, None, note, event):
            _LOG.error("%s", text, extra=facts(profile=profile.name, cause=hold.cause.value))
        hold.note = note

    def _tell_released(self, profile: OpenedProfile, hold: Hold) -> None:
        if hold.note is not None:
            _tell_released(self._notes, profile, hold.note)


def end_holds(profiles: OpenedProfiles, notes: StoredNotes) -> None:
    """Release what an earlier life held, in one that holds nothing (CFG-202); raises `StoreFailed`.

    A hold of later would else be taken for the same, and be told of to nobody.
    """
    for profile in profiles.all:
        note = notes.read(_name_of(profile))
        if note is not None:
            _tell_released(notes, profile, note)


def _tell_released(notes: StoredNotes, profile: OpenedProfile, note: str) -> None:
    told = json.loads(note)
    since = datetime.datetime.fromisoformat(told["since"])
    held_seconds = max(0, round((notes.clock() - since).total_seconds()))
    text = f"Signing profile '{profile.name}' is not held any more, after {held_seconds} s."
    details = {"profile": profile.name, "cause": told["cause"], "heldSeconds": held_seconds}
    if _swap(notes, profile, note, None, Event("ProfileReleased", text, details)):
        _LOG.warning("%s", text, extra=facts(profile=profile.name, cause=told["cause"]))


def _swap(notes: StoredNotes, profile: OpenedProfile, before: str | None, after: str | None, event: Event) -> bool:
    return notes.swap(_name_of(profile), before, after, also=lambda: write_event(notes.store, event, notes.clock()))


def _name_of(profile: OpenedProfile) -> str:
    return f"held:{profile.stored.id}"


def try_key(opener: ProfileOpener, profile: OpenedProfile) -> None:
    """See that the key of an open profile can be used, without using it for a file; raises `ProviderError` if not."""
    key = profile.key
    if key is None:
        raise PermanentFailure("no key is open.")
    if isinstance(key, CanBeTried):
        key.try_again()
        return
    again = opener.open_or_raise(profile.stored)
    if again.key is not None:
        again.key.close()
