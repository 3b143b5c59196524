"""The rules of an audit: where the file of each job must be, and whose each file of the work roots is (BEY-50)."""

from __future__ import annotations

import datetime
import enum
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from bulksigner.contract.errors import BulkSignerError, ProviderError
from bulksigner.files import durable
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import OpenedFolders
from bulksigner.intake.names import is_landing_name
from bulksigner.jobs.model import Job
from bulksigner.jobs.receipts import Receipts
from bulksigner.jobs.scanning import each_job
from bulksigner.jobs.states import ACTIVE, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.store import Store

__all__ = ["Account", "Audit", "Kind", "Period", "Unaccounted", "run_audit"]

# `durable.move_folder` adds the time where a job's folder was there already.
_TWIN = re.compile(r"(.+)-\d{8}T\d{6}\.\d{6}Z")


class Kind(enum.Enum):
    """What cannot be accounted for."""

    INPUT = "input"
    OUTPUT = "output"
    ERROR = "error"
    PROCESSING = "processing"
    LANDING = "landing"
    UNSEEN = "unseen"


@attrs.frozen
class Unaccounted:
    """One file, or folder of a job, and why nothing accounts for it."""

    kind: Kind
    path: str
    reason: str
    job_id: str | None = None


@attrs.frozen
class Period:
    """From `start` up to, but without, `end`; None leaves that side open."""

    start: datetime.datetime | None = None
    end: datetime.datetime | None = None

    def holds(self, at: datetime.datetime) -> bool:
        """Tell whether a time lies in the period."""
        return (self.start is None or at >= self.start) and (self.end is None or at < self.end)

    def holds_file(self, path: Path) -> bool:
        """Tell whether a file or folder was last written in the period; one that is gone lies in none."""
        try:
            return self.holds(datetime.datetime.fromtimestamp(path.lstat().st_mtime, datetime.UTC))
        except FileNotFoundError:
            return False


@attrs.frozen
class Account:
    """The result: jobs of the period by status, where their outputs are, and what is unaccounted for."""

    jobs: Counter[JobStatus]
    outputs_present: int
    outputs_collected: int
    unaccounted: tuple[Unaccounted, ...]


@attrs.frozen
class Audit:
    """What an audit looks at. It changes nothing; with `hashes` every output present is read in full."""

    store: Store
    folders: OpenedFolders
    roots: WorkRoots
    hashes: bool = False


def run_audit(audit: Audit, period: Period) -> Account:
    """Account for the jobs and files of a period.

    A service that works meanwhile moves files between two looks, so what is found is looked at twice.
    """
    first = _Look(audit, period).account()
    if not first.unaccounted:
        return first
    second = _Look(audit, period).account()
    return attrs.evolve(second, unaccounted=tuple(one for one in second.unaccounted if one in first.unaccounted))


