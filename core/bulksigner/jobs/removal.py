"""Rows of jobs that are taken away: one with what hangs on it (PIPE-101), or all of them (PIPE-103)."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from bulksigner.contract.errors import BulkSignerError, RaceLost
from bulksigner.jobs.model import Job, path_key, utc_now
from bulksigner.jobs.rows import COLUMNS, read_job
from bulksigner.jobs.states import TERMINAL, JobStatus
from bulksigner.records.engines import Store, lift_time_limit
from bulksigner.records.events import Event, delete_events, read_facts, write_event
from bulksigner.records.prepared import Prepared, literal, slot
from bulksigner.records.tables import HistoryRow, JobRow

__all__ = ["CLEARED", "MovedOn", "Removal", "Removed"]

PAGE_SIZE = 500
CLEARED = "JobsCleared"
"""The type of the event that `remove_all` leaves behind."""

_TERMINAL = [literal(status) for status in JobStatus if status in TERMINAL]
# History goes with its job and links of children are ended by the foreign keys.
_REMOVE = Prepared(
    JobRow.delete().where(
        JobRow.id == slot("id"), JobRow.status == slot("status"), JobRow.row_version == slot("row_version")
    )
)
_RELEASE_PATH = Prepared(
    JobRow.update({JobRow.path_released: True}).where(
        JobRow.path_key == slot("path_key"),
        JobRow.status.in_(_TERMINAL),
        JobRow.path_released == False,  # noqa: E712 - an expression of the query, not a comparison here
    )
)
_EXISTS = Prepared(JobRow.select(JobRow.id).where(JobRow.id == slot("id")))
_OLDEST = (JobRow.created_at, JobRow.id)
_FIRST_PAGE = Prepared(
    JobRow.select(*COLUMNS).where(JobRow.created_at <= slot("until")).order_by(*_OLDEST).limit(slot("limit"))
)
_NEXT_PAGE = Prepared(
    JobRow.select(*COLUMNS)
    .where(
        JobRow.created_at <= slot("until"),
        (JobRow.created_at > slot("after")) | ((JobRow.created_at == slot("after")) & (JobRow.id > slot("after_id"))),
    )
    .order_by(*_OLDEST)
    .limit(slot("limit"))
)
# By hand and in bulk what the foreign keys would do row by row.
_REMOVE_HISTORY = Prepared(HistoryRow.delete().where(HistoryRow.at <= slot("until")))
_END_LINKS = Prepared(JobRow.update({JobRow.parent_job_id: None}).where(JobRow.parent_job_id.is_null(False)))
# A file that was turned away meanwhile lies below `error/`, where nothing takes it again: its row tells of it.
_IS_TURNED_AWAY = JobRow.error_code.in_(["file.already-processed", "job.metadata-invalid"])
_REMOVE_ALL = Prepared(JobRow.delete().where(JobRow.created_at <= slot("until")))
_REMOVE_LATE = Prepared(
    JobRow.delete()
    .where(JobRow.created_at > slot("until"), JobRow.error_code.is_null() | ~_IS_TURNED_AWAY)
    .returning(JobRow.id, JobRow.output_path)
)
_SOME = [f"some_{number}" for number in range(PAGE_SIZE)]
_IS_ONE_OF_SOME = JobRow.id.in_([slot(name) for name in _SOME])
_READ_SOME = Prepared(JobRow.select(*COLUMNS).where(_IS_ONE_OF_SOME))
_REMOVE_SOME = Prepared(JobRow.delete().where(_IS_ONE_OF_SOME).returning(JobRow.id, JobRow.row_version))


class MovedOn(BulkSignerError):
    """Report that jobs changed since their files were swept; nothing was removed."""


@attrs.frozen
class Removed:
    """How many rows went; `late_outputs` are what jobs born meanwhile have signed, whose files nobody swept."""

    jobs: int
    events: int
    late_outputs: tuple[str, ...] = ()


class Removal:
    """Removes rows of jobs; files are the caller's, before."""

    def __init__(self, store: Store, clock: Callable[[], datetime.datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock

    def remove(self, job: Job, event: Event) -> None:
        """Remove the row of a job with its history, and release its path, with the event in the same transaction.

        Every job of the path that has ended gets `path_released` (PIPE-44); one that is active keeps its own input.
        Raises `RaceLost` when the job is not any more as it was read; nothing is recorded then.
        """
        now = self._clock()

        def act() -> bool:
            values = {"id": job.id, "status": job.status, "row_version": job.row_version}
            if self._store.execute(_REMOVE, **values).count != 1:
                raise RaceLost(f"Job {job.id} is no longer as it was read ({job.status.value}); nothing was recorded.")
            self._store.execute(_RELEASE_PATH, path_key=path_key(job.original_path))
            write_event(self._store, event, now)
            return True

        def settle() -> bool | None:
            is_there = self._store.read(lambda: self._store.execute(_EXISTS, id=job.id).rows)
            return None if is_there else True

        self._store.write(act, settle=settle)

    def pages(self, until: datetime.datetime) -> Iterator[Sequence[Job]]:
        """Yield the jobs born up to a time, oldest first, page by page; what is born meanwhile is in none."""
        page = self._page(_FIRST_PAGE, until=until)
        while page:
            yield page
            last = page[-1]
            page = self._page(_NEXT_PAGE, until=until, after=last.created_at, after_id=last.id)

    def remove_all(
        self,
        events_before: datetime.datetime,
        tell: Callable[[Removed], Event],
        also: Sequence[Callable[[datetime.datetime], None]] = (),
        swept: Mapping[str, int] | None = None,
    ) -> Removed:
        """Remove every job, and every event from before a time, in one transaction with the event that `tell` makes.

        A job of a file that was turned away since that time stays.

        `swept` are jobs that were not at their end when their files were swept, each with the version it had; raises
        `MovedOn`, and removes nothing, when one of them has another by now (PIPE-104).

        The event is of the type `CLEARED`; how many jobs and events went is added to its facts. Each of `also` is
        called in the transaction with its time, and does database work only (STA-31).
        """
        now = self._clock()

        def act() -> Removed:
            lift_time_limit(self._store)
            self._store.execute(_REMOVE_HISTORY, until=events_before)
            self._store.execute(_END_LINKS)
            late = self._store.execute(_REMOVE_LATE, until=events_before).rows
            jobs = (
                len(late)
                + self._remove_swept(swept or {})
                + self._store.execute(_REMOVE_ALL, until=events_before).count
            )
            outputs = tuple(str(output) for _, output in late if output is not None)
            removed = Removed(jobs, delete_events(self._store, events_before), outputs)
            event = tell(removed)
            facts = {**event.facts, "jobs": removed.jobs, "events": removed.events}
            write_event(self._store, attrs.evolve(event, facts=facts), now)
            for follow in also:
                follow(now)
            return removed

        def settle() -> Removed | None:
            facts = read_facts(self._store, CLEARED, now)
            return None if facts is None else Removed(int(facts["jobs"]), int(facts["events"]))

        return self._store.write(act, settle=settle)

    def moved_on(self, swept: Mapping[str, int]) -> Iterator[Job]:
        """Yield, as they are now, the jobs that have another version than the given one; not those that are gone."""
        for some in _pages_of(list(swept)):
            yield from (job for job in self._jobs(_READ_SOME, **some) if job.row_version != swept[job.id])

    def _remove_swept(self, swept: Mapping[str, int]) -> int:
        """Remove the jobs, and see by what the deletion itself found that none has changed; return how many went."""
        count = 0
        for some in _pages_of(list(swept)):
            for job_id, version in self._store.execute(_REMOVE_SOME, **some).rows:
                if version != swept[job_id]:
                    raise MovedOn(f"Job {job_id} has changed since its files were swept; nothing was removed.")
                count += 1
        return count

    def _page(self, prepared: Prepared, **values: object) -> list[Job]:
        return self._jobs(prepared, limit=PAGE_SIZE, **values)

    def _jobs(self, prepared: Prepared, **values: object) -> list[Job]:
        return [read_job(row) for row in self._store.read(lambda: self._store.execute(prepared, **values).rows)]


def _pages_of(ids: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield the values of the slots `_SOME`, the last id repeated where fewer are left."""
    for start in range(0, len(ids), len(_SOME)):
        page = ids[start : start + len(_SOME)]
        yield dict(zip(_SOME, [*page, *[page[-1]] * (len(_SOME) - len(page))], strict=True))
