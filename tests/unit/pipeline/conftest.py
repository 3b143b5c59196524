"""A pipeline over a real store and real folders, with an engine, a validator and a store that do as a test says."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.signing import Format, Measured
from bulksigner.contract.validation import CheckReport, StagedFile
from bulksigner.encryption.key import EnvelopeKey
from bulksigner.files.work import WorkRoots
from bulksigner.formats.model import Checked
from bulksigner.jobs import listing
from bulksigner.jobs.model import Changed, Job, Owner, utc_now
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.store import Jobs
from bulksigner.lanes import Done
from bulksigner.pipeline.conductor import apart
from bulksigner.pipeline.engine import WorkerLost, begin_one_by_one
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.pipeline.tasks import CheckTask, SignTask, Task, carry_out
from bulksigner.pipeline.work import Parts
from bulksigner.pipeline.worker import Worker
from bulksigner.plugin_system import roles
from bulksigner.plugin_system.registry import Provided, Registry, RegistryBuilder
from bulksigner.profiles.model import KeyReference, OpenedProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records.migrate import migrate
from bulksigner.records.sqlite import open_sqlite
from bulksigner.records.store import Act, Store
from bulksigner.statistics.timings import Spans
from bulksigner.testing.rows import new_birth, stored_profile

EMPTY = RegistryBuilder().build((), (), (), {}, None)
DAY = datetime.timedelta(days=1)


def measure(content: bytes) -> Measured:
    return Measured(len(content), hashlib.sha256(content).digest())


class Key:
    """A certificate without a use; the engine of these tests asks no key."""

    certificate = b"certificate"
    chain = ()
    algorithm = KeyAlgorithm.RSA

    def close(self) -> None:
        """Hold nothing."""


@attrs.define
class FakeEngine:
    """Signs by writing a mark in front of the content; `act` may do anything before, and `before` ahead of any task.

    For each kind of task in `losses` a worker is lost once, after the task was done or before.
    """

    label: str = "fake"
    tasks: list[SignTask] = attrs.field(factory=list)
    act: Callable[[SignTask], None] = lambda _: None
    see: Callable[[bytes], bytes] = lambda content: content
    check_error: BaseException | None = None
    losses: dict[type, bool] = attrs.field(factory=dict)
    envelope_key: EnvelopeKey | None = None
    before: Callable[[Task[Any]], None] = lambda _: None

    def open(self, reference: KeyReference, key: Any) -> None:
        """Know every key."""

    def forget(self, reference: KeyReference) -> None:
        """Know every key."""

    def begin(self, task: Task[Any], done: Done) -> None:
        apart(lambda: self.perform(task)).begin(done)

    def begin_chain(self, chain: Sequence[tuple[Task[Any], Done]]) -> None:
        begin_one_by_one(self.begin, chain)

    def perform(self, task: Task[Any]) -> Any:
        self.before(task)
        is_done = self.losses.pop(type(task), None)
        if is_done is not None:
            if is_done:
                self.perform(task)
            raise WorkerLost("The signing worker was lost.")
        if isinstance(task, SignTask):
            return self.sign(task)
        return self.check(task) if isinstance(task, CheckTask) else carry_out(task, EMPTY, {}, self.envelope_key)

    def sign(self, task: SignTask) -> Measured:
        self.tasks.append(task)
        self.act(task)
        content = b"signed " + task.staged.read_bytes()
        task.target.write_bytes(content)
        return measure(content)

    def check(self, task: CheckTask) -> Checked:
        if self.check_error is not None:
            raise self.check_error
        return Checked(measure(self.see(task.artifact.read_bytes())), KeyAlgorithm.RSA, "sha256", None)

    def find_fault(self) -> str | None:
        return None

    def close(self) -> None:
        """Hold nothing."""


@attrs.define
class FakeValidator:
    """Answers `report`, after doing `act`; raises what `act` raises."""

    name: str = "payments"
    is_wanted: Any = True
    report: Any = attrs.field(factory=CheckReport)
    act: Callable[[StagedFile], None] = lambda _: None

    def applies(self, extras: Mapping[type, object], format: Format) -> bool:
        answer: bool = self.is_wanted
        return answer

    def check(self, file: StagedFile) -> CheckReport:
        self.act(file)
        report: CheckReport = self.report
        return report


@attrs.define
class FakeInputs:
    """One folder; remembers what was offered again."""

    folder: Any
    offered: list[str] = attrs.field(factory=list)
    consumed: list[str] = attrs.field(factory=list)

    def locate(self, original_path: str) -> tuple[Any, str]:
        return self.folder, Path(original_path).name

    def offer_again(self, job: Job) -> None:
        self.offered.append(job.original_path)

    def consume_sidecar(self, job: Job) -> None:
        self.consumed.append(job.original_path)


@attrs.define
class Moody:
    """The real store, but that submitted acts of some kinds fail, before or after they were committed.

    `fails` yields an error for each that fails; with `is_committed` the act was carried out all the same.
    """

    store: Store
    labels: tuple[str, ...]
    fails: Iterator[BaseException]
    is_committed: bool = False
    calls: int = 0
    shares_commits: bool = True

    def submit(self, act: Act[Any], done: Done) -> None:
        error = None
        if act.label in self.labels:
            self.calls += 1
            error = next(self.fails, None)
        if error is None:
            self.store.submit(act, done)
        elif isinstance(error, Exception):
            if self.is_committed:
                self.store.carry_out(act)
            done(None, error)
        else:
            raise error

    def submit_all(self, acts: Sequence[tuple[Act[Any], Done]]) -> None:
        Store.submit_all(cast("Store", self), acts)


@attrs.define
class Rig:
    """Everything a worker needs, and what a test looks at afterwards."""

    store: Store
    folder_path: Path
    roots: WorkRoots
    engine: Any
    inputs: FakeInputs
    validator: FakeValidator
    profile: OpenedProfile
    queue: Queue
    jobs: Any
    told: list[Changed] = attrs.field(factory=list)
    announce: Callable[[Changed], None] | None = None
    moody: Any = None
    validation_limit_seconds: float = 300.0
    record_timings: Callable[[Job, Spans], None] | None = None
    count_envelope: Callable[[], None] | None = None

    @property
    def registry(self) -> Registry:
        """A registry that knows the validator as one of the plugin `checks`."""
        builder = RegistryBuilder()
        builder.add([Provided("checks", roles.FILE_VALIDATOR, self.validator.name, self.validator)])
        return builder.build((), (), (), {}, None)

    @property
    def parts(self) -> Parts:
        return Parts(
            store=self.moody or self.store,
            jobs=self.jobs,
            queue=self.queue,
            profiles=OpenedProfiles([self.profile]),
            inputs=self.inputs,
            roots=self.roots,
            engine=self.engine,
            registry=self.registry,
            announce=self.announce or self.told.append,
            scrub=lambda text: text.replace("hush", "***"),
            now=utc_now,
            validation_limit_seconds=self.validation_limit_seconds,
            record_timings=self.record_timings,
            count_envelope=self.count_envelope,
        )

    def worker(self, slots: int = 1, poll_interval_seconds: float = 60.0, **options: Any) -> Worker:
        return Worker(
            self.parts,
            PauseFlag(self.store),
            Owner("here", "this-life"),
            slots=slots,
            poll_interval_seconds=poll_interval_seconds,
            **options,
        )

    def drop(self, name: str = "folha.rem", content: bytes = b"content", format: Format = Format.CADES) -> Job:
        """Put a file into the folder and enqueue it."""
        path = self.folder_path / name
        path.write_bytes(content)
        [answer] = self.queue.enqueue([new_birth(name, original_path=str(path), format=format)])
        assert answer.job is not None
        return answer.job

    def job(self, given: Job) -> Job:
        """Read a job again."""
        found = Jobs(self.store).get(given.id)
        assert found is not None
        return found

    def run(self, name: str = "folha.rem", content: bytes = b"content", format: Format = Format.CADES) -> Job:
        """Enqueue a file, let a worker take one turn, and return the job as it ended."""
        job = self.drop(name, content, format)
        assert self.worker().step() == 1
        return self.job(job)

    def history(self, job: Job) -> list[str]:
        return [entry.message for entry in listing.history(self.store, job.id)]

    def vex(self, labels: tuple[str, ...], fails: Iterable[BaseException], *, is_committed: bool = False) -> Moody:
        """Have the store fail acts of these labels from now on."""
        self.moody = Moody(self.store, labels, iter(fails), is_committed)
        return self.moody

    def change_profile(self, **changes: object) -> None:
        """Change the opened profile; keys of the stored one are found there."""
        stored = {name: changes.pop(name) for name in list(changes) if hasattr(self.profile.stored, name)}
        self.profile = attrs.evolve(self.profile, stored=attrs.evolve(self.profile.stored, **stored), **changes)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a migrated database, made once."""
    path = tmp_path_factory.mktemp("migrated") / "db" / "service.db"
    store = open_sqlite(path)
    migrate(store)
    store.close()
    return path.read_bytes()


@pytest.fixture
def rig(tmp_path: Path, migrated: bytes) -> Iterator[Rig]:
    """A pipeline with one folder, one profile and one validator that finds nothing."""
    database = tmp_path / "db" / "service.db"
    database.parent.mkdir()
    database.write_bytes(migrated)
    store = open_sqlite(database)
    roots = WorkRoots(tmp_path / "work")
    roots.prepare()
    folder_path = tmp_path / "in"
    folder_path.mkdir()
    now = utc_now()
    stored = stored_profile()
    yield Rig(
        store=store,
        folder_path=folder_path,
        roots=roots,
        engine=FakeEngine(),
        inputs=FakeInputs(LocalFolder(folder_path, sleep=lambda _: None)),
        validator=FakeValidator(),
        profile=OpenedProfile(stored, Key(), KeyReference("default", "Pfx", None), None, now - DAY, now + DAY),
        queue=Queue(store),
        jobs=Jobs(store),
    )
    store.close()
