"""Operational events as a list: filters and pages, newest first (API-42, API-43, API-74)."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence

import attrs
import peewee

from bulksigner.records.engines import EngineKind, Store, has_text
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.tables import EventRow
from bulksigner.records.times import read_time

__all__ = ["EventEntry", "EventFilter", "EventPage", "event_page", "event_types"]


@attrs.frozen
class EventEntry:
    """One event as it was recorded, without its facts."""

    id: int
    at: datetime.datetime
    event_type: str
    message: str


@attrs.frozen
class EventFilter:
    """Which events: of one of the types (none given: of all), from `since` on, before `until`, with this text."""

    types: tuple[str, ...] = ()
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    text: str | None = None


@attrs.frozen
class EventPage:
    """One page, newest first, and how many events all pages hold."""

    items: tuple[EventEntry, ...]
    total_count: int


_TYPES = Prepared(EventRow.select(EventRow.event_type).distinct().order_by(EventRow.event_type))


@functools.lru_cache(maxsize=128)
def _queries(
    kind: EngineKind, types_count: int, has_since: bool, has_until: bool, is_searched: bool
) -> tuple[Prepared, Prepared]:
    """Return the page and its count for one combination of filters."""
    conditions = []
    if types_count:
        conditions.append(EventRow.event_type.in_([slot(f"type_{number}") for number in range(types_count)]))
    if has_since:
        conditions.append(EventRow.at >= slot("since"))
    if has_until:
        conditions.append(EventRow.at < slot("until"))
    if is_searched:
        conditions.append(has_text(kind, EventRow.message, slot("text")))
    items = EventRow.select(EventRow.id, EventRow.at, EventRow.event_type, EventRow.message)
    total = EventRow.select(peewee.fn.COUNT(EventRow.id))
    if conditions:
        items, total = items.where(*conditions), total.where(*conditions)
    items = items.order_by(EventRow.at.desc(), EventRow.id.desc()).limit(slot("limit")).offset(slot("offset"))
    return Prepared(items), Prepared(total)


def event_page(store: Store, wanted: EventFilter, *, page: int = 1, page_size: int = 50) -> EventPage:
    """Return page `page` (from 1) of the events that pass the filter, newest first."""
    items, total = _queries(
        store.kind,
        len(wanted.types),
        wanted.since is not None,
        wanted.until is not None,
        wanted.text is not None,
    )
    values: dict[str, object] = {f"type_{number}": name for number, name in enumerate(wanted.types)}
    values |= {"since": wanted.since, "until": wanted.until, "text": wanted.text}

    def look() -> EventPage:
        rows = store.execute(items, limit=page_size, offset=(page - 1) * page_size, **values).rows
        counted = store.execute(total, **values).rows[0][0]
        entries = [EventEntry(row[0], at, row[2], row[3]) for row in rows if (at := read_time(row[1]))]
        return EventPage(tuple(entries), int(counted))

    return store.read(look)


def event_types(store: Store) -> Sequence[str]:
    """Return the types of which there are events, sorted."""
    return [row[0] for row in store.read(lambda: store.execute(_TYPES).rows)]
