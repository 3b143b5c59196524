"""A store and work roots with jobs of any age, and policies over them."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.jobs.model import Job, Owner
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor
from bulksigner.jobs.store import Jobs
from bulksigner.records.events import Event, write_event
from bulksigner.records.prepared import Prepared
from bulksigner.records.store import Store
from bulksigner.records.tables import EventRow
from bulksigner.retention.policy import ClassRule, Policy, RetentionClass
from bulksigner.retention.records import acknowledge
from bulksigner.retention.run import Retention
from bulksigner.statistics.timings import Spans, write_timings
from bulksigner.testing.rows import new_birth

NOW = datetime.datetime(2026, 8, 12, 12, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


@attrs.define
class Ground:
    """Jobs and files; ages are in days before `clock`."""

    store: Store
    roots: WorkRoots
    clock: datetime.datetime = NOW
    count: int = 0

    @property
    def input(self) -> Path:
        """The input folder of every job."""
        return self.roots.root / "input"

    def take(self, age: float, parent: str | None = None) -> Job:
        """Make a job that a worker has; its input is gone."""
        self.count += 1
        at, path = self.clock - age * DAY, str(self.input / str(self.count))
        queue = Queue(self.store, lambda: at)
        queue.enqueue([new_birth(str(self.count), original_path=path, parent_job_id=parent)])
        [changed] = queue.claim(1, Owner("a", "1"))
        return changed.job

    def complete(self, age: float, parent: str | None = None, content: bytes = b"signed") -> Job:
        """Make a job that delivered a file."""
        job = self.take(age, parent)
        path = self.roots.output / f"{self.count}.pdf"
        path.write_bytes(content)
        jobs, written_at = Jobs(self.store, lambda: self.clock - age * DAY), path.stat().st_mtime
        signed = jobs.transition(job, "sign", by=Actor.WORKER, message="Signed", output_path=str(path),
            output_length=len(content), output_sha256="aa").job  # fmt: skip
        modified_at = datetime.datetime.fromtimestamp(written_at, datetime.UTC)
        return jobs.transition(
            signed, "complete", by=Actor.WORKER, message="Completed", output_modified_at=modified_at
        ).job

    def collect(self, age: float, parent: str | None = None, spans: Spans | None = None) -> Job:
        """Make a job that delivered a file which was collected since."""
        job = self.complete(age, parent)
        Path(str(job.output_path)).unlink()
        if spans is not None and job.completed_at is not None:
            at = job.completed_at
            self.store.write(lambda: write_timings(self.store, job, spans, at))
        return job

    def fail(self, age: float, parent: str | None = None, *, is_kept: bool = True) -> Job:
        """Make a job that failed, with its folder under `error/`."""
        job = self.take(age, parent)
        if is_kept:
            self.folder("error", job.id)
        jobs = Jobs(self.store, lambda: self.clock - age * DAY)
        return jobs.transition(job, "fail", by=Actor.WORKER, message="Failed").job

    def folder(self, root: str, name: str, age: float = 0) -> Path:
        """Make a folder with a file in it, last written so long ago."""
        path: Path = self.roots.root / root / name
        path.mkdir()
        (path / "file").write_bytes(b"12345")
        at = (self.clock - age * DAY).timestamp()
        for one in (path / "file", path):
            os.utime(one, (at, at))
        return path

    def event(self, age: float, kind: str = "ServiceStarted") -> None:
        self.store.write(lambda: write_event(self.store, Event(kind, "x"), self.clock - age * DAY))

    def events(self) -> list[str]:
        prepared = Prepared(EventRow.select(EventRow.event_type).order_by(EventRow.id))
        return [row[0] for row in self.store.read(lambda: self.store.execute(prepared).rows)]

    def retention(self, fingerprint: str = "policy", **options: Any) -> Retention:
        """A policy that keeps jobs 90, outputs 10, errors and orphans 30, events 365 days, unless told otherwise."""
        days = {kind.value: days for kind, days in zip(RetentionClass, (90, 10, 30, 30, 365), strict=True)}
        rules = {kind: ClassRule(days[kind.value]) for kind in options.pop("classes", RetentionClass)}
        rules |= options.pop("rules", {})
        policy = Policy(options.pop("enforces", True), options.pop("interval", None), options.pop("max_items", 10_000),
            rules, fingerprint, options.pop("releases_names", False))  # fmt: skip
        folders = options.pop("folders", None) or OpenedFolders([OpenedFolder("in", LocalFolder(self.input))])
        return Retention(self.store, self.roots, folders, policy, clock=lambda: self.clock, **options)

    def accepted(self, **options: Any) -> Retention:
        """A policy that was previewed and acknowledged."""
        made = self.retention(**options)
        preview = made.preview("person")
        acknowledge(self.store, made.policy.fingerprint, preview.id, "person", self.clock)
        return made

    def tree(self) -> set[str]:
        """Every file and folder of the work roots."""
        names = ("input", "processing", "output", "error")
        found = (path for name in names for path in (self.roots.root / name).rglob("*"))
        return {str(path.relative_to(self.roots.root)) for path in found}

    def manifests(self) -> list[list[dict[str, Any]]]:
        """The lines of every manifest, oldest first."""
        found = sorted((self.roots.root / "retention").glob("*.jsonl"))
        return [[json.loads(line) for line in path.read_text().splitlines()] for path in found]


@pytest.fixture
def ground(store: Store, tmp_path: Path) -> Ground:
    """An empty ground, once on each engine."""
    roots = WorkRoots(tmp_path / "data")
    roots.prepare()
    (roots.root / "input").mkdir()
    return Ground(store, roots)


@pytest.fixture
def ground_class() -> type[Ground]:
    """For tests that make many grounds."""
    return Ground
