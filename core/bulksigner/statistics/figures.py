"""The figures of the statistics panel, the same on every instance, at a cost that does not grow (STA-17 to STA-29)."""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import peewee

from bulksigner.jobs.model import utc_now
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import JobTimingDailyRow, JobTimingRow, JobTimingSumRow, StatisticsStateRow
from bulksigner.records.times import read_time
from bulksigner.statistics.daily import STAGES

__all__ = ["Figures", "Mean", "Panel", "read_figures"]

LOCAL_METHODS = frozenset({"Local"})
CACHE_SECONDS = 1.0
RECENT_LIMIT = 1_000
"""The newest rows of a day that the percentile is taken of (STA-25)."""

_EARLIEST = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MINUTE, _DAY = datetime.timedelta(minutes=1), datetime.timedelta(days=1)

_fn = peewee.fn
_is_counted = JobTimingRow.completed_at > slot("since")
_MARKER = Prepared(StatisticsStateRow.select(StatisticsStateRow.reset_at))
_SUMS = Prepared(
    JobTimingSumRow.select(
        JobTimingSumRow.method,
        *[
            _fn.SUM(getattr(JobTimingSumRow, f"{stage}_{part}")).cast("BIGINT")
            for stage in STAGES
            for part in ("n", "ms")
        ],
    ).group_by(JobTimingSumRow.method)
)
_DAYS = Prepared(
    JobTimingDailyRow.select(
        _fn.MIN(JobTimingDailyRow.first_at),
        _fn.MIN(JobTimingDailyRow.total_least_ms),
        _fn.MAX(JobTimingDailyRow.total_most_ms),
    )
)
# A clock that was behind may have stamped rows before the marker although they were written after it.
_IGNORED = Prepared(
    JobTimingRow.select(
        JobTimingRow.method,
        *[
            part
            for stage in STAGES
            for part in (
                _fn.COUNT(getattr(JobTimingRow, f"{stage}_ms")),
                _fn.COALESCE(_fn.SUM(getattr(JobTimingRow, f"{stage}_ms")), 0).cast("BIGINT"),
            )
        ],
    )
    .where(JobTimingRow.completed_at <= slot("since"))
    .group_by(JobTimingRow.method)
)
_OLDEST = Prepared(JobTimingRow.select(JobTimingRow.completed_at).order_by(JobTimingRow.completed_at).limit(1))
_SHORTEST = Prepared(
    JobTimingRow.select(JobTimingRow.total_ms)
    .where(_is_counted)
    .order_by(JobTimingRow.total_ms, JobTimingRow.completed_at)
    .limit(1)
)
_LONGEST = Prepared(
    JobTimingRow.select(JobTimingRow.total_ms)
    .where(_is_counted)
    .order_by(JobTimingRow.total_ms.desc(), JobTimingRow.completed_at.desc())
    .limit(1)
)
_COUNT = Prepared(JobTimingRow.select(_fn.COUNT(JobTimingRow.completed_at)).where(_is_counted))
_RECENT = Prepared(
    JobTimingRow.select(JobTimingRow.total_ms)
    .where(_is_counted)
    .order_by(JobTimingRow.completed_at.desc(), JobTimingRow.total_ms.desc())
    .limit(RECENT_LIMIT)
)


@attrs.frozen
class Mean:
    """How many rows have a value, and the sum of the values in milliseconds."""

    count: int = 0
    sum_ms: int = 0

    @property
    def milliseconds(self) -> float | None:
        """Return the mean, or None without rows."""
        return self.sum_ms / self.count if self.count else None

    def plus(self, other: Mean, sign: int = 1) -> Mean:
        """Return both taken together, or with `sign` -1 this one without the other."""
        return Mean(self.count + sign * other.count, self.sum_ms + sign * other.sum_ms)


@attrs.frozen
class Figures:
    """Everything the panel shows; milliseconds, and None where there is nothing to take a figure of (STA-27)."""

    window_start: datetime.datetime | None
    is_since_reset: bool
    total: Mean
    queue_wait: Mean
    signing: Mean
    verification: Mean
    output: Mean
    local: Mean
    remote: Mean
    shortest_ms: int | None
    longest_ms: int | None
    percentile_95_ms: int | None
    last_minute_count: int
    lifetime_per_minute: float | None


def read_figures(store: Store, now: datetime.datetime) -> Figures:
    """Read all figures as they are at `now`."""
    return store.read(lambda: _look(store, now))


def _look(store: Store, now: datetime.datetime) -> Figures:
    def first(prepared: Prepared, **values: object) -> Any:
        rows = store.execute(prepared, **values).rows
        return rows[0][0] if rows else None

    marker = read_time(first(_MARKER))
    since = marker or _EARLIEST
    sums = _by_method(store.execute(_SUMS).rows)
    if marker is not None:
        for method, ignored in _by_method(store.execute(_IGNORED, since=since).rows).items():
            sums[method] = {stage: mean.plus(ignored[stage], -1) for stage, mean in sums[method].items()}
    stages = {stage: _add(means[stage] for means in sums.values()) for stage in STAGES}
    total = stages["total"]
    # The rows that are there first: what moves to the days meanwhile is then seen twice, never missed.
    times, shortest, longest = [first(_OLDEST)], [first(_SHORTEST, since=since)], [first(_LONGEST, since=since)]
    for known, of_days in zip((times, shortest, longest), store.execute(_DAYS).rows[0], strict=True):
        known.append(of_days)
    oldest = min(filter(None, map(read_time, times)), default=None)
    start = max(since, oldest) if oldest is not None and total.count else None
    recent = [row[0] for row in store.execute(_RECENT, since=max(since, now - _DAY)).rows]
    return Figures(
        window_start=start,
        is_since_reset=start is not None and start == marker,
        total=total,
        queue_wait=stages["queue_wait"],
        signing=stages["signing"],
        verification=stages["verification"],
        output=stages["output"],
        local=_add(means["total"] for method, means in sums.items() if method in LOCAL_METHODS),
        remote=_add(means["total"] for method, means in sums.items() if method not in LOCAL_METHODS),
        shortest_ms=min((ms for ms in shortest if ms is not None), default=None),
        longest_ms=max((ms for ms in longest if ms is not None), default=None),
        percentile_95_ms=sorted(recent)[math.ceil(len(recent) * 0.95) - 1] if recent else None,
        last_minute_count=int(first(_COUNT, since=max(since, now - _MINUTE))),
        lifetime_per_minute=total.count / max(1.0, (now - start) / _MINUTE) if start is not None else None,
    )


def _by_method(rows: Sequence[Sequence[Any]]) -> dict[str, Mapping[str, Mean]]:
    return {
        row[0]: {stage: Mean(int(row[1 + 2 * place]), int(row[2 + 2 * place])) for place, stage in enumerate(STAGES)}
        for row in rows
    }


def _add(means: Any) -> Mean:
    total = Mean()
    for mean in means:
        total = total.plus(mean)
    return total


class Panel:
    """Gives the figures to any number of viewers for the cost of one look a second (STA-29)."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], datetime.datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: tuple[float, Figures] | None = None

    def read(self) -> Figures:
        """Return figures that are at most a second old."""
        with self._lock:
            now = self._monotonic()
            if self._known is None or now - self._known[0] >= CACHE_SECONDS:
                self._known = (now, read_figures(self._store, self._clock()))
            return self._known[1]
