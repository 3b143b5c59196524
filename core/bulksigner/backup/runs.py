"""Finished backups, as operational events; they are the history and the anchor of the schedule (STA-86, STA-94)."""

from __future__ import annotations

import datetime
import enum
import json
from collections.abc import Sequence
from typing import Any

import attrs

from bulksigner.records.events import Event, write_event
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import EventRow
from bulksigner.records.times import write_time

__all__ = ["EVENT", "HISTORY_LIMIT", "Result", "Run", "next_due", "read_runs", "record_run"]

EVENT = "BackupFinished"
HISTORY_LIMIT = 50
FAILED_RETRY = datetime.timedelta(hours=1)
_SEARCHED = 500
"""How far back the last success is looked for."""


class Result(enum.Enum):
    """How a backup ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELED = "Canceled"


@attrs.frozen
class Run:
    """One finished backup. `actor` is who asked for it, `Schedule` for none; `reason` says why it failed."""

    id: str
    actor: str
    result: Result
    folder: str
    started_at: datetime.datetime
    ended_at: datetime.datetime
    file_name: str | None = None
    length: int | None = None
    reason: str | None = None


_NEWEST = Prepared(
    EventRow.select(EventRow.facts)
    .where(EventRow.event_type == EVENT)
    .order_by(EventRow.at.desc(), EventRow.id.desc())
    .limit(slot("limit"))
)


def record_run(store: Store, run: Run) -> None:
    """Write the event of a finished backup."""
    message = f"Backup {run.result.value.lower()}: {run.file_name or run.reason or run.folder}."
    seconds = (run.ended_at - run.started_at).total_seconds()
    facts = {
        "runId": run.id,
        "actor": run.actor,
        "result": run.result.value,
        "folder": run.folder,
        "fileName": run.file_name,
        "bytes": run.length,
        "durationMs": round(seconds * 1000),
        "startedAt": write_time(run.started_at),
        "endedAt": write_time(run.ended_at),
        "reason": run.reason,
    }
    store.write(lambda: write_event(store, Event(EVENT, message, facts), run.ended_at))


def read_runs(store: Store, limit: int = _SEARCHED) -> list[Run]:
    """Return finished backups, newest first."""
    rows = store.read(lambda: store.execute(_NEWEST, limit=limit).rows)
    return [_read(json.loads(row[0])) for row in rows]


def _read(facts: dict[str, Any]) -> Run:
    return Run(
        facts["runId"],
        facts["actor"],
        Result(facts["result"]),
        facts["folder"],
        datetime.datetime.fromisoformat(facts["startedAt"]),
        datetime.datetime.fromisoformat(facts["endedAt"]),
        facts["fileName"],
        facts["bytes"],
        facts["reason"],
    )


def next_due(runs: Sequence[Run], interval: datetime.timedelta) -> datetime.datetime | None:
    """Return when the schedule wants a backup; None means now. `runs` of its folder, newest first (STA-86).

    The interval counts from the end of the last success. After a failure it is tried again within the hour.
    """
    success = next((run for run in runs if run.result is Result.SUCCEEDED), None)
    due = None if success is None else success.ended_at + interval
    if runs and runs[0].result is not Result.SUCCEEDED:
        again = runs[0].ended_at + min(interval, FAILED_RETRY)
        due = again if due is None else max(due, again)
    return due
