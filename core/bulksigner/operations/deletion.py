"""Delete one job with what it left, and say exactly what went and what stayed (PIPE-101)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import attrs

from bulksigner.contract.errors import HeldElsewhere
from bulksigner.contract.storage import Folder, RemovalOutcome
from bulksigner.jobs.model import Job
from bulksigner.jobs.removal import Removal
from bulksigner.jobs.states import TERMINAL, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.observability.logs import facts
from bulksigner.operations.canceling import Canceling
from bulksigner.operations.leftovers import HOLD_WAITS_SECONDS, Leftovers, is_own_landing_copy
from bulksigner.operations.people import Person, ReasonReader, as_sentence, with_reason
from bulksigner.pipeline.holding import held
from bulksigner.plugin_system.guard import ANYTHING, describe
from bulksigner.records.events import Event

__all__ = ["Deleted", "Deletion", "Kept"]

_log = logging.getLogger("bulksigner.operations")


@attrs.frozen
class Kept:
    """One thing that was left where it is, and why."""

    item: str
    reason: str


@attrs.frozen
class Deleted:
    """What a deletion came to; `status` is the one the job had when a person asked."""

    job_id: str
    file_name: str
    status: str
    removed: tuple[str, ...]
    kept: tuple[Kept, ...]


@attrs.define
class _Account:
    """Notes while a job is taken apart: what went, what stayed."""

    removed: list[str] = attrs.field(factory=list)
    kept: list[Kept] = attrs.field(factory=list)

    def keep(self, item: str, error: BaseException) -> None:
        """Note an item that refused to go."""
        self.kept.append(Kept(item, describe(error)))


class Deletion:
    """Deletes single jobs; `gate` is that of `Operator`, `free_path` tells the watchers to look at a path again.

    The gate keeps retries of this process out. Those of others are held off by the row: a deletion changes it before it
    touches a file, and a retry that read it before is refused.
    """

    def __init__(
        self,
        jobs: Jobs,
        canceling: Canceling,
        removal: Removal,
        leftovers: Leftovers,
        reasons: ReasonReader,
        free_path: Callable[[str], None],
        gate: threading.RLock,
    ) -> None:
        self._jobs = jobs
        self._canceling = canceling
        self._removal = removal
        self._leftovers = leftovers
        self._reasons = reasons
        self._free_path = free_path
        self._gate = gate

    def delete(self, job_id: str, person: Person, reason: str | None = None) -> Deleted:
        """Remove a job, its rows and its files; one that waits is canceled first.

        Raises `NotFound`, `NotAllowed` (`job.not-queued`) for a job under way, or `RaceLost`. When a worker takes the
        job first, nothing is deleted. When the database refuses the last step, the files are gone and the job is still
        there: ask again.
        """
        told = self._reasons.read(reason)
        with self._gate:
            job = self._canceling.find(job_id)
            status = job.status.value
            if job.status not in TERMINAL:
                job = self._canceling.cancel(job_id, person, told).job
                status = f"{status}, canceled to delete it"
            else:
                job = self._jobs.record(job, message=f"Deletion begun by {person.name}.")
            account = self._take_apart(job)
            # The words of a storage provider, before they are stored anywhere (SEC-57).
            kept = tuple(attrs.evolve(one, reason=self._reasons.scrub(one.reason)) for one in account.kept)
            deleted = Deleted(job.id, job.file_name, status, tuple(account.removed), kept)
            event = _event(deleted, job.original_path, person, told)
            self._removal.remove(job, event)
        self._free_path(job.original_path)
        _log.info("%s", event.message, extra=facts(job_id=job.id, actor=person.name))
        return deleted

    def _take_apart(self, job: Job) -> _Account:
        account = _Account()
        self._remove_input(job, account)
        for place in self._leftovers.job_folders(job):
            item = f"{place.parent.name}/{place.name}/"
            try:
                if self._leftovers.remove_folder(place):
                    account.removed.append(item)
            except OSError as error:
                account.keep(item, error)
        self._remove_output(job, account)
        self._remove_receipt(job, account)
        return account

    def _remove_receipt(self, job: Job, account: _Account) -> None:
        try:
            account.removed.extend(f"receipt {path}" for path in self._leftovers.remove_receipt(job))
        except OSError as error:
            account.keep("receipt", error)

    def _remove_output(self, job: Job, account: _Account) -> None:
        left = self._leftovers
        gone = self._remove_delivered(
            f"output {job.output_path}",
            lambda: left.output(job),
            lambda path: left.remove_own_output(path, job),
            account,
        )
        # Where the signature was collected, the same content under that name may be a later job's.
        if gone is RemovalOutcome.REMOVED or job.output_path is None or job.status is JobStatus.FAILED:
            self._remove_delivered(
                f"content {job.companion_path}",
                lambda: left.companion(job),
                lambda path: left.remove_own_companion(path, job),
                account,
            )
        elif job.companion_path is not None and os.path.lexists(job.companion_path):
            account.kept.append(Kept(f"content {job.companion_path}", "its signature is not beside it any more"))

    def _remove_delivered(
        self,
        item: str,
        find: Callable[[], Path | None],
        remove: Callable[[Path], RemovalOutcome],
        account: _Account,
    ) -> RemovalOutcome:
        try:
            path = find()
            outcome = RemovalOutcome.ABSENT if path is None else remove(path)
        except OSError as error:
            account.keep(item, error)
            return RemovalOutcome.KEPT
        if outcome is RemovalOutcome.REMOVED:
            account.removed.append(item)
        elif outcome is RemovalOutcome.DIVERGED:
            account.kept.append(Kept(item, "not the file that this job delivered"))
        return outcome

    def _remove_input(self, job: Job, account: _Account) -> None:
        item = f"input {job.original_path}"
        try:
            found = self._leftovers.locate_input(job)
            if found is None or found[0].look(found[1]) is None:
                return
            folder, name = found
            with held(folder, name, waits_seconds=HOLD_WAITS_SECONDS):
                kept = self._remove_held_input(job, folder, name)
        except HeldElsewhere as error:
            kept = f"held by someone else: {error.message}"
        except ANYTHING as error:  # whatever a storage provider raises, the file stays and the deletion goes on
            kept = describe(error)
        if kept is None:
            account.removed.append(item)
        elif kept:
            account.kept.append(Kept(item, kept))

    def _remove_held_input(self, job: Job, folder: Folder, name: str) -> str | None:
        """Remove the input; return why it stays, an empty text when it was gone already, None when it went."""
        other = self._jobs.active_for(job.original_path)
        if other is not None:
            return f"job {other.id} is not finished and needs it"
        if is_own_landing_copy(job, name):
            folder.remove(name)
            return None
        removal = self._leftovers.remove_staged_input(folder, name, job)
        if removal.outcome is RemovalOutcome.REMOVED:
            return None
        return "" if removal.outcome is RemovalOutcome.ABSENT else removal.reason or removal.outcome.value


def _event(deleted: Deleted, original_path: str, person: Person, reason: str | None) -> Event:
    text = f"Job {deleted.job_id} ('{deleted.file_name}', {deleted.status}) deleted by {person.name}."
    text += f" Removed: {', '.join(('job and history', *deleted.removed))}."
    if deleted.kept:
        text += " " + as_sentence("Kept: " + "; ".join(f"{kept.item} ({kept.reason})" for kept in deleted.kept))
    return Event(
        "JobDeleted",
        with_reason(text, reason),
        {
            "jobId": deleted.job_id,
            "fileName": deleted.file_name,
            "originalPath": original_path,
            "status": deleted.status,
            "actor": person.name,
            "scheme": person.scheme,
            "removed": list(deleted.removed),
            "kept": [attrs.asdict(kept) for kept in deleted.kept],
            "reason": reason,
        },
    )