@attrs.define
class _Look:
    """One pass over the folders and then over every job."""

    audit: Audit
    period: Period
    found: list[Unaccounted] = attrs.field(factory=list)
    counts: Counter[JobStatus] = attrs.field(factory=Counter)
    collected: int = 0
    let_go: frozenset[str] | None = None

    def account(self) -> Account:
        roots, audit = self.audit.roots, self.audit
        # Folders first: a file that comes later belongs to a job that is read later, too.
        outputs = {str(path): path for path in _list(roots.output)}
        errors = _list(roots.error)
        processing = {path.name: path for path in _list(roots.processing)}
        landing = list(self._landing_copies())
        named: dict[str, Job] = {}
        companions: set[str | None] = set()
        for job in each_job(audit.store):
            if job.output_path in outputs:
                # The newest, where an output was collected and its name given again.
                named[job.output_path] = job
            if job.companion_path is not None:
                companions.add(job.companion_path)
            if job.status in ACTIVE:
                processing.pop(job.id, None)
            if self.period.holds(job.created_at):
                self.counts[job.status] += 1
                self._account_for(job)
        jobs = Jobs(audit.store)
        unnamed = outputs.keys() - named.keys() - companions
        # Receipts lie beside the outputs, each where its row says (BEY-03).
        unnamed -= Receipts(audit.store).places() if unnamed else frozenset()
        self._report(Kind.OUTPUT, (outputs[name] for name in unnamed), "no job names it")
        for name, job in named.items():
            self._compare(outputs[name], job)
        strangers = (path for path in errors if jobs.get(_job_of(path.name)) is None)
        self._report(Kind.ERROR, strangers, "it belongs to no job")
        self._report(Kind.PROCESSING, processing.values(), "it belongs to no job that is under way")
        for path in landing:
            if path not in jobs.latest_for([path]):
                self.found.append(Unaccounted(Kind.LANDING, path, "an upload that was never acknowledged"))
        return Account(self.counts, len(named), self.collected, tuple(self.found))

    def _report(self, kind: Kind, paths: Iterable[Path], reason: str) -> None:
        for path in sorted(paths):
            if self.period.holds_file(path):
                self.found.append(Unaccounted(kind, str(path), reason))

    def _landing_copies(self) -> Iterator[str]:
        folder = self.audit.folders.landing.folder
        try:
            names = [entry.name for entry in folder.entries() if is_landing_name(entry.name)]
        except ProviderError as error:
            self.found.append(Unaccounted(Kind.UNSEEN, folder.location, f"the folder cannot be read: {error.message}"))
            return
        yield from (folder.path_of(name) for name in names)

    def _account_for(self, job: Job) -> None:
        """Find where the file of a job is: in the folder, staged, kept, delivered, or with a later job."""
        if job.status is JobStatus.COMPLETED:
            if job.output_path is None:
                self.found.append(Unaccounted(Kind.OUTPUT, job.original_path, "completed without an output", job.id))
            elif not Path(job.output_path).exists():
                self.collected += 1
            return
        if self._has_copy(job):
            return
        try:
            if self.audit.folders.input_exists(job.original_path):
                return
        except BulkSignerError as error:
            reason = f"whether the input is there cannot be seen: {error.message}"
            self.found.append(Unaccounted(Kind.UNSEEN, job.original_path, reason, job.id))
            return
        if not self._went_on(job) and job.id not in self._let_go():
            reason = f"the job is {job.status.value}, its input is gone, and there is no staged copy"
            self.found.append(Unaccounted(Kind.INPUT, job.original_path, reason, job.id))

    def _has_copy(self, job: Job) -> bool:
        places = (self.audit.roots.job_folder(job.id), self.audit.roots.error_folder(job.id))
        if any(place.is_dir() and any(place.iterdir()) for place in places):
            return True
        # Delivered before the job failed; its history says so (PIPE-85).
        return any(place is not None and Path(place).exists() for place in (job.output_path, job.companion_path))

    def _went_on(self, job: Job) -> bool:
        """Tell whether a later job took the same content from the same path."""
        later = Jobs(self.audit.store).latest_for([job.original_path]).get(job.original_path)
        if later is None or later.id == job.id:
            return False
        known = (job.staged_sha256, later.staged_sha256)
        return None in known or known[0] == known[1]

    def _let_go(self) -> frozenset[str]:
        """Return the jobs whose folder under `error/` the retention policy removed or moved, as its manifests tell."""
        if self.let_go is None:
            lines = (
                json.loads(line)
                for path in sorted((self.audit.roots.root / "retention").glob("*.jsonl"))
                for line in path.read_text(encoding="utf-8").splitlines()
                # The last line of a run that was killed may be half there.
                if line.endswith("}")
            )
            self.let_go = frozenset(
                line["jobId"]
                for line in lines
                if line.get("class") == "Error" and str(line["result"]).startswith(("removed", "moved"))
            )
        return self.let_go

    def _compare(self, path: Path, job: Job) -> None:
        """Compare an output with what was recorded when it was promoted."""
        reason = "its content is not what the job delivered"
        try:
            seen = path.lstat()
            modified_at = datetime.datetime.fromtimestamp(seen.st_mtime, datetime.UTC)
            is_as_recorded = seen.st_size == job.output_length and modified_at == job.output_modified_at
            if self.audit.hashes or not is_as_recorded:
                is_as_recorded = durable.measure(path).sha256.hex() == job.output_sha256
        except FileNotFoundError:
            return
        except OSError as error:
            # A link, or a file that this account may not read: nobody can say that it is the job's.
            is_as_recorded, reason = False, f"it cannot be compared: {error.strerror or error}"
        if not is_as_recorded and self.period.holds_file(path):
            self.found.append(Unaccounted(Kind.OUTPUT, str(path), reason, job.id))


def _job_of(name: str) -> str:
    twin = _TWIN.fullmatch(name)
    return name if twin is None else twin[1]


def _list(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
