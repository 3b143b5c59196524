"""All watchers of this host, and the news of jobs that reach them by stored path."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolders
from bulksigner.intake.names import is_landing_name
from bulksigner.intake.notices import PolledNotices, notices_for
from bulksigner.intake.watcher import FolderWatcher, WatcherState, WatcherStatus

if TYPE_CHECKING:
    from bulksigner.profiles.model import OpenedProfile
    from bulksigner.settings.model import WatchedFolderSettings

__all__ = ["FolderWatchers"]

log = logging.getLogger(__name__)


class FolderWatchers:
    """One watcher for each configured folder; a folder without a profile has one too, which only waits for it."""

    def __init__(
        self,
        folders: OpenedFolders,
        service: EnqueueService,
        bound: Callable[[str], OpenedProfile | None],
        settings: WatchedFolderSettings,
        scrub: Callable[[str], str] = str,
    ) -> None:
        self._folders = folders
        self._watchers: dict[str, FolderWatcher] = {}
        for opened in folders:
            notices = (
                notices_for(Path(opened.folder.location), opened.is_candidate_name)
                if opened.has_events
                else PolledNotices()
            )
            self._watchers[opened.name] = FolderWatcher(opened, service, bound, settings, notices, scrub=scrub)

    def start(self) -> None:
        """Start every watcher."""
        for watcher in self._watchers.values():
            watcher.start()

    def stop(self) -> None:
        """Stop every watcher and wait for the looks that are going on."""
        for watcher in self._watchers.values():
            watcher.stop()

    def step(self) -> None:
        """Look once at every folder, in this thread; for a service that is stepped by hand instead of started."""
        for watcher in self._watchers.values():
            watcher.step()

    def look_again(self) -> None:
        """Have every watcher look now: a profile was bound, let go of, enabled or disabled (PIPE-59)."""
        for watcher in self._watchers.values():
            watcher.look_again()

    def statuses(self) -> list[WatcherStatus]:
        """Return how each watcher stands, in the order of the settings (PIPE-46)."""
        return [watcher.status for watcher in self._watchers.values()]

    def offer_again(self, path: str) -> bool:
        """Offer a diverged input to its folder's watcher, after the commit of the job that found it (PIPE-94).

        False, with a warning, when no watcher can take it: the input of an upload, a folder without a watch.
        """
        found = self._folders.resolve(path)
        if found is not None and not is_landing_name(found[1]):
            watcher = self._watchers[found[0].name]
            if watcher.status.state not in (WatcherState.STOPPED, WatcherState.UNASSIGNED):
                watcher.offer_again(found[1])
                return True
        if found is not None and is_landing_name(found[1]):
            advice = (
                "send the file again; while names are remembered (Pipeline:RejectAlreadyProcessedFileNames), "
                "delete the job that has its name first"
            )
        else:
            advice = "rescan its folder once it is watched again"
        log.warning("%s was rewritten while its job ran, and no watcher takes it again: %s", path, advice)
        return False

    def job_ended(self, path: str) -> None:
        """Tell the folder's watcher that a job ended; call it after the commit of every final status (PIPE-44)."""
        found = self._folders.resolve(path)
        if found is not None:
            self._watchers[found[0].name].job_ended(found[1])

    def path_freed(self, path: str) -> None:
        """Have the folder's watcher look at a path again, after the commit that deleted a job of it (PIPE-101)."""
        found = self._folders.resolve(path)
        if found is not None:
            self._watchers[found[0].name].offer_again(found[1])
