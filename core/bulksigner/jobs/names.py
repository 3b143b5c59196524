"""Names of files that were signed or are being worked on, and so are not signed again (PIPE-48, STA-68)."""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Collection

import attrs
import peewee

from bulksigner.contract.errors import NotAllowed, NotFound
from bulksigner.jobs.model import Job, JobSource
from bulksigner.jobs.states import ACTIVE, JobStatus
from bulksigner.records.events import Event, write_event
from bulksigner.records.prepared import Asked, Prepared, literal, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import HeldFileNameRow, JobRow

__all__ = ["HOLDING", "Holder", "Names", "forget_names", "hold_name", "name_key"]

HOLDING = ACTIVE | {JobStatus.COMPLETED}
"""The statuses in which a job holds the name of its file; a failed or cancelled one reserves nothing."""

# Spelled as the planner of the partial index needs it. A remote document has a title, not a file name.
_IS_HOLDING = (
    JobRow.status.in_([literal(status) for status in JobStatus if status in HOLDING])
    & (JobRow.source != literal(JobSource.SIGNER))
    # All but those that failed at their birth.
    & JobRow.queued_at.is_null(False)
)
_JOB = (
    JobRow.select(JobRow.id, JobRow.status, peewee.SQL("0").alias("is_removed"))
    .where(JobRow.name_key == slot("name_key"), _IS_HOLDING, JobRow.id != slot("besides"))
    .order_by(JobRow.name_key, JobRow.created_at.desc())
    .limit(1)
)
_REMOVED = HeldFileNameRow.select(
    HeldFileNameRow.job_id, literal(JobStatus.COMPLETED), peewee.SQL("1").alias("is_removed")
).where(HeldFileNameRow.name_key == slot("name_key"))
# In one statement, since each file that arrives asks; both halves look into one place of an index.
_HOLDERS = Prepared(peewee.Select([_JOB], [_JOB.c.id, _JOB.c.status, _JOB.c.is_removed]).union_all(_REMOVED))
_ASKED = Asked(32)
_HELD = _ASKED.where(
    peewee.fn.EXISTS(JobRow.select(peewee.SQL("1")).where(JobRow.name_key == _ASKED.text, _IS_HOLDING))
    | peewee.fn.EXISTS(HeldFileNameRow.select(peewee.SQL("1")).where(HeldFileNameRow.name_key == _ASKED.text))
)
_FORGET = Prepared(HeldFileNameRow.delete().where(HeldFileNameRow.name_key == slot("name_key")))
_FORGET_ALL = Prepared(HeldFileNameRow.delete())
_HOLD = Prepared(
    HeldFileNameRow.insert(
        {getattr(HeldFileNameRow, name): slot(name) for name in ("name_key", "file_name", "job_id", "completed_at")}
    ).on_conflict(
        conflict_target=[HeldFileNameRow.name_key],
        update={
            HeldFileNameRow.file_name: slot("file_name"),
            HeldFileNameRow.job_id: slot("job_id"),
            HeldFileNameRow.completed_at: slot("completed_at"),
        },
    )
)


@attrs.frozen
class Holder:
    """The job that holds a name; one with `is_removed` was completed and removed by age since."""

    id: str
    status: JobStatus
    is_removed: bool = False

    def __str__(self) -> str:
        """Return id and status as messages have them."""
        return f"{self.id} ({self.status.value}{', since removed by age' if self.is_removed else ''})"


def name_key(file_name: str) -> str:
    """Return the form under which file names are compared: without case, and each letter in one spelling."""
    return unicodedata.normalize("NFC", file_name).casefold()


def hold_name(store: Store, job: Job) -> None:
    """Keep the name of a job whose row goes, in the act under way; a job that held none leaves none."""
    if job.status is JobStatus.COMPLETED and job.source is not JobSource.SIGNER:
        store.execute(
            _HOLD,
            name_key=name_key(job.file_name),
            file_name=job.file_name,
            job_id=job.id,
            completed_at=job.completed_at,
        )


def forget_names(store: Store, _: datetime.datetime) -> None:
    """Let go of every name of a removed job, in the act under way, which removes every job (PIPE-103)."""
    store.execute(_FORGET_ALL)


class Names:
    """Finds who holds a name, at a cost that does not grow with finished jobs (PERF-35)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def holder_of(self, file_name: str, *, besides: str | None = None) -> Holder | None:
        """Return the newest job that holds the name, leaving out the job `besides`; None when nobody does."""
        values = {"name_key": name_key(file_name), "besides": besides or ""}
        rows = self._store.read(lambda: self._store.execute(_HOLDERS, **values).rows)
        found = [Holder(row[0], JobStatus(row[1]), bool(row[2])) for row in rows]
        return min(found, key=lambda holder: holder.is_removed, default=None)

    def held_among(self, file_names: Collection[str]) -> set[str]:
        """Return those of the names that somebody holds, at a fraction of the cost of asking who holds each."""
        keys = {name: name_key(name) for name in file_names}

        def look() -> set[str]:
            return {
                row[0]
                for asked in _ASKED.groups(list(keys.values()))
                for row in self._store.execute(_HELD, **asked).rows
            }

        held = self._store.read(look)
        return {name for name, key in keys.items() if key in held}

    def release(self, file_name: str, actor: str, at: datetime.datetime) -> Holder:
        """Free a name that a removed job left held, and return who held it (STA-68).

        Raises `NotAllowed` while a job that is there holds it, `NotFound` when nobody does.
        """
        holder = self.holder_of(file_name)
        if holder is None:
            raise NotFound(f"Nobody holds the name '{file_name}'; a file of this name is signed as any other.")
        if not holder.is_removed:
            raise NotAllowed(
                f"Job {holder} has the name '{file_name}', and no name is taken from a job that is there. "
                f"Delete the job to free it: bulksigner jobs delete {holder.id}"
            )
        event = Event(
            "FileNameReleased",
            f"File name '{file_name}' released by {actor}; job {holder.id} held it.",
            {"actor": actor, "fileName": file_name, "jobId": holder.id},
        )

        def act() -> Holder:
            if self._store.execute(_FORGET, name_key=name_key(file_name)).count != 1:
                raise NotFound(f"The name '{file_name}' was released meanwhile.")
            write_event(self._store, event, at)
            return holder

        return self._store.write(act)
