"""A built service and its life: start, stop, and the events that tell of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

import attrs

from bulksigner.backup.desk import BackupDesk
from bulksigner.boot import Foundation, product_version
from bulksigner.files.work import WorkRoots
from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolders
from bulksigner.intake.upload import UploadDoor
from bulksigner.intake.watchers import FolderWatchers
from bulksigner.jobs.model import Changed, Owner, utc_now
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.store import Jobs
from bulksigner.observability.metrics import Metrics
from bulksigner.observability.readiness import Readiness
from bulksigner.operations.file_check import FileCheck
from bulksigner.operations.service import Operations
from bulksigner.pipeline.cross_checking import end_programs
from bulksigner.pipeline.engine import Engine
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.pipeline.receipts import ReceiptBook
from bulksigner.pipeline.worker import Worker
from bulksigner.profiles.holds import Holds
from bulksigner.profiles.live import ProfileWatch
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.profiles.seed import SeedReport
from bulksigner.records.engines import Store
from bulksigner.records.events import Event, write_event
from bulksigner.recovery.sweep import SweepReport
from bulksigner.retention.desk import RetentionDesk
from bulksigner.statistics.figures import Panel
from bulksigner.web.sessions import Sessions

__all__ = ["Service"]

log = logging.getLogger(__name__)

CLEAR_LIMIT_SECONDS = 10.0
"""How long a stop waits for a clear of jobs to notice it, or to commit."""


@attrs.define
class Service:
    """A built service: everything is open and recovered, nothing runs until `start`."""

    foundation: Foundation
    owner: Owner
    store: Store
    jobs: Jobs
    queue: Queue
    profiles: OpenedProfiles
    profile_watch: ProfileWatch
    holds: Holds | None
    """The profiles whose jobs wait, or None where jobs fail instead (BEY-20)."""
    folders: OpenedFolders
    watchers: FolderWatchers
    roots: WorkRoots
    engine: Engine
    pause: PauseFlag
    worker: Worker
    enqueue: EnqueueService
    uploads: UploadDoor
    operations: Operations
    file_check: FileCheck
    readiness: Readiness
    announce: Callable[[Changed], None]
    sessions: Sessions
    figures: Panel | None
    """The statistics, or None where they are switched off (STA-12)."""
    backups: BackupDesk | None
    """Backups of the database, or None where they are off (STA-82)."""
    retention: RetentionDesk | None
    """Retention by age, or None where no policy is configured (STA-102)."""
    receipts: ReceiptBook | None
    """Receipts of completed jobs, or None where they are off and none is owed (BEY-03)."""
    metrics: Metrics
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
        if self.receipts is not None:
            self.receipts.start()
        self.watchers.start()
        self.profile_watch.start()
        if self.backups is not None:
            self.backups.start()
        if self.retention is not None:
            self.retention.start()

    def stop(self) -> int:
        """Stop in the order of CLU-04; return how many jobs were still running when the grace ended."""
        if self._stopped.is_set():
            return 0
        self._stopped.set()
        self.operations.clearing.interrupt(CLEAR_LIMIT_SECONDS)
        left = 0
        if self.is_started:
            self.profile_watch.stop()
            self.watchers.stop()
            if self.backups is not None:
                self.backups.stop()
            if self.retention is not None:
                self.retention.stop()
            left = self.worker.stop(self.foundation.settings.core.pipeline.shutdown_grace_seconds)
            if self.receipts is not None:
                self.receipts.stop()
            self._record(
                "ServiceStopping",
                f"Service stopping, {'drained' if not left else f'{left} job(s) still running'}.",
                drained=not left,
                jobsLeft=left,
            )
        self.foundation.plugins.notify("bulksigner_stopping")
        # Here and not after the close, which ends the log file too.
        log.info("Service stopped" if not left else "Service stopped with jobs still running")
        if left:
            # A worker process that hangs or was stopped by a signal would outlive the exit, as would a second engine.
            self.engine.close()
            end_programs()
        else:
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
            with self.store.promptly():
                self.store.write(lambda: write_event(self.store, event, utc_now()))
        except Exception:
            # A database that is gone must neither stop a start nor a stop; the log has the same facts.
            log.exception("Event %s could not be recorded", event_type)
