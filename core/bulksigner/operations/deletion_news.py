"""What other processes deleted, brought to the watchers of this one (PIPE-52, PIPE-101)."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable

from bulksigner.jobs.model import utc_now
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import EventRow

__all__ = ["DeletionNews"]

LOOK_BACK = datetime.timedelta(minutes=10)
"""How far behind this one the clock of the other process may be, and how long its transaction may take."""

_SINCE = Prepared(
    EventRow.select(EventRow.id, EventRow.facts).where(
        EventRow.event_type == slot("event_type"), EventRow.at >= slot("since")
    )
)


class DeletionNews:
    """Reads the events of deletions and has `free_path` told of each path once."""

    def __init__(
        self, store: Store, free_path: Callable[[str], None], clock: Callable[[], datetime.datetime] = utc_now
    ) -> None:
        self._store = store
        self._free_path = free_path
        self._clock = clock
        self._told: frozenset[int] = frozenset()

    def step(self) -> None:
        """Look once; raises `StoreFailed`."""
        values = {"event_type": "JobDeleted", "since": self._clock() - LOOK_BACK}
        rows = self._store.read(lambda: self._store.execute(_SINCE, **values).rows)
        for event_id, facts in rows:
            path = json.loads(facts).get("originalPath")
            if event_id not in self._told and path is not None:
                self._free_path(path)
        self._told = frozenset(row[0] for row in rows)
