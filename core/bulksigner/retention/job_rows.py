"""Jobs that are old enough to go with their history and timings, and what keeps them (STA-62, STA-65, STA-66)."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import attrs

from bulksigner.contract.errors import RaceLost
from bulksigner.intake.folders import OpenedFolder
from bulksigner.jobs.model import Job
from bulksigner.jobs.pruning import prune
from bulksigner.jobs.scanning import each_job
from bulksigner.jobs.states import TERMINAL
from bulksigner.jobs.store import Jobs
from bulksigner.operations.leftovers import Leftovers
from bulksigner.plugin_system.guard import ANYTHING
from bulksigner.records.store import Store
from bulksigner.retention.chains import Chains
from bulksigner.statistics.daily import read_timings, write_days

__all__ = ["JobRows"]

CHANGED = "it changed meanwhile"


@attrs.define(slots=False)
class JobRows:
    """Finds old jobs and removes their rows, chain by chain; with `releases_names` their names become free."""

    store: Store
    leftovers: Leftovers
    job_of_folder: Callable[[str], str]
    releases_names: bool = False
    _seen_folders: set[str] = attrs.field(factory=set, init=False)

    def chains(self, cutoff: datetime.datetime) -> Iterator[list[Job]]:
        """Yield the members that are old enough of each chain that has some, the chain of the oldest job first."""
        seen: set[str] = set()
        chains = Chains(self.store)
        for job in each_job(self.store):
            if job.created_at >= cutoff:
                return
            if job.id in seen:
                # Each comes by once.
                seen.discard(job.id)
                continue
            members = chains.members(job)
            seen.update(member.id for member in members if member.id != job.id)
            if old := [member for member in members if _is_old(member, cutoff)]:
                yield old

    def judge(self, job_id: str, cutoff: datetime.datetime) -> str | None:
        """Say why a job stays, or None: it and its whole chain have ended in time and left no file."""
        job = Jobs(self.store).get(job_id)
        return "its job is gone" if job is None else self._judge_chain(Chains(self.store).members(job), cutoff)

    def remove(self, job_ids: list[str], cutoff: datetime.datetime) -> dict[str, str]:
        """Remove the rows of whole chains; returns, by job, why some stay all the same."""
        kept: dict[str, str] = {}
        going: list[list[Job]] = []
        wanted, settled = set(job_ids), set[str]()
        for job_id in job_ids:
            if job_id in settled:
                continue
            # Read once, so that what was judged is what is removed.
            job = Jobs(self.store).get(job_id)
            members = [] if job is None else Chains(self.store).members(job)
            ids = {member.id for member in members} or {job_id}
            settled |= ids
            reason = self._judge_chain(members, cutoff) if members else "its job is gone"
            if reason is None and not ids <= wanted:
                reason = CHANGED
            if reason is None:
                going.append(members)
            else:
                kept |= dict.fromkeys(ids & wanted, reason)
        try:
            self._remove([job for members in going for job in members])
        except RaceLost:
            for members in going:
                try:
                    self._remove(members)
                except RaceLost:
                    kept |= {member.id: CHANGED for member in members}
        return kept

    def _remove(self, jobs: list[Job]) -> None:
        def around(remove: Callable[[], None]) -> None:
            timings = read_timings(self.store, (job.id for job in jobs))
            remove()
            write_days(self.store, timings)

        if jobs:
            prune(self.store, jobs, holds_names=not self.releases_names, around=around)

    def _judge_chain(self, members: list[Job], cutoff: datetime.datetime) -> str | None:
        reason = Chains(self.store).judge(members, cutoff)
        if reason is not None:
            return reason
        found = (find(self, member) for member in members for find in _PROTECTIONS)
        return next((reason for reason in found if reason is not None), None)

    def _find_output(self, job: Job) -> str | None:
        if job.output_path is None:
            return None
        if not Path(job.output_path).parent.is_dir():
            return "the folder of its output is not there"
        delivered = filter(None, (job.output_path, job.companion_path))
        return "its output is still there" if any(map(os.path.lexists, delivered)) else None

    def _find_folder(self, job: Job) -> str | None:
        is_there = any(os.path.lexists(place) for place in self.leftovers.job_folders(job)) or job.id in self._twins
        return "its folder under processing/ or error/ is still there" if is_there else None

    def _find_input(self, job: Job) -> str | None:
        """Look for an input that its watcher would take for a new file once nothing says that it failed (STA-66)."""
        if self.leftovers.has_removed_input(job):
            return None
        found = self.leftovers.folders.resolve(job.original_path)
        if found is None:
            return "no input folder of this host could hold its input"
        opened, name = found
        try:
            if opened.folder.look(name) is not None:
                return "its input is still there"
            is_seen = self._can_see(opened)
        except ANYTHING:  # whatever a storage provider raises, nobody can say that the file is gone
            is_seen = False
        return None if is_seen else "whether its input is there cannot be seen"

    def _can_see(self, opened: OpenedFolder) -> bool:
        """Tell whether a folder really is there: from one whose mount is gone, every file seems to be."""
        if opened.name not in self._seen_folders:
            next(iter(opened.folder.entries()), None)
            self._seen_folders.add(opened.name)
        return opened.guard is None or opened.guard.find_fault() is None

    @cached_property
    def _twins(self) -> frozenset[str]:
        """The jobs with a folder under `error/` that has the time in its name."""
        try:
            names = [place.name for place in self.leftovers.roots.error.iterdir()]
        except FileNotFoundError:
            return frozenset()
        return frozenset(job_id for name in names if (job_id := self.job_of_folder(name)) != name)


_PROTECTIONS: tuple[Callable[[JobRows, Job], str | None], ...] = (
    JobRows._find_output,
    JobRows._find_folder,
    JobRows._find_input,
)
"""What keeps an old job, each a reason or None; evidence that may not be lost is one more of them (STA-60)."""


def _is_old(job: Job, cutoff: datetime.datetime) -> bool:
    return job.status in TERMINAL and job.completed_at is not None and job.completed_at < cutoff
