"""Clear Jobs: every job with its files, and the events up to now (PIPE-103, PIPE-104)."""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import attrs

from bulksigner.contract.errors import BulkSignerError, PermanentFailure
from bulksigner.files import durable
from bulksigner.jobs.model import Job
from bulksigner.jobs.removal import CLEARED, MovedOn, Removal, Removed
from bulksigner.jobs.states import TERMINAL
from bulksigner.observability.logs import facts
from bulksigner.operations.leftovers import Leftovers
from bulksigner.operations.people import Person
from bulksigner.plugin_system.guard import ANYTHING, describe
from bulksigner.records.errors import StoreFailed
from bulksigner.records.events import Event

__all__ = ["Cleared", "Clearing", "Interrupted"]

_log = logging.getLogger("bulksigner.operations")


class Interrupted(BulkSignerError):
    """Report a clear that the end of the service cut short: rows are all there, files swept so far are gone."""


@attrs.frozen
class Cleared:
    """What went, and how many files and folders refused."""

    jobs: int
    files: int
    folders: int
    events: int
    items_failed: int

    @property
    def counts(self) -> str:
        """Return the counts of what went, as every text about a clear has them (API-67)."""
        return (
            f"{self.jobs} job record(s), {self.files} file(s), {self.folders} folder(s) and "
            f"{self.events} operational event(s)"
        )


@attrs.define
class _Swept:
    """What went so far; `unfinished` are the jobs that may go on behind the sweep, with the version it knew."""

    files: int = 0
    folders: int = 0
    refused: set[tuple[str, str]] = attrs.field(factory=set)
    unfinished: dict[str, int] = attrs.field(factory=dict)

    def note(self, job: Job, item: str, remove: Callable[[], int]) -> int:
        """Remove one item and tell how many of it were there; one that refuses is counted once and told."""
        try:
            return remove()
        except ANYTHING as error:  # whatever a storage provider raises, the item stays and the sweep goes on
            self.refused.add((job.id, item))
            _log.warning("Clearing jobs left %s: %s", item, describe(error))
            return False


