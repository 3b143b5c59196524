"""Parts of a service that its settings choose: where signing runs, backups, retention, logs, the key of envelopes."""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Iterable, Sequence

import attrs

from bulksigner.backup.desk import BackupDesk, BackupPlan
from bulksigner.boot import Foundation, plan_stamping, product_version
from bulksigner.contract.signing import Format
from bulksigner.encryption.key import EnvelopeKey, read_salt
from bulksigner.files.volumes import Volume
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import OpenedFolders
from bulksigner.jobs.envelopes import warn_of_key
from bulksigner.jobs.model import Job, utc_now
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.receipts import Receipts
from bulksigner.observability import logs
from bulksigner.observability.log_files import LogFiles
from bulksigner.observability.metrics import Metrics
from bulksigner.pipeline.engine import Engine, InProcessEngine
from bulksigner.pipeline.engine_pool import ProcessEngine
from bulksigner.pipeline.engine_worker import WorkerBoot
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.pipeline.receipts import ReceiptBook
from bulksigner.profiles.holds import NOTES_OF, Cause, Holds, end_holds, try_key
from bulksigner.profiles.model import OpenedProfile
from bulksigner.profiles.opened import OpenedProfiles, ProfileOpener
from bulksigner.records.notes import StoredNotes
from bulksigner.records.sqlite import SqliteStore
from bulksigner.records.store import Store
from bulksigner.retention.desk import RetentionDesk
from bulksigner.retention.policy import Policy
from bulksigner.retention.run import Retention
from bulksigner.settings.backups import BackupSettings
from bulksigner.settings.encryption import EncryptionSettings
from bulksigner.settings.log_files import LogFileSettings
from bulksigner.settings.retention import RetentionSettings
from bulksigner.settings.signing import EngineChoice
from bulksigner.statistics.timings import Spans, write_timings
from bulksigner.trust.validation import CertificateValidation

__all__ = [
    "choose_sinks",
    "derive_envelope_key",
    "formats_of",
    "log_thresholds",
    "plan_backups",
    "plan_holds",
    "plan_receipts",
    "plan_retention",
    "start_engine",
    "tell_settings",
    "time_jobs",
]

log = logging.getLogger(__name__)

_PROBE = b"bulksigner asks whether time stamps can be had"
_LEAST_FREE_BYTES = 4 << 20
"""What a volume that was full must have free before work on it goes on, whatever the settings ask for."""


def derive_envelope_key(given: EncryptionSettings, store: Store) -> EnvelopeKey | None:
    """Derive the key of the envelopes, the one time in this life (ENC-06); None where encryption is off."""
    if not given.enabled:
        return None
    log.info("Deriving the key of encrypted outputs, %d iterations", given.iterations)
    key = EnvelopeKey.derive(given.password.reveal(), read_salt(given.salt), given.iterations)
    warn_of_key(store, key.check_value())
    return key


def time_jobs(store: Store) -> Callable[[Job, Spans], None]:
    """Return what records how long the steps of a completed job took (STA-11)."""

    def record(job: Job, spans: Spans) -> None:
        write_timings(store, job, spans, job.completed_at or job.updated_at)

    return record


def plan_backups(
    given: BackupSettings, store: Store, scrub: Callable[[str], str], metrics: Metrics
) -> BackupDesk | None:
    """Return the desk of backups, None where there are none (STA-82)."""
    if not given.enabled or given.disk.path is None or not isinstance(store, SqliteStore):
        return None
    interval = None if given.interval_hours is None else datetime.timedelta(hours=given.interval_hours)
    plan = BackupPlan(given.disk.path, interval, given.retain_count)
    return BackupDesk(store, plan, product_version=product_version(), scrub=scrub, metrics=metrics)


def plan_receipts(
    is_on: bool, store: Store, engine: Engine, profiles: OpenedProfiles, roots: WorkRoots
) -> ReceiptBook | None:
    """Return what writes receipts; None where they are off and no earlier life owes one (CFG-199)."""
    receipts = Receipts(store)
    if not is_on and not receipts.open_after(None):
        return None
    return ReceiptBook(receipts, engine, profiles, roots, product_version=product_version())


def plan_retention(
    given: RetentionSettings, store: Store, roots: WorkRoots, folders: OpenedFolders, pause: PauseFlag, metrics: Metrics
) -> RetentionDesk | None:
    """Return the desk of retention, None without a policy (STA-104)."""
    policy = Policy.of(given)
    if policy is None:
        return None
    return RetentionDesk(Retention(store, roots, folders, policy, lambda: pause.read().is_paused, metrics=metrics))


