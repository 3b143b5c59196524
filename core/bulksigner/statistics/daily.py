"""What stays of stage timings whose jobs are removed by age: sums for each day, so that no figure jumps (STA-77)."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import JobTimingDailyRow, JobTimingRow, JobTimingSumRow, StatisticsStateRow
from bulksigner.records.times import read_time

__all__ = ["STAGES", "forget_days", "read_timings", "write_days"]

STAGES = ("total", "queue_wait", "signing", "verification", "output")
"""What is timed, as the columns of the tables begin."""

_KEY = ("day", "method", "format", "profile")
_PARTS = ("n", "ms", "least_ms", "most_ms")
_COLUMNS = ("first_at", *(f"{stage}_{part}" for stage in STAGES for part in _PARTS))
_is_this_day = [getattr(JobTimingDailyRow, name) == slot(name) for name in _KEY]
_MARKER = Prepared(StatisticsStateRow.select(StatisticsStateRow.reset_at))
_TIMING = Prepared(
    JobTimingRow.select(
        JobTimingRow.completed_at,
        JobTimingRow.method,
        JobTimingRow.format,
        JobTimingRow.profile,
        *[getattr(JobTimingRow, f"{stage}_ms") for stage in STAGES],
    ).where(JobTimingRow.job_id == slot("job_id"))
)
_READ = Prepared(
    JobTimingDailyRow.select(*[getattr(JobTimingDailyRow, name) for name in _COLUMNS]).where(*_is_this_day)
)
_DELETE = Prepared(JobTimingDailyRow.delete().where(*_is_this_day))
_INSERT = Prepared(
    JobTimingDailyRow.insert({getattr(JobTimingDailyRow, name): slot(name) for name in (*_KEY, *_COLUMNS)})
)
_DELETE_ALL = Prepared(JobTimingDailyRow.delete())
# The panel reads these few sums, not the days. The triggers that keep them take a row that goes out of a shard from 0
# up; what it was stays in one of its own.
_REMOVED = -1
_SUMS = [f"{stage}_{part}" for stage in STAGES for part in ("n", "ms")]
_is_removed = (JobTimingSumRow.method == slot("method"), JobTimingSumRow.shard == _REMOVED)
_ADD_SUMS = Prepared(
    JobTimingSumRow.update(
        {getattr(JobTimingSumRow, name): getattr(JobTimingSumRow, name) + slot(name) for name in _SUMS}
    ).where(*_is_removed)
)
_INSERT_SUMS = Prepared(
    JobTimingSumRow.insert(
        {
            JobTimingSumRow.method: slot("method"),
            JobTimingSumRow.shard: _REMOVED,
            **{getattr(JobTimingSumRow, name): slot(name) for name in _SUMS},
        }
    )
)
_DELETE_SUMS = Prepared(JobTimingSumRow.delete().where(JobTimingSumRow.shard == _REMOVED))


@attrs.frozen
class _Stage:
    """How many values there are, their sum, the least and the greatest."""

    count: int = 0
    sum_ms: int = 0
    least_ms: int | None = None
    most_ms: int | None = None

    def plus(self, other: _Stage) -> _Stage:
        least = [value for value in (self.least_ms, other.least_ms) if value is not None]
        most = [value for value in (self.most_ms, other.most_ms) if value is not None]
        return _Stage(
            self.count + other.count,
            self.sum_ms + other.sum_ms,
            min(least, default=None),
            max(most, default=None),
        )


_NONE = (_Stage(),) * len(STAGES)


@attrs.frozen
class Timings:
    """What one job, or the jobs of one day, took; `key` is day, method, format and profile."""

    key: tuple[str, ...]
    first_at: datetime.datetime
    stages: tuple[_Stage, ...]

    def plus(self, other: Timings) -> Timings:
        """Return both taken together."""
        stages = tuple(mine.plus(theirs) for mine, theirs in zip(self.stages, other.stages, strict=True))
        return Timings(self.key, min(self.first_at, other.first_at), stages)


def read_timings(store: Store, job_ids: Iterable[str]) -> list[Timings]:
    """Return what the figures count of these jobs, in the act that removes them and before it does."""
    marker = read_time(store.execute(_MARKER).rows[0][0])
    rows = (row for job_id in job_ids for row in store.execute(_TIMING, job_id=job_id).rows)
    found = [_of_one_job(row) for row in rows]
    if marker is None:
        return found
    # What a clock that was behind stamped before the marker is in no figure but the beginning of the window.
    return [timings if timings.first_at > marker else attrs.evolve(timings, stages=_NONE) for timings in found]


def write_days(store: Store, found: Sequence[Timings]) -> None:
    """Add to the sums of their days, and of their methods, what `read_timings` found, in the same act."""
    days: dict[tuple[str, ...], Timings] = {}
    for timings in found:
        known = days.get(timings.key)
        days[timings.key] = timings if known is None else known.plus(timings)
    for key in sorted(days):
        names = dict(zip(_KEY, key, strict=True))
        rows = store.execute(_READ, **names).rows
        day = days[key].plus(_of_one_day(key, rows[0])) if rows else days[key]
        values = [value for stage in day.stages for value in attrs.astuple(stage)]
        gone = [value for stage in days[key].stages for value in (stage.count, stage.sum_ms)]
        sums = {"method": names["method"], **dict(zip(_SUMS, gone, strict=True))}
        if store.execute(_ADD_SUMS, **sums).count == 0:
            store.execute(_INSERT_SUMS, **sums)
        store.execute(_DELETE, **names)
        store.execute(_INSERT, **names, **dict(zip(_COLUMNS, (day.first_at, *values), strict=True)))


def forget_days(store: Store) -> None:
    """Remove every sum, in the act under way, which removes every job (STA-31)."""
    store.execute(_DELETE_ALL)
    store.execute(_DELETE_SUMS)


def _of_one_job(row: Sequence[Any]) -> Timings:
    completed_at = _time(row[0])
    stages = tuple(_Stage() if value is None else _Stage(1, value, value, value) for value in row[4:])
    return Timings((f"{completed_at:%Y-%m-%d}", *row[1:4]), completed_at, stages)


def _of_one_day(key: tuple[str, ...], row: Sequence[Any]) -> Timings:
    width = len(_PARTS)
    stages = tuple(_Stage(*row[1 + place * width : 1 + (place + 1) * width]) for place in range(len(STAGES)))
    return Timings(key, _time(row[0]), stages)


def _time(value: object) -> datetime.datetime:
    found = read_time(value)
    if found is None:
        raise ValueError("a timing without its time")
    return found
