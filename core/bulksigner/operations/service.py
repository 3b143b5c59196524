"""All operator actions, put together from the parts of a service."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Sequence

import attrs

from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import OpenedFolders
from bulksigner.intake.rescan import Rescanner
from bulksigner.intake.watcher import WatcherStatus
from bulksigner.jobs.model import Changed
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.receipts import Receipts
from bulksigner.jobs.removal import Removal
from bulksigner.jobs.store import Jobs
from bulksigner.observability.metrics import Metrics
from bulksigner.operations.clear import Clearing
from bulksigner.operations.deletion import Deletion
from bulksigner.operations.folder_list import FolderList
from bulksigner.operations.leftovers import Leftovers
from bulksigner.operations.operator import Operator
from bulksigner.operations.pausing import Pausing
from bulksigner.operations.people import ReasonReader
from bulksigner.operations.rescanning import Rescanning
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records.engines import Store

__all__ = ["Operations", "assemble"]


@attrs.frozen
class Operations:
    """The one set of rules behind dashboard and REST (API-06); each act commits, then does what follows."""

    operator: Operator
    deletion: Deletion
    clearing: Clearing
    pausing: Pausing
    rescanning: Rescanning
    folder_list: FolderList


@attrs.frozen
class _StoredProfiles:
    """The profiles as an operator action asks for them."""

    opened: OpenedProfiles

    def get(self, name: str) -> StoredProfile | None:
        found = self.opened.get(name)
        return None if found is None else found.stored


def assemble(
    *,
    store: Store,
    jobs: Jobs,
    queue: Queue,
    profiles: OpenedProfiles,
    folders: OpenedFolders,
    roots: WorkRoots,
    rescanner: Rescanner,
    pause: PauseFlag,
    announce: Callable[[Changed], None],
    free_path: Callable[[str], None],
    watcher_statuses: Callable[[], Sequence[WatcherStatus]],
    scrub: Callable[[str], str],
    clock: Callable[[], datetime.datetime],
    also_when_cleared: Sequence[Callable[[datetime.datetime], None]] = (),
    metrics: Metrics | None = None,
) -> Operations:
    """Return the actions.

    `announce` is called after the commit of each change of a job, `free_path` after a job was deleted;
    `also_when_cleared` are acts in the transaction of Clear Jobs, each called with its time.
    """
    reasons = ReasonReader(scrub)
    leftovers = Leftovers(folders, roots, Receipts(store, clock))
    removal = Removal(store, clock)
    gate = threading.RLock()
    operator = Operator(
        jobs,
        queue,
        _StoredProfiles(profiles),
        lambda job: folders.input_exists(job.original_path),
        roots,
        reasons,
        announce,
        gate,
    )
    return Operations(
        operator=operator,
        deletion=Deletion(jobs, operator, removal, leftovers, reasons, free_path, gate),
        clearing=Clearing(removal, leftovers, clock, also_when_cleared),
        pausing=Pausing(pause, reasons, queue.wake.set, metrics),
        rescanning=Rescanning(rescanner, store, clock),
        folder_list=FolderList(folders, watcher_statuses, profiles.bound, scrub),
    )
