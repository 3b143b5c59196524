"""Chains of retries, of which all members go or none (STA-65)."""

from __future__ import annotations

import datetime

import attrs

from bulksigner.jobs.model import Job
from bulksigner.jobs.rows import COLUMNS, read_job
from bulksigner.jobs.states import TERMINAL
from bulksigner.jobs.store import Jobs
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import JobRow

__all__ = ["Chains"]

_CHILDREN = Prepared(JobRow.select(*COLUMNS).where(JobRow.parent_job_id == slot("id")))


@attrs.frozen
class Chains:
    """Finds the jobs that retries tie to each other, and judges them together."""

    store: Store

    def members(self, job: Job) -> list[Job]:
        """Return the whole chain of a job, oldest first."""
        jobs, members, open_ends = Jobs(self.store), dict[str, Job](), [job]
        while open_ends:
            member = open_ends.pop()
            if member.id in members:
                continue
            members[member.id] = member
            parent = None if member.parent_job_id is None else jobs.get(member.parent_job_id)
            open_ends += [] if parent is None else [parent]
            open_ends += self._children(member.id)
        return sorted(members.values(), key=lambda member: (member.created_at, member.id))

    def judge(self, members: list[Job], cutoff: datetime.datetime) -> str | None:
        """Say why a chain stays, or None when every member has ended before `cutoff`."""
        for member in members:
            if member.status not in TERMINAL:
                return "a job of its retry chain is not ended"
            if member.completed_at is None or member.completed_at >= cutoff:
                return "a job of its retry chain is younger"
        return None

    def _children(self, job_id: str) -> list[Job]:
        rows = self.store.read(lambda: self.store.execute(_CHILDREN, id=job_id).rows)
        return [read_job(row) for row in rows]
