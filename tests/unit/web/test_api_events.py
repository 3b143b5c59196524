"""Events over REST: list and types."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from falcon.testing import TestClient

from bulksigner.records.event_log import EventFilter

DAY = datetime.datetime(2026, 5, 26, tzinfo=datetime.UTC)


def test_a_page_of_events(client: TestClient, service: Any) -> None:
    """API-42: members and envelope; without a filter all events, 50 a page."""
    answer = client.simulate_get("/api/events")
    assert answer.json == {
        "items": [
            {
                "id": 8,
                "timestamp": "2026-05-26T15:42:11.123456Z",
                "eventType": "PipelinePaused",
                "message": "Pipeline paused by operator.",
            }
        ],
        "page": 1,
        "pageSize": 50,
        "totalCount": 3,
    }
    assert service.asked == [("events", EventFilter(), 1, 50)]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("eventType=JobDeleted", EventFilter(types=("JobDeleted",))),
        ("eventType=A&eventType=B&eventType=A&eventType=", EventFilter(types=("A", "B"))),
        ("eventType=A,B", EventFilter(types=("A,B",))),
        ("from=2026-05-26", EventFilter(since=DAY)),
        ("from=2026-05-26T00:00:00Z&to=2026-05-27T00:00", EventFilter(since=DAY, until=DAY + datetime.timedelta(1))),
        ("to=2026-05-25T21:00:00-03:00", EventFilter(until=DAY)),
        ("from=2026-05-26&to=2026-05-26", EventFilter(since=DAY, until=DAY)),
        ("contains=100%25_x", EventFilter(text="100%_x")),
        ("contains=", EventFilter()),
    ],
)
def test_filters(client: TestClient, service: Any, query: str, wanted: EventFilter) -> None:
    """API-74: types repeat, times without offset are UTC, text is literal."""
    assert client.simulate_get("/api/events", query_string=query).status_code == 200
    assert service.asked == [("events", wanted, 1, 50)]


@pytest.mark.parametrize(
    ("query", "page", "page_size"),
    [("page=10737418&pageSize=200", 10_737_418, 200), ("pageSize=999", 1, 200), ("page=0&pageSize=-3", 1, 1)],
)
def test_pages(client: TestClient, service: Any, query: str, page: int, page_size: int) -> None:
    """API-74: sizes are capped, low values read as 1."""
    assert client.simulate_get("/api/events", query_string=query).status_code == 200
    assert service.asked == [("events", EventFilter(), page, page_size)]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("eventType=", "eventType"),
        ("eventType=%20&eventType=", "eventType"),
        ("from=yesterday", "from"),
        ("from=", "from"),
        ("to=2026-13-01", "to"),
        ("from=0001-01-01T00:00:00%2B14:00", "from"),
        ("from=2026-05-27&to=2026-05-26", "to"),
        ("from=2026-05-26&from=2026-05-26", "from"),
        ("page=x", "page"),
        ("page=10737419", "page"),
        ("pageSize=1.5", "pageSize"),
    ],
)
def test_a_bad_filter_is_refused(client: TestClient, service: Any, query: str, field: str) -> None:
    """API-74: 400 `validation.filter-invalid` naming the parameter; a bad filter never widens."""
    answer = client.simulate_get("/api/events", query_string=query)
    assert (answer.status_code, answer.json["code"]) == (400, "validation.filter-invalid")
    assert list(answer.json["errors"]) == [field]
    assert service.asked == []


def test_the_types(client: TestClient) -> None:
    """API-43: a plain list."""
    assert client.simulate_get("/api/events/types").json == ["JobDeleted", "PipelinePaused"]