def plan_holds(
    foundation: Foundation,
    store: Store,
    queue: Queue,
    profiles: OpenedProfiles,
    opener: ProfileOpener,
    validation: CertificateValidation,
    volumes: Sequence[Volume],
    *,
    reopen: Callable[[str], OpenedProfile | None],
) -> Holds | None:
    """Return what holds profiles, with those that are held now; None where jobs fail instead (CFG-202)."""
    core = foundation.settings.core
    notes = StoredNotes(store, utc_now, NOTES_OF)
    if not core.pipeline.hold_on_key_trouble:
        end_holds(profiles, notes)
        return None
    stamping = plan_stamping(foundation)
    stamps = None if stamping is None else stamping.open(utc_now).stamps
    least_free_bytes = max(core.storage.minimum_free_bytes, _LEAST_FREE_BYTES)

    def judge(profile: OpenedProfile) -> str | None:
        if profile.key is None or not profile.stored.validate_certificate:
            return None
        return validation.judge(profile.key, require_non_repudiation=profile.stored.require_non_repudiation).refused

    def ask_for_stamp(_: OpenedProfile) -> str | None:
        if stamps is not None:
            stamps.stamp(_PROBE)
        return None

    def find_full(_: OpenedProfile) -> str | None:
        full = [volume for volume in volumes if volume.free_bytes() < least_free_bytes]
        return f"{full[0].folder} has less than {least_free_bytes >> 20} MiB free. Free space there" if full else None

    probes = {
        Cause.KEY: lambda profile: try_key(opener, profile),
        Cause.CERTIFICATE: judge,
        Cause.TIMESTAMPS: ask_for_stamp,
        Cause.SPACE: find_full,
    }
    holds = Holds(profiles, queue, notes, probes, reopen, foundation.scrubber.scrub)
    holds.begin()
    return holds


def tell_settings(foundation: Foundation) -> None:
    """Log what reading the settings and the plugins has to tell."""
    settings = foundation.settings
    for line in (*settings.warnings, *foundation.plugins.warnings):
        log.warning("%s", line)
    for line in settings.notices:
        log.info("%s", line)
    log.info("Settings read", extra=logs.facts(files=[str(path) for path in settings.files_read]))


def log_thresholds(foundation: Foundation) -> dict[str, int]:
    """Return the levels of single loggers (CFG-139)."""
    return {name: level.threshold for name, level in foundation.settings.core.logging.levels.items()}


def choose_sinks(given: LogFileSettings) -> logs.Sinks:
    """Return where log lines go (CFG-140 to CFG-146)."""
    files = LogFiles(given.path, given.rolling_interval, given.file_size_limit_bytes, given.retained_file_count_limit)
    return logs.Sinks(given.write_to_console, files if given.enabled else None, given.minimum_level.threshold)


def start_engine(
    foundation: Foundation, formats: tuple[Format, ...], sinks: logs.Sinks, envelope_key: EnvelopeKey | None
) -> Engine:
    """Choose where signing runs (CFG-205)."""
    settings, core = foundation.settings, foundation.settings.core
    stamping = plan_stamping(foundation)
    here = InProcessEngine(
        foundation.registry,
        formats,
        threads=core.pipeline.max_concurrency,
        envelope_key=envelope_key,
        stamping=None if stamping is None else stamping.open(utc_now),
    )
    workers = min(core.signing.engine_workers or os.cpu_count() or 1, core.pipeline.max_concurrency)
    choice = core.signing.engine
    if choice is EngineChoice.IN_PROCESS or (choice is EngineChoice.AUTO and workers == 1):
        return here
    boot = WorkerBoot(
        foundation.registry.signing_plugins,
        settings.plugins,
        formats,
        tuple(settings.secrets),
        core.logging.level.threshold,
        log_thresholds(foundation),
        # One process tidies up for all.
        attrs.evolve(sinks, files=sinks.files and attrs.evolve(sinks.files, prunes=False)),
        envelope_key,
        stamping,
    )
    return ProcessEngine(boot, workers, here)


def formats_of(profiles: Iterable[OpenedProfile]) -> tuple[Format, ...]:
    """Return the formats that jobs may ask for; a profile without one takes any."""
    chosen = {profile.stored.format for profile in profiles}
    return tuple(known for known in Format if None in chosen or known in chosen)
