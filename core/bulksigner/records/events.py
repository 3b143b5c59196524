"""Operational events, written in the transaction of the act they record (SEC-73)."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping

import attrs

from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import EventRow

__all__ = ["Event", "write_event"]


@attrs.frozen
class Event:
    """A fact about the service worth keeping; programs go by `event_type` only."""

    event_type: str
    message: str
    facts: Mapping[str, object] = attrs.field(factory=dict)


_INSERT = Prepared(
    EventRow.insert(
        {
            EventRow.at: slot("at"),
            EventRow.event_type: slot("event_type"),
            EventRow.message: slot("message"),
            EventRow.facts: slot("facts"),
        }
    )
)


def write_event(store: Store, event: Event, at: datetime.datetime) -> None:
    """Write `event` in the act under way."""
    facts = json.dumps(dict(event.facts), ensure_ascii=False, sort_keys=True)
    store.execute(_INSERT, at=at, event_type=event.event_type, message=event.message, facts=facts)
