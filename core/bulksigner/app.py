"""The composition root: settings in, running service out; the only place that wires parts (CLU-01)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial

import attrs

from bulksigner.boot import Foundation, new_owner, open_store, product_version
from bulksigner.contract.errors import ConfigurationRefused, PermanentFailure
from bulksigner.contract.signing import Format
from bulksigner.contract.storage import Folder
from bulksigner.files.lock import hold_folder_lock
from bulksigner.files.work import WorkRoots
from bulksigner.health import collect_checks
from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolders, open_folders
from bulksigner.intake.rescan import Rescanner
from bulksigner.intake.upload import UploadDoor
from bulksigner.intake.watchers import FolderWatchers
from bulksigner.jobs import listing
from bulksigner.jobs.model import Changed, Job, Owner, utc_now
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import TERMINAL
from bulksigner.jobs.store import Jobs
from bulksigner.observability import logs
from bulksigner.observability.readiness import Readiness
from bulksigner.observability.redaction import Scrubber
from bulksigner.operations.operator import Operator
from bulksigner.pipeline.engine import Engine, InProcessEngine
from bulksigner.pipeline.engine_pool import ProcessEngine
from bulksigner.pipeline.engine_worker import WorkerBoot
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.pipeline.work import Parts
from bulksigner.pipeline.worker import Worker
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.model import OpenedProfile, StoredProfile
from bulksigner.profiles.opened import OpenedProfiles, open_profiles
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.seed import SeedReport, seed_profiles
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.engines import Store
from bulksigner.records.events import Event, write_event
from bulksigner.records.migrate import migrate
from bulksigner.records.service_lock import hold_database
from bulksigner.recovery.sweep import SweepReport, sweep
from bulksigner.settings.load import check_seed_choices
from bulksigner.settings.model import EngineChoice
from bulksigner.web.services import WebServices

__all__ = ["Service", "build"]

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

    def offer_again(self, job: Job) -> None:
        self.watchers.offer_again(job.original_path)


@attrs.frozen
class _StoredProfiles:
    """The profiles as an operator action asks for them."""

    opened: OpenedProfiles

    def get(self, name: str) -> StoredProfile | None:
        found = self.opened.get(name)
        return None if found is None else found.stored


@attrs.define
class Service:
    """A built service: everything is open and recovered, nothing runs until `start`."""

    foundation: Foundation
    owner: Owner
    store: Store
    jobs: Jobs
    queue: Queue
    profiles: OpenedProfiles
    folders: OpenedFolders
    watchers: FolderWatchers
    roots: WorkRoots
    engine: Engine
    pause: PauseFlag
    worker: Worker
    readiness: Readiness
    web: WebServices
    seeded: SeedReport
    swept: SweepReport
    _open: ExitStack
    is_started: bool = False
    _stopped: threading.Event = attrs.field(factory=threading.Event)

    def start(self) -> None:
        """Start the pipeline worker and the watchers (CLU-01 step 11)."""
        # Set first: a start that fails half way is stopped like a whole one.
        self.is_started = True
        self.worker.start()
        self.watchers.start()

    def stop(self) -> int:
        """Stop in the order of CLU-04; return how many jobs were still running when the grace ended."""
        if self._stopped.is_set():
            return 0
        self._stopped.set()
        left = 0
        if self.is_started:
            self.watchers.stop()
            left = self.worker.stop(self.foundation.settings.core.pipeline.shutdown_grace_seconds)
            self._record(
                "ServiceStopping",
                f"Service stopping, {'drained' if not left else f'{left} job(s) still running'}.",
                drained=not left,
                jobsLeft=left,
            )
        self.foundation.plugins.notify("bulksigner_stopping")
        if not left:
            self.close()
        return left

    def close(self) -> None:
        """Let go of everything that is open; for a service that was built and not started, too."""
        self._open.close()

    def record_start(self) -> None:
        """Write the event that a life began (SEC-76)."""
        self._record("ServiceStarted", "Service started.")

    def _record(self, event_type: str, message: str, **facts: object) -> None:
        life = {
            "version": product_version(),
            "host": self.owner.identity,
            "incarnation": self.owner.incarnation,
            **facts,
        }
        event = Event(event_type, message, life)
        try:
            self.store.write(lambda: write_event(self.store, event, utc_now()))
        except Exception:
            # A database that is gone must neither stop a start nor a stop; the log has the same facts.
            log.exception("Event %s could not be recorded", event_type)


def build(foundation: Foundation) -> Service:
    """Open, migrate, recover and wire everything (CLU-01 steps 2 to 10); whatever fails closes what was opened."""
    with ExitStack() as undo:
        service = _assemble(foundation, undo)
        service._open = undo.pop_all()
        return service


def _assemble(foundation: Foundation, undo: ExitStack) -> Service:
    settings, core = foundation.settings, foundation.settings.core
    scrubber = Scrubber(settings.secrets)
    logs.configure(core.logging.level.threshold, _thresholds(foundation), scrubber)
    _tell_settings(foundation)

    roots = WorkRoots(core.storage.root)
    lock = hold_folder_lock(core.storage.root / "db" / ".lock")
    undo.callback(lock.release)
    roots.prepare()
    store = open_store(settings)
    undo.callback(store.close)
    migrate(store)
    undo.callback(hold_database(store).release)

    profile_rows = ProfileStore(store)
    sealer = Sealer(core.signing.profile_secrets_key, partial(deployment_salt, store, utc_now))
    if not profile_rows.all() and (failures := check_seed_choices(core, foundation.installed)):
        raise ConfigurationRefused(failures)
    seeded = seed_profiles(profile_rows, core, sealer, utc_now)
    profiles = open_profiles(profile_rows, foundation.registry, sealer, scrubber.register)
    undo.callback(profiles.close)

    jobs, queue = Jobs(store), Queue(store)
    announcer = Announcer(foundation.plugins.notify)
    swept = sweep(jobs, roots)
    for changed in swept.interrupted:
        announcer(changed)

    folders = open_folders(core.storage, core.watched_folder, foundation.registry.storage_provider)
    folders.settle_leftovers()
    enqueue = EnqueueService(jobs, queue, profiles, announcer, foundation.plugins.choose_format)
    watchers = FolderWatchers(folders, enqueue, profiles.bound, core.watched_folder)
    announcer.watchers = watchers
    uploads = UploadDoor(core.upload, folders, enqueue, profiles.get, roots)
    uploads.settle_leftovers(jobs)

    engine = _start_engine(foundation, _formats_of(profiles.all))
    undo.callback(engine.close)
    for profile in profiles.all:
        if profile.key is not None and profile.key_reference is not None:
            engine.open(profile.key_reference, profile.key)
    owner = new_owner(foundation.variables)
    parts = Parts(
        jobs=jobs,
        queue=queue,
        profiles=profiles,
        inputs=_Inputs(folders, watchers),
        roots=roots,
        engine=engine,
        registry=foundation.registry,
        announce=announcer,
        scrub=scrubber.scrub,
        now=utc_now,
    )
    pause = PauseFlag(store)
    worker = Worker(
        parts,
        pause,
        owner,
        slots=core.pipeline.max_concurrency,
        poll_interval_seconds=core.pipeline.poll_interval_seconds,
    )
    readiness = Readiness(
        collect_checks(
            store, engine.find_fault(), folders, watchers, profiles, worker, foundation.registry.readiness_checks
        ),
        scrubber,
    )
    web = _web_services(
        foundation, store, jobs, queue, profiles, folders, enqueue, uploads, announcer, roots, readiness
    )
    return Service(
        foundation=foundation,
        owner=owner,
        store=store,
        jobs=jobs,
        queue=queue,
        profiles=profiles,
        folders=folders,
        watchers=watchers,
        roots=roots,
        engine=engine,
        pause=pause,
        worker=worker,
        readiness=readiness,
        web=web,
        seeded=seeded,
        swept=swept,
        open=undo,
    )


def _tell_settings(foundation: Foundation) -> None:
    settings = foundation.settings
    for line in (*settings.warnings, *foundation.plugins.warnings):
        log.warning("%s", line)
    for line in settings.notices:
        log.info("%s", line)
    log.info("Settings read", extra=logs.facts(files=[str(path) for path in settings.files_read]))


def _thresholds(foundation: Foundation) -> dict[str, int]:
    return {name: level.threshold for name, level in foundation.settings.core.logging.levels.items()}


def _start_engine(foundation: Foundation, formats: tuple[Format, ...]) -> Engine:
    """Choose where signing runs (CFG-205)."""
    settings, core = foundation.settings, foundation.settings.core
    here = InProcessEngine(foundation.registry, formats)
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
    )
    return ProcessEngine(boot, workers, here)


def _formats_of(profiles: Iterable[OpenedProfile]) -> tuple[Format, ...]:
    """Return the formats that jobs may ask for; a profile without one takes any."""
    chosen = {profile.stored.format for profile in profiles}
    return tuple(known for known in Format if None in chosen or known in chosen)


def _web_services(
    foundation: Foundation,
    store: Store,
    jobs: Jobs,
    queue: Queue,
    profiles: OpenedProfiles,
    folders: OpenedFolders,
    enqueue: EnqueueService,
    uploads: UploadDoor,
    announcer: Announcer,
    roots: WorkRoots,
    readiness: Readiness,
) -> WebServices:
    core = foundation.settings.core
    rescanner = Rescanner(folders, enqueue, profiles.bound, core.watched_folder)
    operator = Operator(jobs, queue, _StoredProfiles(profiles), lambda job: folders.input_exists(job.original_path))

    def retry(job_id: str) -> Changed:
        changed = operator.retry(job_id)
        announcer(changed)
        return changed

    return WebServices(
        api_key=core.auth.api_key,
        api_key_header=core.auth.api_key_header,
        environment=foundation.settings.environment,
        uploads_enabled=core.upload.enabled,
        max_upload_bytes=core.upload.max_bytes,
        receive_upload=uploads.receive,
        rescan=rescanner.rescan,
        find_job=jobs.get,
        find_page=partial(listing.page, store),
        read_history=partial(listing.history, store),
        retry=retry,
        output_root=roots.output,
        report_readiness=readiness.report,
        codes=foundation.codes,
    )
