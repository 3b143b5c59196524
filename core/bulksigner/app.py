"""The composition root: settings in, running service out; the only place that wires parts (CLU-01)."""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import attrs

from bulksigner.backup.before_migration import copy_before_migration
from bulksigner.backup.desk import BackupDesk, BackupPlan
from bulksigner.boot import Foundation, new_owner, open_store, product_version
from bulksigner.contract.errors import BulkSignerError, ConfigurationRefused, PermanentFailure
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.contract.storage import Folder
from bulksigner.encryption.key import EnvelopeKey, read_salt
from bulksigner.files.lock import hold_folder_lock
from bulksigner.files.volumes import distinct_volumes
from bulksigner.files.work import WorkRoots
from bulksigner.health import collect_checks
from bulksigner.intake.admission import Admission
from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolders, open_folders
from bulksigner.intake.rescan import Rescanner
from bulksigner.intake.sidecar import consume, consume_interrupted
from bulksigner.intake.taken_names import TakenNames
from bulksigner.intake.turned_away import TurnedAway
from bulksigner.intake.upload import UploadDoor
from bulksigner.intake.watchers import FolderWatchers
from bulksigner.jobs.envelopes import count_envelope, warn_of_key
from bulksigner.jobs.model import Changed, Job, utc_now
from bulksigner.jobs.names import Names
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import TERMINAL
from bulksigner.jobs.store import Jobs
from bulksigner.life import Service
from bulksigner.observability import logs
from bulksigner.observability.log_files import LogFiles, prepare_log_files
from bulksigner.observability.readiness import Readiness
from bulksigner.observability.redaction import Scrubber
from bulksigner.operations.service import assemble
from bulksigner.pipeline.engine import Engine, InProcessEngine
from bulksigner.pipeline.engine_pool import ProcessEngine
from bulksigner.pipeline.engine_worker import WorkerBoot
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.pipeline.room import ROOM_PER_ENCRYPTED_FILE, ROOM_PER_FILE, Room
from bulksigner.pipeline.work import Parts
from bulksigner.pipeline.worker import Worker
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.live import ProfileWatch
from bulksigner.profiles.model import OpenedProfile
from bulksigner.profiles.opened import ProfileOpener, open_profiles
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.seed import seed_profiles
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.migrate import migrate
from bulksigner.records.service_lock import hold_database
from bulksigner.records.sqlite import SqliteStore
from bulksigner.records.store import Store
from bulksigner.recovery.sweep import sweep
from bulksigner.retention.desk import RetentionDesk
from bulksigner.retention.policy import Policy
from bulksigner.retention.run import Retention
from bulksigner.settings.backups import BackupSettings
from bulksigner.settings.encryption import EncryptionSettings
from bulksigner.settings.load import check_seed_choices
from bulksigner.settings.log_files import LogFileSettings
from bulksigner.settings.model import EngineChoice
from bulksigner.settings.retention import RetentionSettings
from bulksigner.statistics.figures import Panel
from bulksigner.statistics.timings import Spans, reset_statistics, write_timings

__all__ = ["build"]

log = logging.getLogger(__name__)


@attrs.define
class Announcer:
    """What follows the commit of a job's change: plugins hear of it, and the folder's watcher when a job ended."""

    notify: Callable[[str, object], None]
    watchers: FolderWatchers | None = None

    def __call__(self, changed: Changed) -> None:
        self.notify("bulksigner_job_changed", changed.change)
        if changed.job.status in TERMINAL and self.watchers is not None:
            self.watchers.job_ended(changed.job.original_path)


@attrs.frozen
class _Inputs:
    """The input folders as the pipeline sees them."""

    folders: OpenedFolders
    watchers: FolderWatchers

    def locate(self, original_path: str) -> tuple[Folder, str]:
        found = self.folders.resolve(original_path)
        if found is None:
            raise PermanentFailure(f"No input folder of this host holds {original_path}; look at Storage:Inputs.")
        return found[0].folder, found[1]

    def consume_sidecar(self, job: Job) -> None:
        folder, name = self.locate(job.original_path)
        consume(folder, name, job.sidecar_sha256)

    def offer_again(self, job: Job) -> None:
        self.watchers.offer_again(job.original_path)


def build(foundation: Foundation, *, copies_before_migration: bool = True) -> Service:
    """Open, migrate, recover and wire everything (CLU-01 steps 2 to 10); whatever fails closes what was opened.

    Without `copies_before_migration` a SQLite database is not copied before its schema changes (STA-91).
    """
    with ExitStack() as undo:
        try:
            service = _assemble(foundation, undo, copies_before_migration)
        except BulkSignerError as error:
            # Into the log file as well, where an operator looks when the terminal is gone (OPS-19).
            log.critical("Not started: %s", error.message)
            raise
        service._open = undo.pop_all()
        return service


