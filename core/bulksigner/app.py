"""The composition root: settings in, running service out; the only place that wires parts (CLU-01)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import attrs

from bulksigner.assembly import (
    choose_sinks,
    derive_envelope_key,
    formats_of,
    log_thresholds,
    plan_backups,
    plan_holds,
    plan_receipts,
    plan_retention,
    start_engine,
    tell_settings,
    time_jobs,
)
from bulksigner.backup.before_migration import copy_before_migration
from bulksigner.boot import Foundation, new_owner, open_store, plan_validation, product_version
from bulksigner.contract.errors import BulkSignerError, ConfigurationRefused, PermanentFailure
from bulksigner.contract.settings import Secret
from bulksigner.contract.storage import Folder
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
from bulksigner.jobs.envelopes import count_envelope
from bulksigner.jobs.model import Changed, Job, utc_now
from bulksigner.jobs.names import Names, forget_names
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import TERMINAL
from bulksigner.jobs.store import Jobs
from bulksigner.life import Service
from bulksigner.metering import core_gauges, count_change
from bulksigner.observability import logs
from bulksigner.observability.log_files import prepare_log_files
from bulksigner.observability.metrics import Metrics
from bulksigner.observability.readiness import Readiness
from bulksigner.operations.deletion_news import DeletionNews
from bulksigner.operations.file_check import FileCheck
from bulksigner.operations.service import assemble
from bulksigner.pipeline.engine import ask
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.pipeline.room import ROOM_PER_ENCRYPTED_FILE, ROOM_PER_FILE, Room
from bulksigner.pipeline.work import Parts
from bulksigner.pipeline.worker import Worker
from bulksigner.profiles.checking import CertificateRefresh
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.expiry import ExpiryWatch
from bulksigner.profiles.live import ProfileWatch
from bulksigner.profiles.opened import ProfileOpener, explain_no_roots, explain_no_services, open_profiles
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.seed import seed_profiles
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.migrate import migrate
from bulksigner.records.notes import StoredNotes
from bulksigner.records.revoked_sessions import RevokedSessions
from bulksigner.records.service_lock import hold_database
from bulksigner.recovery.sweep import sweep
from bulksigner.settings.load import check_seed_choices
from bulksigner.statistics.figures import Panel
from bulksigner.statistics.timings import reset_statistics
from bulksigner.trust.signer_chains import SignerChains
from bulksigner.web.key_ring import open_key_ring
from bulksigner.web.sessions import Sessions

__all__ = ["build"]

log = logging.getLogger(__name__)


@attrs.define
class Announcer:
    """What follows the commit of a job's change: it is counted, and plugins and the folder's watcher hear of it."""

    metrics: Metrics
    notify: Callable[[str, object], None]
    watchers: FolderWatchers | None = None

    def __call__(self, changed: Changed) -> None:
        count_change(self.metrics, changed)
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
            error.message = foundation.scrubber.scrub(error.message)
            # Into the log file as well, where an operator looks when the terminal is gone (OPS-19).
            log.critical("Not started: %s", error.message)
            raise
        service._open = undo.pop_all()
        return service


def _assemble(foundation: Foundation, undo: ExitStack, copies_before_migration: bool) -> Service:
    settings, core = foundation.settings, foundation.settings.core
    scrubber = foundation.scrubber
    sinks = choose_sinks(core.logging.file)
    if sinks.files is not None:
        prepare_log_files(sinks.files)
    logs.configure(core.logging.level.threshold, log_thresholds(foundation), scrubber, sinks=sinks)
    undo.callback(logs.close_files)
    tell_settings(foundation)

    roots = WorkRoots(core.storage.root)
    lock = hold_folder_lock(core.storage.root / "db" / ".lock")
    undo.callback(lock.release)
    roots.prepare()
    store = open_store(settings)
    store.redaction = scrubber
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
    seeded = seed_profiles(
        profile_rows, core, sealer, utc_now, policies=foundation.policies, has_roots=bool(foundation.trust)
    )
    if not foundation.trust and (failures := explain_no_roots(profile_rows.all())):
        raise ConfigurationRefused(failures)
    if not core.signing.timestamps and (failures := explain_no_services(profile_rows.all())):
        raise ConfigurationRefused(failures)
    foundation.registry.hand_notes(partial(StoredNotes, store, utc_now))
    envelope_key = derive_envelope_key(core.encryption, store)
    if envelope_key is not None:
        undo.callback(envelope_key.wipe)
    profiles = open_profiles(
        profile_rows,
        foundation.registry,
        sealer,
        scrubber.register,
        policies=foundation.policies,
        is_encryption_on=envelope_key is not None,
    )
    undo.callback(profiles.close)
    validation = plan_validation(foundation)
    validation.prune()

    jobs, queue = Jobs(store), Queue(store)
    metrics = Metrics()
    announcer = Announcer(metrics, foundation.plugins.notify)
    swept = sweep(jobs, roots)
    for changed in swept.interrupted:
        announcer(changed)

    folders = open_folders(core.storage, core.watched_folder, foundation.registry.storage_provider)
    undo.callback(folders.release)
    folders.claim()
    folders.settle_leftovers()
    folders.try_rights()
    names = TakenNames(Names(store), is_on=core.pipeline.reject_already_processed_file_names)
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

    engine = start_engine(foundation, formats_of(profiles.all), sinks, envelope_key)
    profiles.when_closed(engine.forget)
    undo.callback(engine.close)
    for profile in profiles.all:
        if profile.key is not None and profile.key_reference is not None:
            engine.open(profile.key_reference, profile.key)
    opener = ProfileOpener(
        foundation.registry, sealer, scrubber.register, envelope_key is not None, foundation.policies
    )
    volumes = distinct_volumes([roots.root, *_database_folders(core.database_location)])
    holds = plan_holds(
        foundation,
        store,
        queue,
        profiles,
        opener,
        validation,
        volumes,
        reopen=lambda name: profile_watch.reopen(name),
    )
    profile_watch = ProfileWatch(
        profile_rows,
        profiles,
        opener,
        seen=saves_seen,
        open_key=engine.open,
        tell=watchers.look_again,
        poll_interval_seconds=core.pipeline.poll_interval_seconds,
        also=(
            DeletionNews(store, watchers.path_freed).step,
            ExpiryWatch(store, profiles, utc_now).look_if_due,
            CertificateRefresh(profiles, validation).begin_if_due,
            *(() if holds is None else (holds.step,)),
        ),
    )
    owner = new_owner(foundation.variables)
    receipts = plan_receipts(core.receipts.enabled, store, engine, profiles, roots)
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
        options=core.pdf.options,
        record_timings=time_jobs(store) if core.statistics.enabled else None,
        count_envelope=None if envelope_key is None else partial(count_envelope, store, envelope_key.check_value()),
        receipts=receipts if core.receipts.enabled else None,
        validation=validation,
        chains=SignerChains(foundation.trust),
        holds=holds,
        metrics=metrics,
        is_heard_by_plugins=foundation.plugins.answers("bulksigner_job_changed"),
    )
    pause = PauseFlag(store)
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
            validation,
            holds,
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
        watcher_statuses=watchers.statuses,
        scrub=scrubber.scrub,
        clock=utc_now,
        also_when_cleared=(partial(reset_statistics, store), partial(forget_names, store)),
        metrics=metrics,
    )
    backups = plan_backups(core.backup, store, scrubber.scrub, metrics)
    retention = plan_retention(core.retention, store, roots, folders, pause, metrics)
    metrics.read_with(core_gauges(store, jobs, pause, profiles, volumes, backups, has_retention=retention is not None))
    file_check = FileCheck(
        profile=profiles.get,
        registry=foundation.registry,
        format_of=enqueue.format_of,
        rules=folders.landing.rules,
        names=names,
        roots=roots,
        look=partial(ask, engine),
        validation=validation,
        scrub=scrubber.scrub,
        now=utc_now,
        options=core.pdf.options,
    )
    sessions = Sessions(
        open_key_ring(roots.root / "keys", utc_now),
        RevokedSessions(store, utc_now),
        core.auth.api_key,
        core.auth.cookie_name,
        utc_now,
    )
    return Service(
        foundation=foundation,
        owner=owner,
        store=store,
        jobs=jobs,
        queue=queue,
        profiles=profiles,
        profile_watch=profile_watch,
        holds=holds,
        folders=folders,
        watchers=watchers,
        roots=roots,
        engine=engine,
        pause=pause,
        worker=worker,
        enqueue=enqueue,
        uploads=uploads,
        operations=operations,
        file_check=file_check,
        readiness=readiness,
        announce=announcer,
        sessions=sessions,
        figures=Panel(store) if core.statistics.enabled else None,
        backups=backups,
        retention=retention,
        receipts=receipts,
        metrics=metrics,
        seeded=seeded,
        swept=swept,
        open=undo,
    )


def _database_folders(location: Path | Secret) -> list[Path]:
    """Return the folder of a database in a file of this host."""
    return [location.parent] if isinstance(location, Path) else []
