"""Operator actions over real folders and a real database, on both engines; a worker is played by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.signing import Format
from bulksigner.files import durable
from bulksigner.files.work import WorkRoots, open_place
from bulksigner.intake.admission import Admission
from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.intake.rescan import Rescanner
from bulksigner.intake.taken_names import TakenNames
from bulksigner.intake.turned_away import TurnedAway
from bulksigner.jobs import listing
from bulksigner.jobs.model import Changed, Job, Owner, utc_now
from bulksigner.jobs.names import Names
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor
from bulksigner.jobs.store import Jobs
from bulksigner.operations.people import Person
from bulksigner.operations.service import Operations, assemble
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.profiles.model import OpenedProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records import event_log
from bulksigner.records.engines import EngineKind, Store
from bulksigner.records.event_log import EventEntry, EventFilter
from bulksigner.settings.model import WatchedFolderSettings
from bulksigner.testing.rows import new_birth, stored_profile

OPERATOR = Person("operator", "ApiKey")
EAGER = WatchedFolderSettings(
    stability_poll_interval_ms=10,
    stability_required_samples=1,
    stability_timeout_seconds=5,
    poll_interval_seconds=None,
)


@attrs.define
class Desk:
    """The actions, and what a test does and looks at beside them."""

    store: Store
    jobs: Jobs
    queue: Queue
    folders: OpenedFolders
    roots: WorkRoots
    inbox: Path
    profiles: OpenedProfiles
    operations: Operations
    announced: list[Changed]
    freed: list[str]
    born_with: dict[str, object] = attrs.field(factory=dict)

    def drop(self, name: str = "folha.rem", content: bytes = b"content") -> Path:
        """Put a file into the input folder."""
        path = self.inbox / name
        path.write_bytes(content)
        return path

    def enqueue(self, path: Path, **fields: object) -> Job:
        """Make a job for a path as the watcher would."""
        usual = {"original_path": str(path), "format": Format.CADES, "message": "Queued from folder in"}
        [answer] = self.queue.enqueue([new_birth(**{"name": path.name, **usual, **self.born_with, **fields})])
        assert answer.changed is not None
        return answer.changed.job

    def queued(self, name: str = "folha.rem", content: bytes = b"content") -> Job:
        """Drop a file and make its job."""
        return self.enqueue(self.drop(name, content))

    def claimed(self, name: str = "folha.rem", content: bytes = b"content") -> Job:
        """Take a job as a worker does: claimed, its input copied and measured."""
        self.queued(name, content)
        return self.claim()

    def claim(self) -> Job:
        """Claim and stage the oldest job that is queued."""
        [taken] = self.queue.claim(1, Owner("here", "this-life"))
        name = taken.job.file_name
        staged = open_place(self.roots.job_folder(taken.job.id) / name)
        fingerprint = next(iter(self.folders)).folder.copy_to(name, staged)
        return self.jobs.record(
            taken.job, staged_length=fingerprint.length, staged_sha256=fingerprint.sha256.hex(), staged_at=utc_now()
        )

    def failed(self, name: str = "folha.rem", content: bytes = b"content", **columns: object) -> Job:
        """Take a job to its end as Failed: folder below `error/`, input where it was."""
        job = self.claimed(name, content)
        self.roots.fail_job_folder(job.id)
        return self.jobs.transition(job, "fail", by=Actor.WORKER, message="no token", **columns).job

    def completed(self, name: str = "folha.rem", content: bytes = b"content") -> Job:
        """Take a job to its end as Completed: output delivered, input removed."""
        return self.deliver(self.claimed(name, content))

    def deliver(self, job: Job) -> Job:
        """Lead a claimed and staged job to its end as Completed."""
        return self.promoted(self.signed(job))

    def signed(self, job: Job) -> Job:
        """Sign a staged job and say where its output will be."""
        output = self.roots.output_path(f"{job.file_name}.p7m")
        signed = self.roots.job_folder(job.id) / output.name
        signed.write_bytes(b"signed " + (self.roots.job_folder(job.id) / job.file_name).read_bytes())
        measured = durable.measure(signed)
        return self.jobs.transition(
            job,
            "sign",
            by=Actor.WORKER,
            message="Signed",
            output_path=str(output),
            output_length=measured.length,
            output_sha256=measured.sha256.hex(),
        ).job

    def promoted(self, job: Job) -> Job:
        """Deliver a signed job and record it."""
        output = self.roots.output_path(f"{job.file_name}.p7m")
        durable.promote(self.roots.job_folder(job.id) / output.name, output)
        (self.inbox / job.file_name).unlink(missing_ok=True)
        self.roots.discard_job_folder(job.id)
        return self.jobs.transition(job, "complete", by=Actor.WORKER, message="Completed").job

    def read(self, job: Job) -> Job | None:
        """Read a job again."""
        return self.jobs.get(job.id)

    def messages(self, job: Job) -> list[str]:
        """Return the history of a job, oldest first."""
        return [line.message for line in listing.history(self.store, job.id)]

    def events(self, *types: str) -> list[EventEntry]:
        """Return the events of some types, or all, oldest first."""
        return list(event_log.event_page(self.store, EventFilter(types), page_size=1000).items)[::-1]

    @property
    def job_count(self) -> int:
        """Return how many jobs the lists count, which triggers keep."""
        return listing.page(self.store).total_count


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Desk:
    """Operator actions over one folder `in` and one profile `default`."""
    inbox = tmp_path / "in"
    inbox.mkdir()
    roots = WorkRoots(tmp_path / "work")
    roots.prepare()
    folders = OpenedFolders([OpenedFolder("in", LocalFolder(inbox, sleep=lambda _: None))])
    stored = stored_profile(input_folder="in")
    profiles = OpenedProfiles([OpenedProfile(stored, None, None, None, None, None)])
    jobs, queue = Jobs(store), Queue(store)
    announced: list[Changed] = []
    freed: list[str] = []
    names = TakenNames(Names(store), is_on=True)
    admission = Admission(names, TurnedAway(roots), jobs.active_for, roots.landing)
    enqueue = EnqueueService(jobs, queue, profiles, announced.append, lambda _: None, admission)
    operations = assemble(
        store=store,
        jobs=jobs,
        queue=queue,
        profiles=profiles,
        folders=folders,
        roots=roots,
        rescanner=Rescanner(folders, enqueue, profiles.bound, EAGER),
        pause=PauseFlag(store),
        announce=announced.append,
        free_path=freed.append,
        watcher_statuses=list,
        scrub=lambda text: text.replace("hush", "***"),
        clock=utc_now,
    )
    return Desk(store, jobs, queue, folders, roots, inbox, profiles, operations, announced, freed)


@attrs.define
class Neighbour:
    """Another process on the same database and folders; it does one act at a time, at a moment it is told."""

    _process: subprocess.Popen[str]

    def ask(self, act: str, job: Job, at: float) -> None:
        """Have an act done at a time of the monotonic clock, which all processes of a machine share."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{act} {job.id} {at}\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """Wait for the outcome of the act: a word, or the code of a refusal."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the other process died"
        return line


@pytest.fixture
def neighbour(desk: Desk, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Neighbour]:
    """A second process beside this one, ready to act."""
    place = str(tmp_path / "db" / "bulksigner.db")
    if desk.store.kind is EngineKind.POSTGRESQL:
        place = request.getfixturevalue("postgres_url")
    script = Path(__file__).with_name("neighbour.py")
    process = subprocess.Popen(
        [sys.executable, str(script), desk.store.kind.value, place, str(desk.inbox), str(desk.roots.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    neighbour = Neighbour(process)
    assert neighbour.answer() == "ready"
    yield neighbour
    process.communicate(timeout=30)
    assert process.returncode == 0
