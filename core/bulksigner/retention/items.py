"""What is old enough to go, and whether it may: one routine for previews and runs (STA-59 to STA-69, STA-72)."""

from __future__ import annotations

import datetime
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from bulksigner.files import durable
from bulksigner.files.work import WorkRoots
from bulksigner.jobs.model import Job
from bulksigner.jobs.scanning import each_job
from bulksigner.jobs.store import Jobs
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import EventRow
from bulksigner.records.times import read_time
from bulksigner.retention.chains import Chains
from bulksigner.retention.job_rows import JobRows
from bulksigner.retention.policy import RetentionClass

__all__ = ["PROTECTED_EVENTS", "Item", "Selection", "job_of_folder"]

PROTECTED_EVENTS = (
    "Approval",
    "Approver",
    "RejectedFileHandedBack",
    "JobDeleted",
    "JobsCleared",
    "JobTakenOver",
    "SigningProfile",
    "Retention",
    "FileNameReleased",
)
"""Beginnings of the event types that tell who decided and removed what; they are kept for ever (STA-67)."""

_BATCH = 500
# `durable.move_folder` adds the time where a job's folder was there already.
_TWIN = re.compile(r"(.+)-\d{8}T\d{6}\.\d{6}Z")
_EVENTS = Prepared(
    EventRow.select(EventRow.id, EventRow.at, EventRow.event_type)
    .where(EventRow.at < slot("cutoff"), EventRow.id > slot("after"))
    .order_by(EventRow.id)
    .limit(_BATCH)
)


@attrs.frozen
class Item:
    """One thing that is old enough. `name` is that of the file or folder, or the type of an event.

    Items of one `chain` go together.
    """

    kind: RetentionClass
    name: str
    aged_from: datetime.datetime
    job_id: str | None = None
    path: Path | None = None
    event_id: int | None = None
    length: int = 0
    sha256: str | None = None
    chain: str | None = None