class Clearing:
    """Empties the system; one clear at a time, and a second one waits for the first.

    A clear belongs to the thread that runs it, so whoever asked may leave. `also` are further acts of the transaction
    that removes the rows, each called with its time.
    """

    def __init__(
        self,
        removal: Removal,
        leftovers: Leftovers,
        clock: Callable[[], datetime.datetime],
        also: Sequence[Callable[[datetime.datetime], None]] = (),
    ) -> None:
        self._removal = removal
        self._leftovers = leftovers
        self._clock = clock
        self._also = also
        self._running = threading.Lock()
        self._stopping = threading.Event()

    def clear(self, person: Person) -> Cleared:
        """Remove the files of every job, then every row.

        Raises `PermanentFailure` before anything is removed when a storage is not reachable, `StoreFailed` when the
        database fails, and `Interrupted` when the service stops; after those two the rows are all there, and files
        that were swept are gone.
        """
        started_at = self._clock()
        with self._running:
            fault = self._leftovers.find_storage_fault()
            if fault is not None:
                raise PermanentFailure(f"Jobs cannot be cleared, nothing was removed: {fault}.")
            swept = self._sweep(started_at)
            try:
                removed = self._remove_rows(started_at, swept, person)
            except StoreFailed as error:
                _log.error(
                    "Clearing jobs failed in the database after %d file(s) and %d folder(s) had gone; clear again: %s",
                    swept.files,
                    swept.folders,
                    error.message,
                )
                raise
        for output in removed.late_outputs:
            # It was not in the picture of the sweep (PIPE-104), and the file may be the only signed copy there is.
            _log.warning(
                "Clearing jobs left output %s: its job was born meanwhile and has gone with the others", output
            )
        cleared = _sum_up(removed, swept)
        event = _event(cleared, person)
        level = logging.WARNING if cleared.items_failed else logging.INFO
        _log.log(level, "%s", event.message, extra=facts(**event.facts))
        return cleared

    def interrupt(self, limit_seconds: float) -> None:
        """End a clear that is sweeping, refuse further ones, and wait for the transaction of one that is further."""
        self._stopping.set()
        if self._running.acquire(timeout=limit_seconds):
            self._running.release()

    def _sweep(self, started_at: datetime.datetime) -> _Swept:
        swept = _Swept()
        for page in self._removal.pages(started_at):
            for job in page:
                self._sweep_job(job, swept)
        return swept

    def _remove_rows(self, started_at: datetime.datetime, swept: _Swept, person: Person) -> Removed:
        """Remove the rows once none has changed since its files were swept, so that no signed file is left (PIPE-104).

        A job that goes on meanwhile is swept again as it is now. That ends: it has few changes before its end, and
        without its staged copy it makes no output.
        """
        while True:
            for job in self._removal.moved_on(swept.unfinished):
                self._sweep_job(job, swept)
            try:
                return self._removal.remove_all(
                    started_at, lambda rows: _event(_sum_up(rows, swept), person), self._also, swept.unfinished
                )
            except MovedOn as error:
                _log.info("Clearing jobs sweeps once more: %s", error.message)

    def _sweep_job(self, job: Job, swept: _Swept) -> None:
        if self._stopping.is_set():
            _log.warning(
                "Clearing jobs was interrupted by the end of the service: all rows are there, %d file(s) and "
                "%d folder(s) are gone. Clear again after the start",
                swept.files,
                swept.folders,
            )
            raise Interrupted("The service is stopping; jobs were not cleared. Clear again after the start.")
        # What lies at the path of a job that has ended behind the sweep is a new arrival.
        is_input_gone = job.id in swept.unfinished and self._leftovers.has_removed_input(job)
        if job.status in TERMINAL:
            swept.unfinished.pop(job.id, None)
        else:
            swept.unfinished[job.id] = job.row_version
        # A promotion moves the signed file out of the job's folder, so the folder goes before the output.
        if not is_input_gone:
            swept.files += swept.note(job, f"input {job.original_path}", partial(self._remove_input, job))
        for place in self._leftovers.job_folders(job):
            item = f"{place.parent.name}/{place.name}/"
            swept.folders += swept.note(job, item, partial(self._leftovers.remove_folder, place))
        for item, find in (
            (f"output {job.output_path}", self._leftovers.output),
            (f"content {job.companion_path}", self._leftovers.companion),
        ):
            swept.files += swept.note(job, item, partial(_remove_delivered, find, job))
        if job.status in TERMINAL:
            swept.files += swept.note(job, f"receipt of {job.output_path}", partial(self._remove_receipt, job))

    def _remove_input(self, job: Job) -> bool:
        found = self._leftovers.locate_input(job)
        if found is None or found[0].look(found[1]) is None:
            return False
        self._leftovers.remove_input(*found, job)
        return True

    def _remove_receipt(self, job: Job) -> int:
        return len(self._leftovers.remove_receipt(job))


def _remove_delivered(find: Callable[[Job], Path | None], job: Job) -> bool:
    path = find(job)
    return path is not None and durable.remove_file(path)


def _sum_up(removed: Removed, swept: _Swept) -> Cleared:
    return Cleared(removed.jobs, swept.files, swept.folders, removed.events, len(swept.refused))


def _event(cleared: Cleared, person: Person) -> Event:
    text = f"Jobs cleared by {person.name}: {cleared.counts}."
    if cleared.items_failed:
        text += f" {cleared.items_failed} file(s) or folder(s) could not be deleted."
    return Event(
        CLEARED,
        text,
        {
            "actor": person.name,
            "scheme": person.scheme,
            "files": cleared.files,
            "folders": cleared.folders,
            "itemsFailed": cleared.items_failed,
            "jobs": cleared.jobs,
            "events": cleared.events,
        },
    )
