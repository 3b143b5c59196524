"""Rows of jobs that go because of their age; names and figures outlive them (STA-62, STA-68, STA-77)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bulksigner.contract.errors import RaceLost
from bulksigner.jobs.model import Job, path_key
from bulksigner.jobs.names import hold_name
from bulksigner.jobs.states import TERMINAL, JobStatus
from bulksigner.records.prepared import Prepared, literal, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import JobRow

__all__ = ["prune"]

# History and timings go with their job by the foreign keys.
_REMOVE = Prepared(
    JobRow.delete().where(
        JobRow.id == slot("id"), JobRow.status == slot("status"), JobRow.row_version == slot("row_version")
    )
)
_EXISTS = Prepared(JobRow.select(JobRow.id).where(JobRow.id == slot("id")))
# Without the last job of a path an older one would be the last; its verdict was over long ago (PIPE-44).
_RELEASE_OLDER = Prepared(
    JobRow.update({JobRow.path_released: True}).where(
        JobRow.path_key == slot("path_key"),
        JobRow.created_at <= slot("created_at"),
        JobRow.status.in_([literal(status) for status in JobStatus if status in TERMINAL]),
        JobRow.path_released == False,  # noqa: E712 - an expression of the query, not a comparison here
    )
)


def prune(
    store: Store, jobs: Sequence[Job], *, holds_names: bool, around: Callable[[Callable[[], None]], None]
) -> None:
    """Remove the rows of jobs in one transaction; with `holds_names` the names of completed ones stay held.

    `around` is given the act that removes, and may do database work before and after it. Raises `RaceLost`, and removes
    nothing, when one of the jobs is not any more as it was read.
    """

    def remove() -> None:
        for job in jobs:
            values = {"id": job.id, "status": job.status, "row_version": job.row_version}
            if store.execute(_REMOVE, **values).count != 1:
                raise RaceLost(f"Job {job.id} is no longer as it was read ({job.status.value}); nothing was recorded.")
            if holds_names:
                hold_name(store, job)
        for job in jobs:
            store.execute(_RELEASE_OLDER, path_key=path_key(job.original_path), created_at=job.created_at)

    def settle() -> bool | None:
        is_there = store.read(lambda: [row for job in jobs for row in store.execute(_EXISTS, id=job.id).rows])
        return None if is_there else True

    def act() -> bool:
        around(remove)
        return True

    store.write(act, settle=settle)
