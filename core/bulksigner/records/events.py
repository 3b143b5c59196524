"""Operational events, written in the transaction of the act they record (SEC-73)."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

import attrs

from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import EventRow

__all__ = ["Event", "delete_events", "read_facts", "write_event"]


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
_DELETE = Prepared(EventRow.delete().where(EventRow.at < slot("before")))
_FACTS = Prepared(
    EventRow.select(EventRow.facts).where(EventRow.event_type == slot("event_type"), EventRow.at == slot("at"))
)


def write_event(store: Store, event: Event, at: datetime.datetime) -> None:
    """Write `event` in the act under way."""
    facts = json.dumps(dict(store.redaction.clean_facts(event.facts)), ensure_ascii=False, sort_keys=True)
    message = store.redaction.clean_text(event.message)
    store.execute(_INSERT, at=at, event_type=event.event_type, message=message, facts=facts)


def delete_events(store: Store, before: datetime.datetime) -> int:
    """Delete, in the act under way, the events recorded before a time; return how many there were (SEC-74)."""
    return store.execute(_DELETE, before=before).count


def read_facts(store: Store, event_type: str, at: datetime.datetime) -> Mapping[str, Any] | None:
    """Return the facts of the event of a type that was written at a time, or None."""
    rows = store.read(lambda: store.execute(_FACTS, event_type=event_type, at=at).rows)
    return json.loads(rows[0][0]) if rows else None
