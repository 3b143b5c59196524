"""Pages of jobs and the history of one, at a cost that does not grow with finished jobs (PERF-35, API-58, API-59)."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator
from typing import Any

import attrs
import peewee

from bulksigner.jobs.model import HistoryEntry, Job
from bulksigner.jobs.names import name_key
from bulksigner.jobs.rows import COLUMNS, HAS_ENDED, IS_ACTIVE, read_job
from bulksigner.jobs.states import ACTIVE, TERMINAL, JobStatus
from bulksigner.records.engines import EngineKind, Store, has_text
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.tables import HistoryRow, JobCountRow, JobRow
from bulksigner.records.times import read_time

__all__ = ["EVERY_JOB", "JobFilter", "Page", "each", "history", "page"]


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


@attrs.frozen
class JobFilter:
    """Which jobs: of a status, of a profile, with a text in the file name in any case, created from `since` on and
    before `until`; what is None does not matter.
    """

    status: JobStatus | None = None
    profile: str | None = None
    file_name: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None

    @property
    def kinds(self) -> tuple[bool, ...]:
        """Tell which conditions there are, and whether the status is one of active or one of ended jobs."""
        given = (self.status, self.profile, self.file_name, self.since, self.until)
        return (*(value is not None for value in given), self.status in ACTIVE, self.status in TERMINAL)

    @property
    def values(self) -> dict[str, object]:
        """Return the values of the conditions by the names of their slots."""
        return {
            "status": self.status,
            "profile": self.profile,
            "name": None if self.file_name is None else name_key(self.file_name),
            "since": self.since,
            "until": self.until,
        }


EVERY_JOB = JobFilter()
_NEWEST = (JobRow.created_at.desc(), JobRow.id.desc())


def _conditions(kind: EngineKind, kinds: tuple[bool, ...]) -> list[Any]:
    every = (
        JobRow.status == slot("status"),
        JobRow.profile_name == slot("profile"),
        has_text(kind, JobRow.name_key, slot("name")),
        JobRow.created_at >= slot("since"),
        JobRow.created_at < slot("until"),
        IS_ACTIVE,
        HAS_ENDED,
    )
    return [condition for condition, is_given in zip(every, kinds, strict=True) if is_given]


def _filtered(query: Any, conditions: list[Any]) -> Any:
    return query.where(*conditions) if conditions else query


@functools.cache
def _queries(kind: EngineKind, kinds: tuple[bool, ...]) -> tuple[Prepared, Prepared]:
    """Return the page and its count for one combination of filters."""
    conditions = _conditions(kind, kinds)
    # The pages before this one are skipped inside an index, without a look at their rows.
    ids = _filtered(JobRow.select(JobRow.id), conditions).order_by(*_NEWEST).limit(slot("limit")).offset(slot("offset"))
    rows = JobRow.alias()
    wanted = [getattr(rows, column.name) for column in COLUMNS]
    items = rows.select(*wanted).where(rows.id.in_(ids)).order_by(rows.created_at.desc(), rows.id.desc())
    return Prepared(items), Prepared(_count(kinds, conditions))


def _count(kinds: tuple[bool, ...], conditions: list[Any]) -> Any:
    _, has_profile, *others, is_active, has_ended = kinds
    if any(others) or is_active:
        return _filtered(JobRow.select(peewee.fn.COUNT(JobRow.id)), conditions)
    # Ended jobs are counted as they end, so that none is looked at.
    ended = JobCountRow.select(peewee.fn.SUM(JobCountRow.total))
    if has_profile:
        ended = ended.where(JobCountRow.profile_name == slot("profile"))
    if has_ended:
        return ended.where(JobCountRow.status == slot("status"))
    # A condition on the profile would have its finished jobs looked at.
    counted = peewee.Case(None, [(JobRow.profile_name == slot("profile"), JobRow.id)]) if has_profile else JobRow.id
    active = JobRow.select(peewee.fn.COUNT(counted)).where(IS_ACTIVE)
    return peewee.Select([], [peewee.fn.COALESCE(ended, 0) + peewee.fn.COALESCE(active, 0)])


@functools.cache
def _older(kind: EngineKind, kinds: tuple[bool, ...]) -> Prepared:
    """Return the jobs that come after one in the order of a list."""
    is_older = (JobRow.created_at < slot("created_at")) | (
        (JobRow.created_at == slot("created_at")) & (JobRow.id < slot("id"))
    )
    # The first condition alone is what an index can begin from.
    conditions = [*_conditions(kind, kinds), JobRow.created_at <= slot("created_at"), is_older]
    return Prepared(JobRow.select(*COLUMNS).where(*conditions).order_by(*_NEWEST).limit(slot("limit")))


def page(store: Store, wanted: JobFilter = EVERY_JOB, *, page: int = 1, page_size: int = 50) -> Page:
    """Return page `page` (from 1) of the jobs that pass the filter, newest first by creation, then id."""
    items, total = _queries(store.kind, wanted.kinds)

    def look() -> Page:
        rows = store.execute(items, limit=page_size, offset=(page - 1) * page_size, **wanted.values).rows
        counted = store.execute(total, **wanted.values).rows[0][0]
        return Page(tuple(read_job(row) for row in rows), int(counted or 0))

    return store.read(look)


def each(store: Store, wanted: JobFilter, *, limit: int, batch: int = 500) -> Iterator[Job]:
    """Yield up to `limit` jobs that pass the filter, newest first, a batch in memory at a time.

    What is born meanwhile is left out and nothing comes twice: each batch goes on from the last job of the one before.
    """
    found = page(store, wanted, page_size=min(batch, limit)).items
    left = limit
    while found:
        yield from found
        left -= len(found)
        if left <= 0 or len(found) < batch:
            return
        found = _read_older(store, wanted, found[-1], min(batch, left))


def _read_older(store: Store, wanted: JobFilter, last: Job, limit: int) -> tuple[Job, ...]:
    query = _older(store.kind, wanted.kinds)
    place = {"created_at": last.created_at, "id": last.id, "limit": limit}
    return tuple(read_job(row) for row in store.read(lambda: store.execute(query, **place, **wanted.values).rows))


def history(store: Store, job_id: str) -> list[HistoryEntry]:
    """Return the history of a job, oldest first."""
    rows = store.read(lambda: store.execute(_HISTORY, job_id=job_id).rows)
    return [HistoryEntry(row[0], at, JobStatus(row[2]), row[3]) for row in rows if (at := read_time(row[1]))]