def _assemble(foundation: Foundation, undo: ExitStack, copies_before_migration: bool) -> Service:
    settings, core = foundation.settings, foundation.settings.core
    scrubber = Scrubber(settings.secrets)
    sinks = _choose_sinks(core.logging.file)
    if sinks.files is not None:
        prepare_log_files(sinks.files)
    logs.configure(core.logging.level.threshold, _thresholds(foundation), scrubber, sinks=sinks)
    undo.callback(logs.close_files)
    _tell_settings(foundation)

    roots = WorkRoots(core.storage.root)
    lock = hold_folder_lock(core.storage.root / "db" / ".lock")
    undo.callback(lock.release)
    roots.prepare()
    store = open_store(settings)
    undo.callback(store.close)
    # Before anything is changed: another service may be at work on this database from another data directory.
    database_lock = hold_database(store)
    undo.callback(database_lock.release)
    if copies_before_migration:
        copy_before_migration(store, product_version=product_version(), now=utc_now())
    migrate(store)

    profile_rows = ProfileStore(store)
    saves_seen = profile_rows.saves()
    sealer = Sealer(core.signing.profile_secrets_key, partial(deployment_salt, store, utc_now))
    if not profile_rows.all() and (failures := check_seed_choices(core, foundation.installed)):
        raise ConfigurationRefused(failures)
    seeded = seed_profiles(profile_rows, core, sealer, utc_now)
    envelope_key = _derive_key(core.encryption, store)
    if envelope_key is not None:
        undo.callback(envelope_key.wipe)
    profiles = open_profiles(
        profile_rows, foundation.registry, sealer, scrubber.register, is_encryption_on=envelope_key is not None
    )
    undo.callback(profiles.close)

    jobs, queue = Jobs(store), Queue(store)
    announcer = Announcer(foundation.plugins.notify)
    swept = sweep(jobs, roots)
    for changed in swept.interrupted:
        announcer(changed)

    folders = open_folders(core.storage, core.watched_folder, foundation.registry.storage_provider)
    undo.callback(folders.release)
    folders.claim()
    folders.settle_leftovers()
    folders.try_rights()
    names = TakenNames(Names(store).holder_of, is_on=core.pipeline.reject_already_processed_file_names)
    turned_away = TurnedAway(roots)
    admission = Admission(names, turned_away, jobs.active_for, roots.landing)
    enqueue = EnqueueService(jobs, queue, profiles, announcer, foundation.plugins.choose_format, admission)
    turned_away.settle(jobs.get, folders, enqueue.insert)
    watchers = FolderWatchers(folders, enqueue, profiles.bound, core.watched_folder, scrubber.scrub)
    announcer.watchers = watchers
    inputs = _Inputs(folders, watchers)
    consume_interrupted((changed.job for changed in swept.interrupted), inputs.locate)
    uploads = UploadDoor(core.upload, folders, enqueue, profiles.get, roots, names)
    uploads.settle_leftovers(jobs)

    engine = _start_engine(foundation, _formats_of(profiles.all), sinks, envelope_key)
    profiles.when_closed(engine.forget)
    undo.callback(engine.close)
    for profile in profiles.all:
        if profile.key is not None and profile.key_reference is not None:
            engine.open(profile.key_reference, profile.key)
    profile_watch = ProfileWatch(
        profile_rows,
        profiles,
        ProfileOpener(foundation.registry, sealer, scrubber.register, envelope_key is not None),
        seen=saves_seen,
        open_key=engine.open,
        tell=watchers.look_again,
        poll_interval_seconds=core.pipeline.poll_interval_seconds,
    )
    owner = new_owner(foundation.variables)
    parts = Parts(
        store=store,
        jobs=jobs,
        queue=queue,
        profiles=profiles,
        inputs=inputs,
        roots=roots,
        engine=engine,
        registry=foundation.registry,
        announce=announcer,
        scrub=scrubber.scrub,
        now=utc_now,
        record_timings=_time_jobs(store) if core.statistics.enabled else None,
        count_envelope=None if envelope_key is None else partial(count_envelope, store, envelope_key.check_value()),
        is_heard_by_plugins=foundation.plugins.answers("bulksigner_job_changed"),
    )
    pause = PauseFlag(store)
    volumes = distinct_volumes([roots.root, *_database_folders(core.database_location)])
    room_per_file = ROOM_PER_FILE if envelope_key is None else ROOM_PER_ENCRYPTED_FILE
    room = Room(volumes, core.storage.minimum_free_bytes, queue.waiting, room_per_file)
    worker = Worker(
        parts,
        pause,
        owner,
        slots=core.pipeline.max_concurrency,
        poll_interval_seconds=core.pipeline.poll_interval_seconds,
        find_hindrance=database_lock.find_loss,
        choose=room.choose,
    )
    readiness = Readiness(
        collect_checks(
            store,
            engine.find_fault(),
            folders,
            watchers,
            profiles,
            worker,
            {f"disk:{volume.folder}": partial(room.look, volume) for volume in volumes},
            foundation.registry,
        ),
        scrubber,
    )
    operations = assemble(
        store=store,
        jobs=jobs,
        queue=queue,
        profiles=profiles,
        folders=folders,
        roots=roots,
        rescanner=Rescanner(folders, enqueue, profiles.bound, core.watched_folder),
        pause=pause,
        announce=announcer,
        free_path=watchers.path_freed,
        scrub=scrubber.scrub,
        clock=utc_now,
        also_when_cleared=(partial(reset_statistics, store),),
    )
    return Service(
        foundation=foundation,
        owner=owner,
        store=store,
        jobs=jobs,
        queue=queue,
        profiles=profiles,
        profile_watch=profile_watch,
        folders=folders,
        watchers=watchers,
        roots=roots,
        engine=engine,
        pause=pause,
        worker=worker,
        enqueue=enqueue,
        uploads=uploads,
        operations=operations,
        readiness=readiness,
        announce=announcer,
        figures=Panel(store) if core.statistics.enabled else None,
        backups=_plan_backups(core.backup, store, scrubber),
        retention=_plan_retention(core.retention, store, roots, pause),
        seeded=seeded,
        swept=swept,
        open=undo,
    )


