"""The opened input folders of this host, and the way back from a stored path to its folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from bulksigner.contract.errors import NotFound, ProviderError, StartRefused
from bulksigner.contract.storage import Entry, Folder, StorageProvider
from bulksigner.files.durable import FOLDER_MODE
from bulksigner.files.set_aside import PRIVATE_PREFIX
from bulksigner.intake.abilities import KnowsRemoval, KnowsWriters, LeavesSomething
from bulksigner.intake.claim import FolderClaim
from bulksigner.intake.closed_folder import ClosedFolder
from bulksigner.intake.folder_health import FolderGuard
from bulksigner.intake.names import IgnoreRules, is_landing_name
from bulksigner.intake.sidecar import is_sidecar_name, pair
from bulksigner.mounts import network_type

if TYPE_CHECKING:
    from bulksigner.settings.model import InputFolder, StorageSettings, WatchedFolderSettings

__all__ = ["OpenedFolder", "OpenedFolders", "open_folders"]

log = logging.getLogger(__name__)


@attrs.frozen
class OpenedFolder:
    """One input folder: where it is, which names it ignores and how it is watched."""

    name: str
    folder: Folder
    rules: IgnoreRules = attrs.field(factory=IgnoreRules)
    has_events: bool = False
    poll_interval_seconds: float | None = None
    claim: FolderClaim | None = None
    has_sidecars: bool = False
    guard: FolderGuard | None = None
    watched_by: str = ""
    """How news of the folder comes, and why not otherwise, in words for operators."""
    _writers: KnowsWriters | None = attrs.field(init=False, repr=False, eq=False)

    @_writers.default
    def _find_writers(self) -> KnowsWriters | None:
        # Each file asks, and to ask a protocol whether a folder has it takes longer than to ask the kernel.
        return self.folder if self.has_events and isinstance(self.folder, KnowsWriters) else None

    def find_fault(self) -> str | None:
        """Say why no file may be taken now, though the folder can be listed; None when they may."""
        # The guard before the claim, which would lock what shows in the place of a mount that is gone.
        fault = None if self.guard is None else self.guard.find_fault()
        if fault is None and self.claim is not None:
            fault = self.claim.find_fault()
        if fault is None and isinstance(self.folder, KnowsRemoval):
            fault = self.folder.find_removal_fault()
        return fault

    def is_being_written(self, name: str) -> bool:
        """Tell whether a program is known to have the file open for writing; on network drives nobody knows."""
        return self._writers is not None and self._writers.is_being_written(name)

    def find_sidecars(self, entries: Iterable[Entry]) -> Mapping[str, Entry]:
        """Return the sidecars of a listing by the names of their files; none where files have none (CFG-183)."""
        return pair(entries) if self.has_sidecars else {}

    def is_candidate_name(self, name: str) -> bool:
        """Tell whether a file of this name may become a job by lying here (PIPE-42); landing copies may not.

        Nor may sidecars, where files have some (PIPE-117).
        """
        if self.has_sidecars and is_sidecar_name(name):
            return False
        return not (self.rules.match(name) or is_landing_name(name) or name.startswith(PRIVATE_PREFIX))


class OpenedFolders:
    """All configured input folders, in the order of the settings."""

    def __init__(self, folders: Sequence[OpenedFolder]) -> None:
        self._by_name = {folder.name: folder for folder in folders}
        self._prefixes = [(opened.folder.path_of("x")[:-1], opened) for opened in folders]

    def __iter__(self) -> Iterator[OpenedFolder]:
        return iter(self._by_name.values())

    @property
    def landing(self) -> OpenedFolder:
        """Return the folder that uploads land in: the first one (PIPE-55)."""
        return next(iter(self))

    def get(self, name: str) -> OpenedFolder:
        """Return one folder; raises `NotFound` (`folder.not-found`) listing the configured names (API-71)."""
        opened = self._by_name.get(name)
        if opened is None:
            raise NotFound(
                f"No input folder {name!r} is configured; there are: {', '.join(self._by_name)}.",
                code="folder.not-found",
            )
        return opened

    def resolve(self, path: str) -> tuple[OpenedFolder, str] | None:
        """Split a stored path (PIPE-01) into its folder and the file's name there; None when no folder has it."""
        for prefix, opened in self._prefixes:
            name = path[len(prefix) :]
            if path.startswith(prefix) and name and "/" not in name and os.sep not in name:
                return opened, name
        return None

    def input_exists(self, path: str) -> bool:
        """Tell whether the input of a job is there (PIPE-99). Raises `ProviderError` when that cannot be seen."""
        found = self.resolve(path)
        return found is not None and found[0].folder.look(found[1]) is not None

    def claim(self) -> None:
        """Keep other services off the local folders; raises `StartRefused` (exit 75) when one is there already."""
        for opened in self:
            fault = None if opened.claim is None else opened.claim.find_fault()
            if fault is not None:
                raise StartRefused(
                    f"Input folder {opened.name}: {fault}. Stop the other one, or give this one its own folder.",
                    exit_code=75,
                )

    def release(self) -> None:
        """Let go of what `claim` took."""
        for opened in self:
            if opened.claim is not None:
                opened.claim.release()

    def try_rights(self) -> None:
        """Try each local folder with a file of our own, and warn of rights that are missing. Call once, at start."""
        for opened in self:
            fault = None if opened.guard is None else opened.guard.begin()
            if fault is not None:
                log.warning("Input folder %s: %s", opened.name, fault)

    def settle_leftovers(self) -> None:
        """Finish or undo, in each folder, what a killed process left half done. Call once, before anything looks."""
        for opened in self:
            if isinstance(opened.folder, LeavesSomething):
                try:
                    lines = opened.folder.settle_leftovers()
                except ProviderError as error:
                    lines = [f"What an interrupted removal may have left in {opened.name} stays: {error.message}"]
                for line in lines:
                    log.warning("Input folder %s: %s", opened.name, line)


