"""An in-memory ledger of jobs with the meaning of the real one, and watchers over real folders."""

from __future__ import annotations

import datetime
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.builtin.by_extension import choose_by_extension
from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.observe import JobChange
from bulksigner.contract.signing import Format
from bulksigner.contract.storage import Entry
from bulksigner.files.work import WorkRoots
from bulksigner.intake.admission import Admission
from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.intake.names import IgnoreRules
from bulksigner.intake.notices import InotifyNotices, Notices, PolledNotices
from bulksigner.intake.taken_names import TakenNames
from bulksigner.intake.turned_away import TurnedAway
from bulksigner.intake.watcher import FolderWatcher
from bulksigner.jobs.model import Birth, Changed, Job
from bulksigner.jobs.names import HOLDING, Holder, name_key
from bulksigner.jobs.queue import Enqueued, Outcome
from bulksigner.jobs.states import ACTIVE, BIRTHS, JobStatus
from bulksigner.records.events import Event
from bulksigner.settings.model import WatchedFolderSettings

RULES = IgnoreRules((".tmp", ".part"), (".", "~$"))
SETTINGS = WatchedFolderSettings(
    stability_poll_interval_ms=50,
    stability_required_samples=2,
    stability_timeout_seconds=60,
    poll_interval_seconds=None,
)


def make_job(birth: Birth, status: JobStatus = JobStatus.QUEUED) -> Job:
    """Return a job born just now; what a birth does not say is empty."""
    now = datetime.datetime.now(datetime.UTC)
    values: dict[str, object] = {field.name: None for field in attrs.fields(Job)}
    values |= {field.name: getattr(birth, field.name) for field in attrs.fields(Birth) if field.name in values}
    values |= {
        "id": birth.id or str(uuid.uuid4()),
        "status": status,
        "created_at": now,
        "queued_at": now,
        "updated_at": now,
    }
    values |= {"path_released": birth.path_released, "input_diverged": False, "row_version": 1}
    return Job(**values | {"metadata": birth.metadata, "sidecar_sha256": birth.sidecar_sha256})


class Ledger:
    """Jobs and queue in one: one active job a path, the latest job of a path, counted queries, failures on demand."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows: list[Job] = []
        self.queries = 0
        self.batches: list[int] = []
        self.fails = 0
        self.error: Exception = RuntimeError("the database is away")
        self.events: list[Event] = []
        self.on_query: Callable[[], None] = lambda: None

    def latest_for(self, paths: Sequence[str]) -> Mapping[str, Job]:
        with self._lock:
            self.queries += 1
            latest = {job.original_path: job for job in self.rows}
            found = {path: latest[path] for path in paths if path in latest}
        self.on_query()
        return found

    def get(self, job_id: str) -> Job | None:
        with self._lock:
            return next((job for job in self.rows if job.id == job_id), None)

    def active_for(self, path: str) -> Job | None:
        with self._lock:
            return next((job for job in self.rows if job.original_path == path and job.status in ACTIVE), None)

    def holder_of(self, file_name: str, *, besides: str | None = None) -> Holder | None:
        key = name_key(file_name)
        with self._lock:
            held = [job for job in self.rows if name_key(job.file_name) == key and job.status in HOLDING]
            return next((Holder(job.id, job.status) for job in reversed(held) if job.id != besides), None)

    def held_among(self, file_names: Iterable[str]) -> list[str]:
        return [name for name in file_names if self.holder_of(name) is not None]

    def enqueue(self, births: Sequence[Birth]) -> list[Enqueued]:
        with self._lock:
            if self.fails:
                self.fails -= 1
                raise self.error
            self.batches.append(len(births))
            active = {job.original_path: job for job in self.rows if job.status in ACTIVE}
            answers = []
            for birth in births:
                if len(birth.original_path) > 850:
                    answers.append(Enqueued(Outcome.PATH_TOO_LONG, None, None))
                elif birth.original_path in active:
                    answers.append(Enqueued(Outcome.ALREADY_ACTIVE, active[birth.original_path], None))
                else:
                    status = BIRTHS[birth.event]
                    job = make_job(birth, status)
                    if status in ACTIVE:
                        active[birth.original_path] = job
                    self.rows.append(job)
                    self.events += [birth.operational_event] if birth.operational_event else []
                    change = JobChange(
                        job.id,
                        birth.event,
                        None,
                        status.value,
                        job.profile_name,
                        "Pades",
                        job.created_at,
                        birth.message,
                    )
                    answers.append(Enqueued(Outcome.ENQUEUED, job, Changed(job, change, wakes=status in ACTIVE)))
            return answers

    def end(self, path: str, status: JobStatus = JobStatus.COMPLETED, **changes: Any) -> None:
        """Bring the active job of a path to its end."""
        with self._lock:
            index = next(i for i, job in enumerate(self.rows) if job.original_path == path and job.status in ACTIVE)
            self.rows[index] = attrs.evolve(self.rows[index], status=status, **changes)

    def names(self) -> list[str]:
        """Return the file names of all jobs, in order of birth."""
        with self._lock:
            return [job.file_name for job in self.rows]


@attrs.define
class Stored:
    """The part of a stored profile that intake reads."""

    name: str = "default"
    enabled: bool = True
    format: Format | None = None


@attrs.define
class Opened:
    """An opened profile."""

    stored: Stored = attrs.field(factory=Stored)


class Profiles:
    """Bindings and profiles that a test may change."""

    def __init__(self) -> None:
        self.default = Opened()
        self.bindings: dict[str, Opened] = {"in": self.default}

    def bound(self, folder: str) -> Opened | None:
        return self.bindings.get(folder)

    def get(self, name: str) -> Opened | None:
        return self.default if name.lower() == "default" else None


class CountingFolder(LocalFolder):
    """A real folder that counts how often it was listed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.listings = 0

    def entries(self) -> Iterator[Entry]:
        self.listings += 1
        return super().entries()


