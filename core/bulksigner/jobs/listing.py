"""Pages of jobs and the history of one, at a cost that does not grow with finished jobs (PERF-35, API-58, API-59)."""

from __future__ import annotations

import functools

import attrs
import peewee

from bulksigner.jobs.model import HistoryEntry, Job
from bulksigner.jobs.rows import COLUMNS, read_job
from bulksigner.jobs.states import JobStatus
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import HistoryRow, JobCountRow, JobRow
from bulksigner.records.times import read_time

__all__ = ["Page", "history", "page"]


@attrs.frozen
class Page:
    """One page, newest first, and how many jobs all pages hold."""

    items: tuple[Job, ...]
    total_count: int


_HISTORY = Prepared(
    HistoryRow.select(HistoryRow.id, HistoryRow.at, HistoryRow.status, HistoryRow.message)
    .where(HistoryRow.job_id == slot("job_id"))
    .order_by(HistoryRow.id)
)


@functools.cache
def _queries(has_status: bool, has_profile: bool) -> tuple[Prepared, Prepared]:
    """Return the page and its count for one combination of filters."""
    ids = JobRow.select(JobRow.id)
    total = JobCountRow.select(peewee.fn.SUM(JobCountRow.total))
    if has_status:
        ids = ids.where(JobRow.status == slot("status"))
        total = total.where(JobCountRow.status == slot("status"))
    if has_profile:
        ids = ids.where(JobRow.profile_name == slot("profile"))
        total = total.where(JobCountRow.profile_name == slot("profile"))
    newest = (JobRow.created_at.desc(), JobRow.id.desc())
    # The pages before this one are skipped inside an index, without a look at their rows.
    ids = ids.order_by(*newest).limit(slot("limit")).offset(slot("offset"))
    rows = JobRow.alias()
    wanted = [getattr(rows, column.name) for column in COLUMNS]
    items = rows.select(*wanted).where(rows.id.in_(ids)).order_by(rows.created_at.desc(), rows.id.desc())
    return Prepared(items), Prepared(total)


def page(
    store: Store, *, status: JobStatus | None = None, profile: str | None = None, page: int = 1, page_size: int = 50
) -> Page:
    """Return page `page` (from 1) of the jobs with this status and profile, newest first by creation, then id."""
    items, total = _queries(status is not None, profile is not None)
    filters = {"status": status, "profile": profile}

    def look() -> Page:
        rows = store.execute(items, limit=page_size, offset=(page - 1) * page_size, **filters).rows
        counted = store.execute(total, **filters).rows[0][0]
        return Page(tuple(read_job(row) for row in rows), int(counted or 0))

    return store.read(look)


def history(store: Store, job_id: str) -> list[HistoryEntry]:
    """Return the history of a job, oldest first."""
    rows = store.read(lambda: store.execute(_HISTORY, job_id=job_id).rows)
    return [HistoryEntry(row[0], at, JobStatus(row[2]), row[3]) for row in rows if (at := read_time(row[1]))]