def open_folders(
    storage: StorageSettings, watched: WatchedFolderSettings, provider: Callable[[str], StorageProvider]
) -> OpenedFolders:
    """Open every configured folder; one that cannot be opened stays in the list and says why at each use (CFG-59).

    A local folder below `Storage:Root` is made, or `StartRefused` (exit 73) raised; any other may be a mount, and an
    empty folder in its place would hide that it is missing.
    """
    opened = []
    for given in storage.inputs:
        source = provider(given.provider or storage.provider)
        is_local = source.notifies
        if is_local and given.path.is_relative_to(storage.root):
            _make(given)
        folder: Folder
        try:
            folder = source.open(str(given.path), {})
        except ProviderError as error:
            log.warning("Input folder %s cannot be opened: %s", given.name, error.message)
            folder = ClosedFolder(str(given.path), error.message)
        network = network_type(Path(given.path)) if is_local else None
        has_events = is_local and network is None
        poll_interval_seconds = given.poll_interval_seconds
        if poll_interval_seconds is None and not has_events:
            poll_interval_seconds = watched.poll_interval_seconds
        rules = IgnoreRules(
            (*watched.ignored_extensions, *given.ignored_extensions),
            (*watched.ignored_prefixes, *given.ignored_prefixes),
        )
        place = Path(folder.location)
        opened.append(
            OpenedFolder(
                given.name,
                folder,
                rules,
                has_events,
                poll_interval_seconds,
                claim=FolderClaim(place) if has_events else None,
                has_sidecars=given.sidecar,
                guard=FolderGuard(place, folder) if is_local else None,
                watched_by=_tell_watch(poll_interval_seconds, source, network),
            )
        )
    return OpenedFolders(opened)


def _tell_watch(poll_interval_seconds: float | None, source: StorageProvider, network: str | None) -> str:
    if not source.notifies:
        return f"listed every {poll_interval_seconds:g} s, as {source.name} reports no changes"
    if network is not None:
        return f"listed every {poll_interval_seconds:g} s, as a network file system ({network}) reports no changes"
    if poll_interval_seconds is not None:
        return f"events, and listed every {poll_interval_seconds:g} s as the settings ask"
    return "events"


def _make(given: InputFolder) -> None:
    try:
        given.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise StartRefused(
            f"The input folder {given.name} cannot be created at {given.path}: {error.strerror}. Give the account that "
            f"runs the service write access to it; under systemd name it in ReadWritePaths.",
            exit_code=73,
        ) from error