class Desk:
    """A watched folder `in`, its ledger, and what tests do to them."""

    def __init__(self, tmp_path: Path, *, rejects_names: bool = False) -> None:
        self.root = tmp_path / "in"
        self.root.mkdir()
        self.ledger = Ledger()
        self.profiles = Profiles()
        self.announced: list[Changed] = []
        self.roots = WorkRoots(tmp_path / "work")
        self.roots.prepare()
        self.names = TakenNames(self.ledger, is_on=rejects_names)
        self.turned_away = TurnedAway(self.roots)
        admission = Admission(self.names, self.turned_away, self.ledger.active_for, self.roots.landing)
        self.service = EnqueueService(
            self.ledger, self.ledger, self.profiles, self.announced.append, choose_by_extension, admission
        )
        self.folder = CountingFolder(self.root)
        self.opened = OpenedFolder("in", self.folder, RULES, has_events=True)
        self.folders = OpenedFolders([self.opened])
        self._running: list[FolderWatcher] = []

    def watcher(
        self,
        *,
        settings: WatchedFolderSettings = SETTINGS,
        notices: Notices | None = None,
        clock: Callable[[], float] = time.monotonic,
        poll_interval_seconds: float | None = None,
    ) -> FolderWatcher:
        """Return a watcher of the folder: of real events unless other notices are given."""
        opened = attrs.evolve(
            self.opened, has_events=notices is None, poll_interval_seconds=poll_interval_seconds, folder=self.folder
        )
        notices = notices or InotifyNotices(self.root, opened.is_candidate_name)
        return FolderWatcher(opened, self.service, self.profiles.bound, settings, notices, clock=clock)

    def run(self, watcher: FolderWatcher) -> FolderWatcher:
        """Start a watcher; it ends with the test."""
        self._running.append(watcher)
        watcher.start()
        return watcher

    def drop(self, name: str, content: bytes = b"x") -> Path:
        """Put a file into the folder in one rename."""
        beside = self.root / f".{name}.{uuid.uuid4().hex}"
        beside.write_bytes(content)
        return beside.replace(self.root / name)

    def path(self, name: str) -> str:
        """Return the stored path of a file of the folder."""
        return self.folder.path_of(name)

    def wait_for(self, names: Iterable[str], seconds: float = 10) -> None:
        """Wait until exactly these jobs were born, in any order."""
        wanted = sorted(names)
        until(lambda: sorted(self.ledger.names()) == wanted, seconds, lambda: f"{self.ledger.names()} is not {wanted}")

    def close(self) -> None:
        for watcher in self._running:
            watcher.stop()


def until(holds: Callable[[], bool], seconds: float = 10, says: Callable[[], str] = lambda: "it never came") -> None:
    """Wait until something holds, or fail saying what is the case instead."""
    ends_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends_at:
            pytest.fail(says())
        time.sleep(0.01)


@pytest.fixture
def wait_until() -> Callable[..., None]:
    return until


@pytest.fixture
def polled() -> type[PolledNotices]:
    return PolledNotices


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk that takes a name as often as it comes, so that each test looks at the rule it is about."""
    desk = Desk(tmp_path)
    yield desk
    desk.close()


@pytest.fixture
def strict_desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk that refuses names of completed and unfinished jobs, and reads sidecars."""
    desk = Desk(tmp_path, rejects_names=True)
    desk.opened = attrs.evolve(desk.opened, has_sidecars=True)
    desk.folders = OpenedFolders([desk.opened])
    yield desk
    desk.close()