def _derive_key(given: EncryptionSettings, store: Store) -> EnvelopeKey | None:
    """Derive the key of the envelopes, the one time in this life (ENC-06); None where encryption is off."""
    if not given.enabled:
        return None
    log.info("Deriving the key of encrypted outputs, %d iterations", given.iterations)
    key = EnvelopeKey.derive(given.password.reveal(), read_salt(given.salt), given.iterations)
    warn_of_key(store, key.check_value())
    return key


def _time_jobs(store: Store) -> Callable[[Job, Spans], None]:
    def record(job: Job, spans: Spans) -> None:
        write_timings(store, job, spans, job.completed_at or job.updated_at)

    return record


def _plan_backups(given: BackupSettings, store: Store, scrubber: Scrubber) -> BackupDesk | None:
    if not given.enabled or given.disk.path is None or not isinstance(store, SqliteStore):
        return None
    interval = None if given.interval_hours is None else datetime.timedelta(hours=given.interval_hours)
    plan = BackupPlan(given.disk.path, interval, given.retain_count)
    return BackupDesk(store, plan, product_version=product_version(), scrub=scrubber.scrub)


def _plan_retention(given: RetentionSettings, store: Store, roots: WorkRoots, pause: PauseFlag) -> RetentionDesk | None:
    policy = Policy.of(given)
    if policy is None:
        return None
    return RetentionDesk(Retention(store, roots, policy, lambda: pause.read().is_paused))


def _tell_settings(foundation: Foundation) -> None:
    settings = foundation.settings
    for line in (*settings.warnings, *foundation.plugins.warnings):
        log.warning("%s", line)
    for line in settings.notices:
        log.info("%s", line)
    log.info("Settings read", extra=logs.facts(files=[str(path) for path in settings.files_read]))


def _thresholds(foundation: Foundation) -> dict[str, int]:
    return {name: level.threshold for name, level in foundation.settings.core.logging.levels.items()}


def _choose_sinks(given: LogFileSettings) -> logs.Sinks:
    files = LogFiles(given.path, given.rolling_interval, given.file_size_limit_bytes, given.retained_file_count_limit)
    return logs.Sinks(given.write_to_console, files if given.enabled else None, given.minimum_level.threshold)


def _start_engine(
    foundation: Foundation, formats: tuple[Format, ...], sinks: logs.Sinks, envelope_key: EnvelopeKey | None
) -> Engine:
    """Choose where signing runs (CFG-205)."""
    settings, core = foundation.settings, foundation.settings.core
    here = InProcessEngine(
        foundation.registry, formats, threads=core.pipeline.max_concurrency, envelope_key=envelope_key
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
        _thresholds(foundation),
        # One process tidies up for all.
        attrs.evolve(sinks, files=sinks.files and attrs.evolve(sinks.files, prunes=False)),
        envelope_key,
    )
    return ProcessEngine(boot, workers, here)


def _database_folders(location: Path | Secret) -> list[Path]:
    """Return the folder of a database in a file of this host."""
    return [location.parent] if isinstance(location, Path) else []


def _formats_of(profiles: Iterable[OpenedProfile]) -> tuple[Format, ...]:
    """Return the formats that jobs may ask for; a profile without one takes any."""
    chosen = {profile.stored.format for profile in profiles}
    return tuple(known for known in Format if None in chosen or known in chosen)
