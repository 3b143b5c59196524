"""Stage timings of completed jobs, written in the transaction that completes the job (STA-01 to STA-13)."""

from __future__ import annotations

import datetime

import attrs

from bulksigner.jobs.model import Job
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import JobTimingRow, StatisticsStateRow
from bulksigner.statistics.daily import forget_days

__all__ = ["Spans", "reset_statistics", "to_milliseconds", "write_timings"]

_COLUMNS = (
    "job_id",
    "completed_at",
    "method",
    "format",
    "profile",
    "queue_wait_ms",
    "signing_ms",
    "verification_ms",
    "output_ms",
    "total_ms",
    "instance",
)
_INSERT = Prepared(JobTimingRow.insert({getattr(JobTimingRow, name): slot(name) for name in _COLUMNS}))
_DELETE_ALL = Prepared(JobTimingRow.delete())
_MARK = Prepared(StatisticsStateRow.update({StatisticsStateRow.reset_at: slot("at")}))


def to_milliseconds(seconds: float | None) -> int | None:
    """Return whole milliseconds, never negative; None stays None, since a stage that did not happen is not 0."""
    return None if seconds is None else max(0, round(seconds * 1000))


@attrs.frozen
class Spans:
    """What the stages of one job took, in milliseconds; None for a stage that did not happen (STA-08).

    `method` is the signing method that made the signature, such as `Local`.
    """

    method: str
    queue_wait_ms: int | None = None
    signing_ms: int | None = None
    verification_ms: int | None = None
    output_ms: int | None = None

    @property
    def total_ms(self) -> int:
        """Return the sum of the stages that happened (STA-06)."""
        return sum(filter(None, (self.queue_wait_ms, self.signing_ms, self.verification_ms, self.output_ms)))


def write_timings(store: Store, job: Job, spans: Spans, at: datetime.datetime) -> None:
    """Write the row of a job that completes at `at`, in the act under way (STA-11)."""
    store.execute(
        _INSERT,
        job_id=job.id,
        completed_at=at,
        method=spans.method,
        format=job.format,
        profile=job.profile_name,
        queue_wait_ms=spans.queue_wait_ms,
        signing_ms=spans.signing_ms,
        verification_ms=spans.verification_ms,
        output_ms=spans.output_ms,
        total_ms=spans.total_ms,
        instance=job.owner_identity or "",
    )


def reset_statistics(store: Store, at: datetime.datetime) -> None:
    """Let the figures begin anew at `at`, in the act under way, which removes every job (STA-31).

    The rows would go with their jobs; in one statement they go faster.
    """
    store.execute(_DELETE_ALL)
    forget_days(store)
    store.execute(_MARK, at=at)
