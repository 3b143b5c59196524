"""The input folders as operators see them: their watch, their profile, and what lies in them (API-72)."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import attrs

from bulksigner.contract.errors import BulkSignerError
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.intake.watcher import WatcherStatus
from bulksigner.looks import Looks
from bulksigner.plugin_system.guard import ANYTHING, describe
from bulksigner.profiles.model import OpenedProfile

__all__ = ["FILES_SHOWN", "FolderList", "FolderView"]

FILES_SHOWN = 50
"""Files of a folder are counted up to here, so that a look costs the same however many lie there."""
LIMIT_SECONDS = 5.0
"""A folder that does not answer in this time is shown with an error; it holds up no other."""
AUTOMATIC = "auto"
"""The format of a profile that goes by file extension."""


@attrs.frozen
class FolderView:
    """One input folder; `processed_count` is of the jobs that its watch has made since the start."""

    name: str
    path: str
    exists: bool
    status: str
    last_scan_at: datetime.datetime | None
    last_enqueue_at: datetime.datetime | None
    last_error: str | None
    processed_count: int
    file_count: int
    is_capped: bool
    profile_name: str | None
    profile_format: str | None


@attrs.frozen
class _Listing:
    exists: bool
    count: int = 0
    error: str = ""


class FolderList:
    """Lists the folders with what is known of them at this moment."""

    def __init__(
        self,
        folders: OpenedFolders,
        statuses: Callable[[], Sequence[WatcherStatus]],
        bound: Callable[[str], OpenedProfile | None],
        scrub: Callable[[str], str],
        *,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        self._folders = folders
        self._statuses = statuses
        self._bound = bound
        self._scrub = scrub
        self._limit_seconds = limit_seconds
        self._looks: Looks[_Listing] = Looks()

    def look(self) -> list[FolderView]:
        """Return every folder, in the order of the settings; takes at most the time limit of one look."""
        known = {status.folder: status for status in self._statuses()}
        looks = [
            (opened, self._looks.begin(opened.name, f"folder {opened.name}", partial(_list_files, opened)))
            for opened in self._folders
        ]
        silent = _Listing(False, error=f"no answer within {self._limit_seconds:g} s")
        return [
            self._view(opened, known[opened.name], look.wait(self._limit_seconds) or silent) for opened, look in looks
        ]

    def _view(self, opened: OpenedFolder, status: WatcherStatus, listing: _Listing) -> FolderView:
        profile = self._bound(opened.name)
        return FolderView(
            name=opened.name,
            path=opened.folder.location,
            exists=listing.exists,
            status=status.state.value,
            last_scan_at=status.last_scan_at,
            last_enqueue_at=status.last_enqueue_at,
            last_error=self._scrub(status.last_error or listing.error) or None,
            processed_count=status.enqueued_count,
            file_count=min(listing.count, FILES_SHOWN),
            is_capped=listing.count > FILES_SHOWN,
            profile_name=None if profile is None else profile.name,
            profile_format=None if profile is None else _format_of(profile),
        )


def _format_of(profile: OpenedProfile) -> str:
    return AUTOMATIC if profile.stored.format is None else profile.stored.format.value


def _list_files(opened: OpenedFolder) -> _Listing:
    try:
        waiting = (entry for entry in opened.folder.entries() if opened.is_candidate_name(entry.name))
        return _Listing(True, sum(1 for _ in islice(waiting, FILES_SHOWN + 1)), opened.find_fault() or "")
    except BulkSignerError as error:
        return _Listing(_is_there(opened), error=error.message)
    except ANYTHING as error:  # a provider of a plugin may raise anything, and the other folders are still shown
        return _Listing(_is_there(opened), error=describe(error))


def _is_there(opened: OpenedFolder) -> bool:
    """Tell whether a folder of this host is there although it cannot be listed."""
    return opened.guard is not None and Path(opened.folder.location).is_dir()
