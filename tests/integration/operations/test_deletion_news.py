"""Deletions by other processes reach the watchers of this one (PIPE-52, PIPE-101)."""

from __future__ import annotations

import datetime

from bulksigner.operations.deletion_news import LOOK_BACK, DeletionNews
from bulksigner.records.engines import Store
from bulksigner.records.events import Event, write_event

NOW = datetime.datetime(2026, 8, 12, 12, tzinfo=datetime.UTC)


def test_each_deletion_is_told_once_and_old_ones_never(store: Store) -> None:
    """PIPE-101: by the event alone, also one whose clock is behind; other events, and such of old builds, are none."""
    told: list[str] = []
    clock = [NOW]
    news = DeletionNews(store, told.append, lambda: clock[0])

    def record(age: datetime.timedelta, event_type: str = "JobDeleted", **facts: str) -> None:
        store.write(lambda: write_event(store, Event(event_type, "x", facts), clock[0] - age))

    minute = datetime.timedelta(minutes=1)
    news.step()
    record(LOOK_BACK + minute, originalPath="/in/old")
    record(minute, originalPath="/in/a")
    record(minute, "JobsCleared", originalPath="/in/other")
    record(minute)
    news.step()
    news.step()
    assert told == ["/in/a"]
    record(LOOK_BACK - minute, originalPath="/in/behind")
    clock[0] += minute / 2
    news.step()
    assert told == ["/in/a", "/in/behind"]
    clock[0] += 2 * LOOK_BACK
    news.step()
    assert told == ["/in/a", "/in/behind"]
