"""The only writer of a job's status: a conditional update and what belongs to it, in one transaction (PIPE-04)."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import peewee

from bulksigner.contract.errors import RaceLost
from bulksigner.contract.observe import JobChange
from bulksigner.jobs.model import Changed, Job, path_key, utc_now
from bulksigner.jobs.rows import COLUMNS, IS_ACTIVE, NAMES, read_job, with_changes, write_history
from bulksigner.jobs.states import TERMINAL, Actor, JobStatus, find_transition
from bulksigner.records.events import Event, write_event
from bulksigner.records.prepared import Asked, Prepared, literal, slot
from bulksigner.records.store import Act, Store
from bulksigner.records.tables import JobCountRow, JobRow

__all__ = ["Jobs", "change_of"]

OWNERLESS = frozenset((JobStatus.QUEUED, JobStatus.AWAITING_APPROVAL))
"""Where nobody has the job: entering ends an ownership."""

_KEPT = ("id", "status", "created_at", "queued_at", "updated_at", "completed_at", "row_version")
_SETTABLE = frozenset(NAMES) - frozenset(_KEPT) - {"metadata", "sidecar_sha256"}

_GET = Prepared(JobRow.select(*COLUMNS).where(JobRow.id == slot("id")))
_ACTIVE_FOR = Prepared(JobRow.select(*COLUMNS).where(JobRow.path_key == slot("path_key"), IS_ACTIVE))
_LATEST_FOR = Prepared(
    JobRow.select(*COLUMNS)
    .where(JobRow.path_key == slot("path_key"))
    .order_by(JobRow.created_at.desc(), JobRow.id.desc())
    .limit(1)
)
_ASKED = Asked(32)
_KNOWN_PATHS = _ASKED.where(peewee.fn.EXISTS(JobRow.select(peewee.SQL("1")).where(JobRow.path_key == _ASKED.text)))
_IN_FLIGHT = Prepared(
    JobRow.select(*COLUMNS).where(
        JobRow.status.in_([literal(JobStatus.PROCESSING), literal(JobStatus.VERIFYING)]), IS_ACTIVE
    )
)
_COUNTS = Prepared(
    JobCountRow.select(JobCountRow.status, peewee.fn.SUM(JobCountRow.total))
    .group_by(JobCountRow.status)
    .union_all(JobRow.select(JobRow.status, peewee.fn.COUNT(JobRow.id)).where(IS_ACTIVE).group_by(JobRow.status))
)


@functools.cache
def _update(names: tuple[str, ...], is_owned: bool) -> Prepared:
    """Return the conditional update of these columns; few combinations exist, each is compiled once (PERF-08)."""
    values = {getattr(JobRow, name): slot(name) for name in names}
    conditions = [
        JobRow.id == slot("read_id"),
        JobRow.status == slot("read_status"),
        JobRow.row_version == slot("read_version"),
    ]
    if is_owned:
        conditions.append(JobRow.owner_identity == slot("read_identity"))
        conditions.append(JobRow.owner_incarnation == slot("read_incarnation"))
    return Prepared(JobRow.update(values).where(*conditions))


def change_of(job: Job, event: str, before: JobStatus | None, message: str) -> JobChange:
    """Describe a committed change for those who watch."""
    return JobChange(
        job_id=job.id,
        event=event,
        before=None if before is None else before.value,
        after=job.status.value,
        profile=job.profile_name,
        format=job.format.value,
        at=job.updated_at,
        message=message,
    )


class Jobs:
    """Reads jobs and moves them along the table of `jobs.states`."""

    def __init__(self, store: Store, clock: Callable[[], datetime.datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock

    def transition(
        self,
        job: Job,
        event: str,
        *,
        by: Actor,
        message: str,
        operational_event: Event | None = None,
        also: Callable[[Job], None] | None = None,
        **columns: object,
    ) -> Changed:
        """Move `job` along one row of the table and wait for it; see `moving`, whose errors it raises."""
        return self._store.carry_out(
            self.moving(job, event, by=by, message=message, operational_event=operational_event, also=also, **columns)
        )

    def record(
        self, job: Job, *, message: str | None = None, operational_event: Event | None = None, **columns: Any
    ) -> Job:
        """Set `columns` and wait for it; see `recording`, whose errors it raises."""
        return self._store.carry_out(
            self.recording(job, message=message, operational_event=operational_event, **columns)
        )

    def moving(
        self,
        job: Job,
        event: str,
        *,
        by: Actor,
        message: str,
        operational_event: Event | None = None,
        also: Callable[[Job], None] | None = None,
        **columns: object,
    ) -> Act[Changed]:
        """Return the act that moves `job` along one row of the table, with history and event in its transaction.

        `columns` are set with it, and `also` writes more in the same act; it is given the job as it is afterwards.
        Raises `NotAllowed` when the table has no such row; the act raises `RaceLost` when the job is not any more as
        it was read, and then nothing was recorded.
        """
        row = find_transition(job.status, event, by)
        now = self._clock()
        machine: dict[str, object] = {"status": row.target}
        if row.target in OWNERLESS:
            machine |= {"owner_identity": None, "owner_incarnation": None}
        if row.target is JobStatus.QUEUED:
            machine["queued_at"] = now
        if row.target in TERMINAL:
            machine["completed_at"] = now
        change, after = self._change(job, now, machine, columns, message, operational_event)
        changed = Changed(after, change_of(after, event, job.status, message), wakes=row.target is JobStatus.QUEUED)

        def act() -> Changed:
            change()
            if also is not None:
                also(after)
            return changed

        return Act(event, act, lambda: changed if self.get(job.id) == after else None)

    def recording(
        self,
        job: Job,
        *,
        message: str | None = None,
        operational_event: Event | None = None,
        also: Callable[[], None] | None = None,
        **columns: object,
    ) -> Act[Job]:
        """Return the act that sets `columns` without a change of status, under the same conditions.

        A history line is written only with `message`; `also` writes more in the same act.
        """
        change, after = self._change(job, self._clock(), {}, columns, message, operational_event)

        def act() -> Job:
            change()
            if also is not None:
                also()
            return after

        return Act("record", act, lambda: after if self.get(job.id) == after else None)

    def get(self, job_id: str) -> Job | None:
        """Return the job, or None."""
        return self._one(_GET, id=job_id)

    def active_for(self, path: str) -> Job | None:
        """Return the job that has this path now (PIPE-02), or None."""
        return self._one(_ACTIVE_FOR, path_key=path_key(path))

    def latest_for(self, paths: Sequence[str]) -> Mapping[str, Job]:
        """Return the most recent job of each path that has one (PIPE-44)."""
        keys = {path: path_key(path) for path in paths}

        def look() -> dict[str, Job]:
            # Most files are new, and to ask which are not costs a fraction of asking for the job of each.
            known = {
                row[0]
                for asked in _ASKED.groups(list(keys.values()))
                for row in self._store.execute(_KNOWN_PATHS, **asked).rows
            }
            spelled = {path: key for path, key in keys.items() if key in known}
            found = ((path, self._store.execute(_LATEST_FOR, path_key=key).rows) for path, key in spelled.items())
            return {path: read_job(rows[0]) for path, rows in found if rows}

        return self._store.read(look)

    def in_flight(self) -> list[Job]:
        """Return the jobs in Processing and Verifying, oldest first (CLU-05)."""
        rows = self._store.read(lambda: self._store.execute(_IN_FLIGHT).rows)
        return sorted(map(read_job, rows), key=lambda job: (job.created_at, job.id))

    def counts(self) -> Mapping[JobStatus, int]:
        """Return how many jobs each status has, zeros included."""
        found = dict(self._store.read(lambda: self._store.execute(_COUNTS).rows))
        return {status: int(found.get(status.value, 0)) for status in JobStatus}

    def _one(self, prepared: Prepared, **values: object) -> Job | None:
        rows = self._store.read(lambda: self._store.execute(prepared, **values).rows)
        return read_job(rows[0]) if rows else None

    def _change(
        self,
        job: Job,
        now: datetime.datetime,
        machine: Mapping[str, object],
        columns: Mapping[str, object],
        message: str | None,
        operational_event: Event | None,
    ) -> tuple[Callable[[], None], Job]:
        if unknown := columns.keys() - _SETTABLE:
            raise TypeError(f"no columns to set: {', '.join(sorted(unknown))}")
        values: dict[str, Any] = {**columns, **machine, "updated_at": now, "row_version": job.row_version + 1}
        after = with_changes(job, values)
        update = _update(tuple(values), job.owner_identity is not None)

        def change() -> None:
            touched = self._store.execute(
                update,
                **values,
                read_id=job.id,
                read_status=job.status,
                read_version=job.row_version,
                read_identity=job.owner_identity,
                read_incarnation=job.owner_incarnation,
            ).count
            if touched != 1:
                raise RaceLost(f"Job {job.id} is no longer as it was read ({job.status.value}); nothing was recorded.")
            if message is not None:
                write_history(self._store, job.id, now, after.status, message)
            if operational_event is not None:
                write_event(self._store, operational_event, now)

        return change, after
