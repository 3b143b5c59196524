"""The list of events: every filter, alone and together, alike on both engines."""

from __future__ import annotations

import datetime

import pytest

from bulksigner.records.engines import Store
from bulksigner.records.event_log import EventFilter, event_page, event_types
from bulksigner.records.events import Event, delete_events, read_facts, write_event

NOON = datetime.datetime(2026, 5, 26, 12, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)


@pytest.fixture
def filled(store: Store) -> Store:
    """Five events a second apart, the last two at the same time."""
    events = [
        ("ServiceStarted", "Service started."),
        ("PipelinePaused", "Pipeline paused by operator. Reason: 100% sure_ly."),
        ("PipelineResumed", "Pipeline resumed by operator."),
        ("JobDeleted", "Job a ('folha_ção.rem', Failed) deleted by operator."),
        ("JobDeleted", "Job b ('FOLHA.rem', Failed) deleted by operator."),
    ]

    def act() -> None:
        for number, (event_type, message) in enumerate(events):
            write_event(store, Event(event_type, message, {"n": number}), NOON + min(number, 3) * SECOND)

    store.write(act)
    return store


def found(store: Store, **given: object) -> list[str]:
    page = event_page(store, EventFilter(**given))  # type: ignore[arg-type]
    assert page.total_count == len(page.items)
    return [entry.message.split()[1] for entry in page.items]


def test_all_events_are_listed_newest_first(filled: Store) -> None:
    """API-42: by time, then id."""
    page = event_page(filled, EventFilter())
    assert [entry.event_type for entry in page.items] == [
        "JobDeleted",
        "JobDeleted",
        "PipelineResumed",
        "PipelinePaused",
        "ServiceStarted",
    ]
    assert page.items[0].id > page.items[1].id
    assert page.items[-1].at == NOON
    assert page.total_count == 5


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"types": ("JobDeleted",)}, ["b", "a"]),
        ({"types": ("ServiceStarted", "PipelinePaused", "Unknown")}, ["paused", "started."]),
        ({"types": ("jobdeleted",)}, []),
        ({"since": NOON + SECOND}, ["b", "a", "resumed", "paused"]),
        ({"until": NOON + SECOND}, ["started."]),
        ({"since": NOON, "until": NOON}, []),
        ({"text": "%"}, ["paused"]),
        ({"text": "_"}, ["a", "paused"]),
        ({"text": "folha_ção"}, ["a"]),
        ({"text": "FOLHA"}, ["b"]),
        ({"text": "'; DROP TABLE job"}, []),
        ({"types": ("JobDeleted",), "since": NOON, "until": NOON + 9 * SECOND, "text": "Job a"}, ["a"]),
    ],
)
def test_filters(filled: Store, given: dict[str, object], expected: list[str]) -> None:
    """API-74: `from` inclusive, `to` exclusive, text literal with `%` and `_` as themselves."""
    assert found(filled, **given) == expected


def test_pages(filled: Store) -> None:
    """API-42: a page and the count of all; past the end there is nothing."""
    pages = [event_page(filled, EventFilter(types=("JobDeleted",)), page=page, page_size=1) for page in (1, 2, 3)]
    assert [[entry.message[4] for entry in page.items] for page in pages] == [["b"], ["a"], []]
    assert {page.total_count for page in pages} == {2}


def test_types_are_those_present(filled: Store) -> None:
    """API-43: each once."""
    assert event_types(filled) == ["JobDeleted", "PipelinePaused", "PipelineResumed", "ServiceStarted"]


def test_old_events_are_deleted(filled: Store) -> None:
    """SEC-74: those from before a time, counted; one at that time stays."""
    assert filled.write(lambda: delete_events(filled, NOON + 2 * SECOND)) == 2
    assert found(filled) == ["b", "a", "resumed"]


def test_the_facts_of_an_event(filled: Store) -> None:
    """SEC-73: found by type and time."""
    assert read_facts(filled, "PipelinePaused", NOON + SECOND) == {"n": 1}
    assert read_facts(filled, "PipelinePaused", NOON) is None
