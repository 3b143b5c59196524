"""Rescan at the wish of a person, with the event that tells what came of it (PIPE-100, SEC-76)."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable

from bulksigner.intake.rescan import FolderReport, Rescanner, RescanReport
from bulksigner.observability.logs import facts
from bulksigner.operations.people import Person
from bulksigner.records.engines import Store
from bulksigner.records.errors import StoreFailed
from bulksigner.records.events import Event, write_event

__all__ = ["COUNTS", "Rescanning"]

COUNTS = {
    "scanned": "scanned",
    "enqueued": "enqueued",
    "alreadyActive": "already_active",
    "ignored": "ignored",
    "errors": "errors",
    "alreadyProcessed": "already_processed",
}
"""Name of a count on the wire and in events, and its field in a `FolderReport` (API-71)."""

_log = logging.getLogger("bulksigner.operations")


class Rescanning:
    """Has folders looked through and records that it was asked for."""

    def __init__(self, rescanner: Rescanner, store: Store, clock: Callable[[], datetime.datetime]) -> None:
        self._rescanner = rescanner
        self._store = store
        self._clock = clock

    def rescan(self, folder: str | None, person: Person) -> RescanReport:
        """Rescan one folder, or all; raises `NotFound` (`folder.not-found`) for a name that is not configured."""
        report = self._rescanner.rescan(folder)
        event = _event(report, person)
        try:
            self._store.write(lambda: write_event(self._store, event, self._clock()))
        except StoreFailed:
            # The jobs are made, each batch in a transaction of its own; their counts are worth more than this line.
            _log.exception("The rescan could not be recorded")
        _log.info("%s", event.message, extra=facts(actor=person.name))
        return report


def _event(report: RescanReport, person: Person) -> Event:
    told = "; ".join(_told(one) for one in report.folders)
    folders = [
        {"name": one.name, "unassigned": one.unassigned} | {name: getattr(one, field) for name, field in COUNTS.items()}
        for one in report.folders
    ]
    return Event(
        "RescanCompleted",
        f"Rescan by {person.name} completed: {told}.",
        {"actor": person.name, "scheme": person.scheme, "folders": folders},
    )


def _told(one: FolderReport) -> str:
    if one.unassigned:
        return f"{one.name} has no profile"
    return (
        f"{one.name} {one.scanned} scanned, {one.enqueued} enqueued, {one.already_active} already active, "
        f"{one.already_processed} already processed, {one.ignored} ignored, {one.errors} error(s)"
    )
