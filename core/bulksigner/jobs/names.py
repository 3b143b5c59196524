"""Names of files that were signed or are being worked on, and so are not signed again (PIPE-48)."""

from __future__ import annotations

import unicodedata

from bulksigner.jobs.model import Job, JobSource
from bulksigner.jobs.rows import COLUMNS, read_job
from bulksigner.jobs.states import ACTIVE, JobStatus
from bulksigner.records.prepared import Prepared, literal, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import JobRow

__all__ = ["HOLDING", "Names", "name_key"]

HOLDING = ACTIVE | {JobStatus.COMPLETED}
"""The statuses in which a job holds the name of its file; a failed or cancelled one reserves nothing."""

# Spelled as the planner of the partial index needs it. A remote document has a title, not a file name.
_HOLDER = Prepared(
    JobRow.select(*COLUMNS)
    .where(
        JobRow.name_key == slot("name_key"),
        JobRow.status.in_([literal(status) for status in JobStatus if status in HOLDING]),
        JobRow.source != literal(JobSource.SIGNER),
        JobRow.id != slot("besides"),
    )
    .order_by(JobRow.name_key, JobRow.created_at.desc())
    .limit(1)
)


def name_key(file_name: str) -> str:
    """Return the form under which file names are compared: without case, and each letter in one spelling."""
    return unicodedata.normalize("NFC", file_name).casefold()


class Names:
    """Finds who holds a name, at a cost that does not grow with finished jobs (PERF-35)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def holder_of(self, file_name: str, *, besides: str | None = None) -> Job | None:
        """Return the newest job that holds the name, leaving out the job `besides`; None when nobody does."""
        values = {"name_key": name_key(file_name), "besides": besides or ""}
        rows = self._store.read(lambda: self._store.execute(_HOLDER, **values).rows)
        return read_job(rows[0]) if rows else None
