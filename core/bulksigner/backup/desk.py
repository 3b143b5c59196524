"""Backups of a running service: on request, by schedule, one at a time (STA-85, STA-86)."""

from __future__ import annotations

import datetime
import logging
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import attrs

from bulksigner.backup.copying import BackupCanceled, Copied, copy_database
from bulksigner.backup.keeping import prune_backups
from bulksigner.backup.naming import name_at
from bulksigner.backup.runs import HISTORY_LIMIT, Result, Run, next_due, read_runs, record_run
from bulksigner.contract.errors import BulkSignerError, NotAllowed
from bulksigner.jobs.model import utc_now
from bulksigner.observability.logs import facts
from bulksigner.observability.metrics import Metrics
from bulksigner.records.sqlite import SqliteStore

__all__ = ["SCHEDULE", "BackupDesk", "BackupPlan", "BackupState", "UnderWay"]

SCHEDULE = "Schedule"
LONGEST_WAIT_SECONDS = 60.0
"""Between two looks at the clock, which may be set."""
log = logging.getLogger("bulksigner.backup")


@attrs.frozen
class BackupPlan:
    """Where backups go, how often (None: only on request), and how many stay (0: all)."""

    folder: Path
    interval: datetime.timedelta | None
    retain_count: int


@attrs.frozen
class UnderWay:
    """A backup that is being made."""

    id: str
    actor: str
    started_at: datetime.datetime


@attrs.frozen
class BackupState:
    """What there is to tell of backups; without a schedule or before a first look, `next_due_at` is None."""

    plan: BackupPlan
    under_way: UnderWay | None
    last_success_at: datetime.datetime | None
    next_due_at: datetime.datetime | None
    runs: tuple[Run, ...]


class BackupDesk:
    """Makes backups of one database on a thread of its own."""

    def __init__(
        self,
        store: SqliteStore,
        plan: BackupPlan,
        *,
        product_version: str,
        scrub: Callable[[str], str],
        clock: Callable[[], datetime.datetime] = utc_now,
        copy: Callable[..., Copied] = copy_database,
        metrics: Metrics | None = None,
    ) -> None:
        self._store = store
        self._plan = plan
        self._product_version = product_version
        self._scrub = scrub
        self._clock = clock
        self._copy = copy
        self._metrics = metrics or Metrics()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._canceled: str | None = None
        self._under_way: UnderWay | None = None
        self._asked: UnderWay | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to serve requests and the schedule."""
        self._thread = threading.Thread(target=self._serve, name="backup", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a backup under way is cancelled and leaves nothing."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def ask(self, actor: str) -> str:
        """Have a backup made now and return its run id. Raises `NotAllowed` while another is under way."""
        with self._lock:
            if self._under_way is not None:
                raise NotAllowed("A backup is under way already.", code="backup.already-running")
            wanted = self._asked = self._under_way = UnderWay(str(uuid.uuid4()), actor, self._clock())
        self._wake.set()
        return wanted.id

    def cancel(self) -> str:
        """Have the backup under way ended and return its run id. Raises `NotAllowed` when there is none."""
        with self._lock:
            if self._under_way is None:
                raise NotAllowed("No backup is under way.", code="backup.not-running")
            self._canceled = self._under_way.id
            return self._canceled

    def look(self) -> BackupState:
        """Return the state; reads the database."""
        runs = self._own_runs()
        success = next((run.ended_at for run in runs if run.result is Result.SUCCEEDED), None)
        due = None
        if self._plan.interval is not None:
            due = next_due(runs, self._plan.interval) or self._clock()
        return BackupState(self._plan, self._under_way, success, due, tuple(runs[:HISTORY_LIMIT]))

    def last_success(self) -> Run | None:
        """Return the newest backup that was written, or None; reads the database."""
        return next((run for run in self._own_runs() if run.result is Result.SUCCEEDED), None)

    def step(self) -> float:
        """Make the backup that was asked for or is due, if any; return how long nothing is due, in seconds."""
        with self._lock:
            wanted, self._asked = self._asked, None
        if wanted is None:
            wait = self._wait_seconds()
            if wait > 0:
                return wait
            with self._lock:
                if self._under_way is not None:
                    return 0.0
                wanted = self._under_way = UnderWay(str(uuid.uuid4()), SCHEDULE, self._clock())
        try:
            self._make(wanted)
        finally:
            with self._lock:
                self._under_way = None
        return 0.0

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                wait = self.step()
            except Exception:  # the database may be away for a while; the next look comes
                log.exception("Backups could not be looked after; trying again in %g s", LONGEST_WAIT_SECONDS)
                wait = LONGEST_WAIT_SECONDS
            if wait:
                self._wake.wait(min(wait, LONGEST_WAIT_SECONDS))
            self._wake.clear()

    def _wait_seconds(self) -> float:
        if self._plan.interval is None:
            return LONGEST_WAIT_SECONDS
        due = next_due(self._own_runs(), self._plan.interval)
        return 0.0 if due is None else max(0.0, (due - self._clock()).total_seconds())

    def _own_runs(self) -> list[Run]:
        return [run for run in read_runs(self._store) if run.folder == str(self._plan.folder)]

    def _make(self, wanted: UnderWay) -> None:
        run = Run(wanted.id, wanted.actor, Result.SUCCEEDED, str(self._plan.folder), wanted.started_at, self._clock())
        extra = facts(run_id=wanted.id, actor=wanted.actor)
        try:
            done = self._copy(
                self._store.path,
                self._plan.folder / name_at(wanted.started_at),
                product_version=self._product_version,
                should_stop=lambda: self._stopping.is_set() or self._canceled == wanted.id,
                now=self._clock,
            )
        except BackupCanceled:
            run = attrs.evolve(run, result=Result.CANCELED)
            log.info("Backup cancelled", extra=extra)
        except BulkSignerError as error:
            run = attrs.evolve(run, result=Result.FAILED, reason=self._scrub(error.message))
            log.warning("Backup failed: %s", error.message, extra=extra)
        else:
            run = attrs.evolve(run, file_name=done.path.name, length=done.length)
            log.info("Backup written to %s", done.path, extra=extra)
        run = attrs.evolve(run, ended_at=self._clock())
        record_run(self._store, run)
        self._metrics.count("bulksigner_backup_runs_total", run.result.value)
        self._metrics.observe("bulksigner_backup_duration_seconds", (run.ended_at - run.started_at).total_seconds())
        if run.result is Result.SUCCEEDED:
            self._prune()

    def _prune(self) -> None:
        try:
            for path in prune_backups(self._plan.folder, self._plan.retain_count):
                log.info("Old backup removed: %s", path)
        except OSError as error:
            # The backup itself is there (STA-87).
            self._metrics.count("bulksigner_backup_prune_failures_total")
            log.warning("Old backups in %s cannot be removed: %s", self._plan.folder, error)
