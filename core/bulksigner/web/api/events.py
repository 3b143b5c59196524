"""Operational events: list and types (API-42, API-43, API-74)."""

from __future__ import annotations

import datetime

import falcon

from bulksigner.records.event_log import EventFilter
from bulksigner.web.problems import InvalidRequest
from bulksigner.web.query import (
    DEFAULT_PAGE_SIZE,
    FILTER_INVALID,
    MAX_PAGE,
    MAX_PAGE_SIZE,
    read_number,
    read_several,
    read_single,
)
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json, wire_time

__all__ = ["list_page", "list_types"]


def list_page(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """List events, newest first, by type, time and text."""
    wanted = EventFilter(
        types=_read_types(request),
        since=_read_time(request, "from"),
        until=_read_time(request, "to"),
        text=read_single(request, "contains") or None,
    )
    if wanted.since is not None and wanted.until is not None and wanted.since > wanted.until:
        raise InvalidRequest("to", "must not be before from", code=FILTER_INVALID)
    page = read_number(request, "page", default=1, highest=MAX_PAGE)
    page_size = min(read_number(request, "pageSize", default=DEFAULT_PAGE_SIZE), MAX_PAGE_SIZE)
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


def _read_types(request: falcon.Request) -> tuple[str, ...]:
    given = read_several(request, "eventType")
    # A filter that was meant and left blank must not show everything.
    if given and not any(name.strip() for name in given):
        raise InvalidRequest("eventType", "must not be blank", code=FILTER_INVALID)
    return tuple(dict.fromkeys(name.strip() for name in given if name.strip()))


def _read_time(request: falcon.Request, name: str) -> datetime.datetime | None:
    text = read_single(request, name)
    if text is None:
        return None
    try:
        at = datetime.datetime.fromisoformat(text)
        return at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at.astimezone(datetime.UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(name, "must be a date or time of ISO 8601", code=FILTER_INVALID) from error
