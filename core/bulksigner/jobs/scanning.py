"""Read every job, oldest first, at a cost in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Iterator

from bulksigner.jobs.model import Job
from bulksigner.jobs.rows import COLUMNS, read_job
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import JobRow

__all__ = ["each_job"]

_BATCH = 1000
_FIRST = Prepared(JobRow.select(*COLUMNS).order_by(JobRow.created_at, JobRow.id).limit(_BATCH))
_NEXT = Prepared(
    JobRow.select(*COLUMNS)
    .where((JobRow.created_at >= slot("at")) & ((JobRow.created_at > slot("after")) | (JobRow.id > slot("id"))))
    .order_by(JobRow.created_at, JobRow.id)
    .limit(_BATCH)
)


def each_job(store: Store) -> Iterator[Job]:
    """Yield every job there is, oldest first."""
    jobs = _read(store, None)
    while jobs:
        yield from jobs
        jobs = _read(store, jobs[-1])


def _read(store: Store, last: Job | None) -> list[Job]:
    def look() -> list[Job]:
        if last is None:
            rows = store.execute(_FIRST).rows
        else:
            rows = store.execute(_NEXT, at=last.created_at, after=last.created_at, id=last.id).rows
        return [read_job(row) for row in rows]

    return store.read(look)
