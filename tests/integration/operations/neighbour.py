"""The other process of the races between processes: takes `ACT JOB TIME` lines and answers each with one word."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.errors import Refusal
from bulksigner.contract.settings import Secret
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.jobs.model import Changed, Owner
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.removal import Removal
from bulksigner.jobs.store import Jobs
from bulksigner.operations.canceling import Canceling
from bulksigner.operations.deletion import Deletion
from bulksigner.operations.leftovers import Leftovers
from bulksigner.operations.people import Person, ReasonReader
from bulksigner.records.engines import EngineKind, open_postgresql, open_sqlite

DONE = {"cancel": "canceled", "delete": "deleted"}


def tell_nobody(changed: Changed) -> None:
    """Nobody watches this process."""


def free_nothing(path: str) -> None:
    """No watcher runs in this process."""


def main(kind: str, place: str, inbox: str, root: str) -> None:
    is_file = kind == EngineKind.SQLITE.value
    store = open_sqlite(Path(place)) if is_file else open_postgresql(Secret(place), 5)
    jobs, queue, roots, reasons = Jobs(store), Queue(store), WorkRoots(Path(root)), ReasonReader(str)
    canceling = Canceling(jobs, roots, reasons, tell_nobody)
    leftovers = Leftovers(OpenedFolders([OpenedFolder("in", LocalFolder(Path(inbox)))]), roots)
    deletion = Deletion(jobs, canceling, Removal(store), leftovers, reasons, free_nothing, threading.RLock())
    person = Person("neighbour", "CommandLine")

    def do(act: str, job_id: str) -> str:
        try:
            if act == "cancel":
                canceling.cancel(job_id, person)
            elif act == "delete":
                deletion.delete(job_id, person)
            elif act == "claim":
                return "claimed" if queue.claim(1, Owner("there", "its-life")) else "nothing"
        except Refusal as refusal:
            return refusal.code or type(refusal).__name__
        return DONE[act]

    jobs.counts()
    print("ready", flush=True)
    for line in sys.stdin:
        act, job_id, at = line.split()
        while time.monotonic() < float(at):
            pass
        print(do(act, job_id), flush=True)
    store.close()


main(*sys.argv[1:])
