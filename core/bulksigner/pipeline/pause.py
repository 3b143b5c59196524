"""The pause flag: one durable row that every worker reads each turn (CLU-55)."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import attrs

from bulksigner.contract.errors import RaceLost, Refusal
from bulksigner.jobs.model import utc_now
from bulksigner.records.engines import Store
from bulksigner.records.events import Event, write_event
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.tables import PipelineStateRow
from bulksigner.records.times import read_time

__all__ = ["PauseFlag", "PauseState"]


@attrs.frozen
class PauseState:
    """Whether claiming stands still: the last change with its person and reason, the last pause, the last resume."""

    is_paused: bool
    since: datetime.datetime | None
    by: str | None
    reason: str | None
    paused_at: datetime.datetime | None
    paused_by: str | None
    resumed_at: datetime.datetime | None
    row_version: int


_COLUMNS = {
    "is_paused": PipelineStateRow.paused,
    "since": PipelineStateRow.changed_at,
    "by": PipelineStateRow.changed_by,
    "reason": PipelineStateRow.reason,
    "paused_at": PipelineStateRow.paused_at,
    "paused_by": PipelineStateRow.paused_by,
    "resumed_at": PipelineStateRow.resumed_at,
    "row_version": PipelineStateRow.row_version,
}
_READ: dict[str, Callable[[Any], Any]] = {
    "is_paused": bool,
    "since": read_time,
    "paused_at": read_time,
    "resumed_at": read_time,
}
_SELECT = Prepared(PipelineStateRow.select(*_COLUMNS.values()))
_UPDATE = Prepared(
    PipelineStateRow.update({column: slot(name) for name, column in _COLUMNS.items()}).where(
        PipelineStateRow.row_version == slot("read_version")
    )
)


class PauseFlag:
    """Reads and changes the flag in the database; nothing of it is kept in memory."""

    def __init__(self, store: Store, clock: Callable[[], datetime.datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock

    def read(self) -> PauseState:
        """Return the present state.

        Raises `Refusal` (`pipeline.state-missing`) when the row is missing, which a migration prevents.
        """
        with self._store.promptly():
            rows = self._store.read(lambda: self._store.execute(_SELECT).rows)
        if not rows:
            raise Refusal(
                "The pipeline state row is missing; the database was changed by hand. Restore it from a backup.",
                code="pipeline.state-missing",
            )
        found = dict(zip(_COLUMNS, rows[0], strict=True))
        return PauseState(**{name: _READ.get(name, _as_is)(value) for name, value in found.items()})

    def change(self, seen: PauseState, *, is_paused: bool, by: str, reason: str | None, event: Event) -> PauseState:
        """Turn the flag that was read as `seen`, with the event in the same transaction; return the new state.

        Raises `RaceLost` (`pipeline.race-lost`) when it is not any more as it was read; nothing is recorded then.
        """
        now = self._clock()
        turned = {"paused_at": now, "paused_by": by} if is_paused else {"resumed_at": now}
        after = attrs.evolve(
            seen, is_paused=is_paused, since=now, by=by, reason=reason, row_version=seen.row_version + 1, **turned
        )

        def act() -> PauseState:
            values = attrs.asdict(after)
            if self._store.execute(_UPDATE, read_version=seen.row_version, **values).count != 1:
                raise RaceLost(
                    "Somebody else paused or resumed the pipeline at this moment; nothing was recorded.",
                    code="pipeline.race-lost",
                )
            write_event(self._store, event, now)
            return after

        return self._store.write(act, settle=lambda: after if self.read() == after else None)


def _as_is(value: object) -> object:
    return value
