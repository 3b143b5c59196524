"""The readiness rows of the core (API-81 to API-88, API-99)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from bulksigner.contract.certificate import KnowsFault
from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.observe import ReadinessCheck
from bulksigner.intake.folder_health import Waiting, WaitingFiles
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.intake.watcher import WatcherState, WatcherStatus
from bulksigner.intake.watchers import FolderWatchers
from bulksigner.jobs.model import utc_now
from bulksigner.observability.readiness import CallableCheck
from bulksigner.pipeline.worker import Worker
from bulksigner.plugin_system.registry import Registry
from bulksigner.plugin_system.report import PluginRow
from bulksigner.profiles.expiry import describe_end
from bulksigner.profiles.holds import Holds
from bulksigner.profiles.model import OpenedProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records.engines import Store
from bulksigner.records.errors import FileLost
from bulksigner.trust.validation import CertificateValidation

__all__ = ["binding_checks", "collect_checks", "profile_checks"]

Verdict = tuple[bool, str]
CLOCK_TOLERANCE_SECONDS = 2.0
"""Network file systems keep times to the second, some to two."""


def collect_checks(
    store: Store,
    engine_fault: str | None,
    folders: OpenedFolders,
    watchers: FolderWatchers,
    profiles: OpenedProfiles,
    worker: Worker,
    disks: Mapping[str, Callable[[], Verdict]],
    registry: Registry,
    validation: CertificateValidation | None = None,
    holds: Holds | None = None,
) -> Callable[[], list[ReadinessCheck]]:
    """Return what gives the checks of the moment, the core's first: profiles come, go and change by edits.

    `engine_fault` is the verdict of the self-test at boot.
    """
    known = {opened.name for opened in folders}
    before: list[ReadinessCheck] = [
        CallableCheck("database", True, lambda: _database(store)),
        CallableCheck("signing-engine", True, lambda: _engine(engine_fault)),
        CallableCheck("pipeline-worker", True, lambda: (worker.fault is None, worker.fault or "running")),
    ]
    before += [CallableCheck(f"input-folder:{opened.name}", True, _folder_look(opened, watchers)) for opened in folders]
    after: list[ReadinessCheck] = [CallableCheck(name, False, look) for name, look in disks.items()]  # API-100
    lost = [
        CallableCheck(f"plugin:{row.name}", row.stops_signing, partial(_lost_look, row))
        for row in registry.rows
        if row.is_lost
    ]

    def collect() -> list[ReadinessCheck]:
        now = profiles.all
        return [
            *before,
            *(check for profile in now for check in profile_checks(profile, validation, holds)),
            *after,
            *(check for profile in now for check in binding_checks(profile, known)),
            *lost,
            *registry.readiness_checks,
        ]

    return collect


def profile_checks(
    profile: OpenedProfile, validation: CertificateValidation | None = None, holds: Holds | None = None
) -> Iterator[ReadinessCheck]:
    """Yield the row of one profile: whether it can sign, or that it needs no key (API-86, API-87)."""
    if profile.keyless is not None:
        yield CallableCheck(f"signing-profile-keyless:{profile.name}", False, partial(_keyless_look, profile))
    else:
        look = partial(_profile_look, profile, validation, holds)
        yield CallableCheck(f"signing-profile:{profile.name}", False, look)


def binding_checks(profile: OpenedProfile, known: Collection[str]) -> Iterator[ReadinessCheck]:
    """Yield a red row for a profile bound to a folder that this host does not configure (API-88)."""
    folder = profile.stored.input_folder
    if folder is not None and folder not in known:
        verdict = (False, f"bound to the input folder '{folder}', which this host does not configure")
        yield CallableCheck(f"profile-input-folder:{profile.name}", False, lambda: verdict)


def _database(store: Store) -> Verdict:
    try:
        store.probe()
    except FileLost as lost:
        return False, lost.message
    except BulkSignerError as error:
        return False, f"unreachable ({store.label}, {type(error).__name__})"
    return True, f"reachable ({store.label})"


def _engine(fault: str | None) -> Verdict:
    return fault is None, "signs and checks" if fault is None else f"the self-test failed: {fault}"


def _folder_look(opened: OpenedFolder, watchers: FolderWatchers) -> Callable[[], Verdict]:
    files = WaitingFiles(opened.folder.entries, opened.is_candidate_name)

    def look() -> Verdict:
        status = next(status for status in watchers.statuses() if status.folder == opened.name)
        if status.state is WatcherState.UNASSIGNED:
            return True, "no profile chose this folder; nothing watches it"
        if status.state is WatcherState.STOPPED:
            return False, f"stopped after repeated failures: {status.last_error}; restart the service"
        try:
            next(iter(opened.folder.entries()), None)
            waiting = files.count()
        except BulkSignerError as error:
            return False, error.message
        fault = opened.find_fault()
        if fault is not None:
            return False, fault
        return True, "; ".join(_health(opened, status, waiting))

    return look


def _health(opened: OpenedFolder, status: WatcherStatus, waiting: Waiting) -> Iterator[str]:
    """Tell how a folder fares (BEY-40)."""
    yield f"{status.state.value}: {Path(opened.folder.location)}"
    yield f"listed, as it reports no changes: {status.watch_fault}" if status.watch_fault else opened.watched_by
    yield f"last scan {status.last_scan_at:%Y-%m-%dT%H:%M:%SZ}" if status.last_scan_at else "not scanned yet"
    oldest = f", the oldest since {waiting.oldest_at:%Y-%m-%dT%H:%M:%SZ}" if waiting.oldest_at else ""
    yield f"{waiting.count} file(s) waiting{oldest}"
    ahead_seconds = None if opened.guard is None else opened.guard.clock_difference_seconds
    if ahead_seconds is not None and abs(ahead_seconds) >= CLOCK_TOLERANCE_SECONDS:
        yield f"its clock is {ahead_seconds:+.0f} s off ours"


def _lost_look(row: PluginRow) -> Verdict:
    return False, row.advice


def _profile_look(
    profile: OpenedProfile, validation: CertificateValidation | None, holds: Holds | None = None
) -> Verdict:
    hold = None if holds is None else holds.find(profile.name)
    if hold is not None:
        return False, hold.describe()
    fault = profile.find_fault(utc_now()) or profile.pending
    key = profile.key
    if fault is None and key is not None and isinstance(key, KnowsFault):
        fault = key.fault
    if fault is None and validation is not None and profile.key is not None and profile.stored.validate_certificate:
        refusal = validation.find_refusal(profile.key, require_non_repudiation=profile.stored.require_non_repudiation)
        fault = None if refusal is None else f"refused before signing: {refusal}"
    end = describe_end(profile.certificate_not_after, utc_now())
    return fault is None, fault or f"ready ({profile.locator}){f'; {end}' if end else ''}"


def _keyless_look(profile: OpenedProfile) -> Verdict:
    return True, f"needs no key: {profile.keyless}"
