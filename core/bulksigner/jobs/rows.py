"""Between table and model: a row of `job` is a `Job`, and how a history line is written."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from bulksigner.contract.signing import Format
from bulksigner.jobs.metadata import read_metadata, write_metadata
from bulksigner.jobs.model import Job, JobSource
from bulksigner.jobs.states import JobStatus
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import HistoryRow, JobRow
from bulksigner.records.times import read_time

__all__ = [
    "COLUMNS",
    "HAS_ENDED",
    "IS_ACTIVE",
    "NAMES",
    "job_values",
    "read_job",
    "with_changes",
    "write_history",
    "write_history_lines",
]

NAMES = tuple(field.name for field in attrs.fields(Job))
COLUMNS = tuple(getattr(JobRow, name) for name in NAMES)

HAS_ENDED = JobRow.completed_at.is_null(False)
IS_ACTIVE = JobRow.completed_at.is_null()
"""What statuses say too, spelled as the planner needs it for the partial indexes."""

_READ: Mapping[str, Any] = {
    "format": Format,
    "source": JobSource,
    "status": JobStatus,
    "path_released": bool,
    "input_diverged": bool,
    "output_encrypted": bool,
    "metadata": read_metadata,
    **{name: read_time for name in NAMES if name.endswith("_at")},
}
_CONVERTED = [(NAMES.index(name), convert) for name, convert in _READ.items()]


def read_job(row: Sequence[Any]) -> Job:
    """Build the job from a row of `COLUMNS`."""
    values = list(row)
    for index, convert in _CONVERTED:
        value = values[index]
        if value is not None:
            values[index] = convert(value)
    return Job(*values)


def job_values(job: Job) -> dict[str, object]:
    """Return what is stored of the job, by the names of the columns."""
    return {**vars(job), "metadata": write_metadata(job.metadata)}


def with_changes(job: Job, changes: Mapping[str, Any]) -> Job:
    """Return the job with these columns; `attrs.evolve` takes many times as long for a class this wide."""
    after = object.__new__(Job)
    vars(after).update(vars(job))
    vars(after).update(changes)
    return after


_HISTORY = Prepared(
    HistoryRow.insert(
        {
            HistoryRow.job_id: slot("job_id"),
            HistoryRow.at: slot("at"),
            HistoryRow.status: slot("status"),
            HistoryRow.message: slot("message"),
        }
    )
)


def write_history(store: Store, job_id: str, at: datetime.datetime, status: JobStatus, message: str) -> None:
    """Write one history line in the act under way."""
    store.execute(_HISTORY, job_id=job_id, at=at, status=status, message=store.redaction.clean_text(message))


def write_history_lines(store: Store, jobs: Sequence[Job], message: str) -> None:
    """Write the same line for jobs that changed together, at the time they changed."""
    clean = store.redaction.clean_text(message)
    rows = [{"job_id": job.id, "at": job.updated_at, "status": job.status, "message": clean} for job in jobs]
    store.execute_each(_HISTORY, rows)