@attrs.frozen
class Selection:
    """Finds items and judges them; `judge` is asked again just before an item goes."""

    store: Store
    roots: WorkRoots
    job_rows: JobRows

    def items(self, kind: RetentionClass, cutoff: datetime.datetime) -> Iterator[Item]:
        """Yield what is older than `cutoff`, oldest first where the database knows the age."""
        find: Callable[[datetime.datetime], Iterator[Item]] = {
            RetentionClass.JOBS: self._jobs,
            RetentionClass.OUTPUT: self._outputs,
            RetentionClass.ERROR: self._errors,
            RetentionClass.ORPHANS: self._orphans,
            RetentionClass.EVENTS: self._events,
        }[kind]
        return find(cutoff)

    def judge(self, item: Item, cutoff: datetime.datetime) -> str | None:
        """Say why an item stays although it is old, or None when it may go."""
        if item.kind is RetentionClass.EVENTS:
            return None
        if item.kind is RetentionClass.JOBS:
            return self.job_rows.judge(item.job_id or "", cutoff)
        if item.path is None or not _is_inside(item.path, self._root_of(item)):
            return "outside its folder"
        job = None if item.job_id is None else Jobs(self.store).get(item.job_id)
        if item.kind is RetentionClass.ORPHANS:
            return self._judge_folder(item.path) or (
                "it belongs to a job" if Jobs(self.store).get(job_of_folder(item.name)) is not None else None
            )
        if job is None:
            return "its job is gone"
        reason = self._judge_output(item.path, job) if item.kind is RetentionClass.OUTPUT else None
        if item.kind is RetentionClass.ERROR:
            reason = self._judge_folder(item.path)
        chains = Chains(self.store)
        return reason or chains.judge(chains.members(job), cutoff)

    def _root_of(self, item: Item) -> Path:
        if item.kind is RetentionClass.OUTPUT:
            return self.roots.output
        is_staged = item.path is not None and item.path.parent == self.roots.processing
        return self.roots.processing if item.kind is RetentionClass.ORPHANS and is_staged else self.roots.error

    def _jobs(self, cutoff: datetime.datetime) -> Iterator[Item]:
        for members in self.job_rows.chains(cutoff):
            for job in members:
                ended_at = job.completed_at or job.updated_at
                yield Item(
                    RetentionClass.JOBS, job.file_name, ended_at, job.id, sha256=job.output_sha256, chain=members[0].id
                )

    def _outputs(self, cutoff: datetime.datetime) -> Iterator[Item]:
        for job in each_job(self.store):
            if job.created_at >= cutoff:
                return
            if job.completed_at is None or job.completed_at >= cutoff or job.output_path is None:
                continue
            path = Path(job.output_path)
            if not os.path.lexists(path):
                continue
            # First, as the signature beside it is what tells whose it is.
            if job.companion_path is not None and os.path.lexists(job.companion_path):
                content = Path(job.companion_path)
                yield Item(
                    RetentionClass.OUTPUT,
                    content.name,
                    job.completed_at,
                    job.id,
                    content,
                    length=job.staged_length or 0,
                    sha256=job.staged_sha256,
                )
            yield Item(
                RetentionClass.OUTPUT,
                path.name,
                job.completed_at,
                job.id,
                path,
                length=job.output_length or 0,
                sha256=job.output_sha256,
            )

    def _errors(self, cutoff: datetime.datetime) -> Iterator[Item]:
        jobs = Jobs(self.store)
        for path in _folders(self.roots.error):
            job = jobs.get(job_of_folder(path.name))
            if job is not None and job.completed_at is not None and job.completed_at < cutoff:
                yield Item(RetentionClass.ERROR, path.name, job.completed_at, job.id, path, length=_measure(path)[0])

    def _orphans(self, cutoff: datetime.datetime) -> Iterator[Item]:
        jobs = Jobs(self.store)
        for root in (self.roots.processing, self.roots.error):
            for path in _folders(root):
                if jobs.get(job_of_folder(path.name)) is None:
                    length, written_at = _measure(path)
                    if written_at < cutoff:
                        yield Item(RetentionClass.ORPHANS, path.name, written_at, None, path, length=length)

    def _events(self, cutoff: datetime.datetime) -> Iterator[Item]:
        after = 0
        while rows := self._old_events(cutoff, after):
            for event_id, at, event_type in rows:
                happened_at = read_time(at)
                if happened_at is not None and not event_type.startswith(PROTECTED_EVENTS):
                    yield Item(RetentionClass.EVENTS, event_type, happened_at, event_id=event_id)
            after = rows[-1][0]

    def _old_events(self, cutoff: datetime.datetime, after: int) -> list[tuple[int, object, str]]:
        return self.store.read(lambda: self.store.execute(_EVENTS, cutoff=cutoff, after=after).rows)

    def _judge_output(self, path: Path, job: Job) -> str | None:
        if job.companion_path == str(path):
            return self._judge_companion(path, job)
        if job.output_path != str(path):
            return "not the path its job recorded"
        try:
            seen = path.lstat()
        except FileNotFoundError:
            return "gone meanwhile"
        if not stat.S_ISREG(seen.st_mode):
            return "not a regular file"
        modified_at = datetime.datetime.fromtimestamp(seen.st_mtime, datetime.UTC)
        if seen.st_size != job.output_length or modified_at != job.output_modified_at:
            return "not the file its job delivered"
        return None

    def _judge_companion(self, path: Path, job: Job) -> str | None:
        """Judge the content beside a detached signature, which must lie there: another job may deliver it again."""
        reason = "it has no output" if job.output_path is None else self._judge_output(Path(job.output_path), job)
        if reason is not None:
            return f"its signature: {reason}"
        try:
            is_same = durable.measure(path).sha256.hex() == job.staged_sha256
        except FileNotFoundError:
            return "gone meanwhile"
        except OSError as error:
            return f"it cannot be read: {error.strerror or error}"
        return None if is_same else "not the file its job delivered"

    def _judge_folder(self, path: Path) -> str | None:
        try:
            return None if stat.S_ISDIR(path.lstat().st_mode) else "not a folder"
        except FileNotFoundError:
            return "gone meanwhile"


def _is_inside(path: Path, root: Path) -> bool:
    return path.parent == root and ".." not in path.parts and path.parent.resolve() == root.resolve()


def job_of_folder(name: str) -> str:
    """Return the id of the job that a folder under `error/` was made for."""
    twin = _TWIN.fullmatch(name)
    return name if twin is None else twin[1]


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())
    except FileNotFoundError:
        return []


def _measure(folder: Path) -> tuple[int, datetime.datetime]:
    """Return how much a folder holds, and when anything in it was last written."""
    length, newest = 0, folder.lstat().st_mtime
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                seen = (Path(at) / name).lstat()
            except FileNotFoundError:
                continue
            length, newest = length + seen.st_size, max(newest, seen.st_mtime)
        newest = max(newest, Path(at).lstat().st_mtime)
    return length, datetime.datetime.fromtimestamp(newest, datetime.UTC)
