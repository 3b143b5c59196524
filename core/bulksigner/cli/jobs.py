"""`bulksigner jobs delete`: the deletion of one job, from another process than the service (PIPE-101)."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from bulksigner.boot import lay_foundation
from bulksigner.cli.desk import open_database
from bulksigner.contract.errors import BulkSignerError
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import open_folders
from bulksigner.jobs.model import Changed, Job, utc_now
from bulksigner.jobs.receipts import Receipts
from bulksigner.jobs.removal import Removal
from bulksigner.jobs.store import Jobs
from bulksigner.operations.canceling import Canceling
from bulksigner.operations.deletion import Deleted, Deletion
from bulksigner.operations.leftovers import Leftovers
from bulksigner.operations.people import Person, ReasonReader

__all__ = ["delete_job"]

EXIT_NOT_CONFIRMED = 1
OPERATOR = Person("operator (command line)", "CommandLine")


@attrs.frozen
class _Desk:
    canceling: Canceling
    deletion: Deletion


def delete_job(job_id: str, *, reason: str | None, is_confirmed: bool) -> int:
    """Delete one job and say what went and what stayed; exit 1 when nobody confirmed it or it is refused."""
    with _open() as desk:
        job = desk.canceling.find(job_id)
        if not is_confirmed and not _confirm(job):
            print("Nothing was deleted.")
            return EXIT_NOT_CONFIRMED
        _tell(desk.deletion.delete(job_id, OPERATOR, reason))
    return 0


@contextmanager
def _open() -> Iterator[_Desk]:
    foundation = lay_foundation(os.environ)
    core = foundation.settings.core
    with open_database(foundation) as store:
        jobs, roots, reasons = Jobs(store), WorkRoots(core.storage.root), ReasonReader(foundation.scrubber.scrub)
        folders = open_folders(core.storage, core.watched_folder, foundation.registry.storage_provider)
        canceling = Canceling(jobs, roots, reasons, _tell_nobody)
        leftovers = Leftovers(folders, roots, Receipts(store))
        removal = Removal(store, utc_now)
        yield _Desk(canceling, Deletion(jobs, canceling, removal, leftovers, reasons, _free_nothing, threading.RLock()))


def _confirm(job: Job) -> bool:
    if not sys.stdin.isatty():
        raise BulkSignerError("A deletion cannot be confirmed without a terminal; add --yes to mean it.")
    print(f"Job {job.id} ('{job.file_name}', {job.status.value}) of {job.created_at:%Y-%m-%dT%H:%M:%SZ} goes with its")
    print("history, its folders, the output it recorded, and its input if that is still what the job staged.")
    return input("There is no way back. Delete it? [y/N] ").strip().casefold() in ("y", "yes")


def _tell(deleted: Deleted) -> None:
    print(f"Deleted job {deleted.job_id} ('{deleted.file_name}', {deleted.status}).")
    for item in ("job and history", *deleted.removed):
        print(f"  removed  {item}")
    for kept in deleted.kept:
        print(f"  kept     {kept.item}: {kept.reason}")
    if any(kept.item.startswith("input ") for kept in deleted.kept):
        print(
            "The kept input is a new arrival: a running service takes it within two poll intervals, or the next start."
        )


def _tell_nobody(changed: Changed) -> None:
    """Announce nothing: those who watch a service live in its process, and read the event of the deletion."""


def _free_nothing(path: str) -> None:
    """Wake no watcher: those of a service read the event of the deletion."""
