"""The pause flag: one durable row that every worker reads each turn (CLU-55)."""

from __future__ import annotations

import datetime

import attrs

from bulksigner.contract.errors import BulkSignerError
from bulksigner.records.engines import Store
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import PipelineStateRow
from bulksigner.records.times import read_time

__all__ = ["PauseFlag", "PauseState"]


@attrs.frozen
class PauseState:
    """Whether claiming stands still, since when, by whom and why."""

    is_paused: bool
    since: datetime.datetime | None
    by: str | None
    reason: str | None


_READ = Prepared(
    PipelineStateRow.select(
        PipelineStateRow.paused, PipelineStateRow.changed_at, PipelineStateRow.changed_by, PipelineStateRow.reason
    )
)


class PauseFlag:
    """Reads the flag from the database; pausing itself comes with the operator actions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> PauseState:
        """Return the present state. Raises `BulkSignerError` when the row is missing, which a migration prevents."""
        with self._store.promptly():
            rows = self._store.read(lambda: self._store.execute(_READ).rows)
        if not rows:
            raise BulkSignerError("The pipeline state row is missing; the database was not migrated.")
        paused, changed_at, changed_by, reason = rows[0]
        return PauseState(bool(paused), read_time(changed_at), changed_by, reason)
