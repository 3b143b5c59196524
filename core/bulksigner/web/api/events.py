"""Operational events: list and types (API-42, API-43, API-74)."""

from __future__ import annotations

import falcon

from bulksigner.records.event_log import EventFilter
from bulksigner.web.paging import PAGE, PAGE_SIZE
from bulksigner.web.parameters import Moment, Text, Texts, refuse_inverted
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json, wire_time

__all__ = ["QUERY", "list_page", "list_types"]

_TYPES = Texts("eventType", "Only events of this type; may be repeated.")
_FROM = Moment("from", "Only events from this time on, in ISO 8601; without an offset it is UTC.")
_TO = Moment("to", "Only events before this time.")
_CONTAINS = Text("contains", "Only events whose message has this text, letter by letter.", may_be_blank=True)
QUERY = (_TYPES, _FROM, _TO, _CONTAINS, PAGE, PAGE_SIZE)


def list_page(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """List events, newest first, by type, time and text."""
    wanted = EventFilter(
        types=_TYPES.read(request),
        since=_FROM.read(request),
        until=_TO.read(request),
        text=_CONTAINS.read(request) or None,
    )
    refuse_inverted(wanted.since, wanted.until, _TO.name)
    page, page_size = PAGE.read(request), PAGE_SIZE.read(request)
    found = services.find_events(wanted, page=page, page_size=page_size)
    response.data = dump_json(
        {
            "items": [
                {
                    "id": entry.id,
                    "timestamp": wire_time(entry.at),
                    "eventType": entry.event_type,
                    "message": entry.message,
                }
                for entry in found.items
            ],
            "page": page,
            "pageSize": page_size,
            "totalCount": found.total_count,
        }
    )


def list_types(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """List the types of which there are events."""
    response.data = dump_json(list(services.find_event_types()))
