"""Folders of the local file system (StorageProvider `LocalFileSystem`)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

from bulksigner.contract.errors import HeldElsewhere, PermanentFailure, TemporaryFailure
from bulksigner.contract.signing import Measured
from bulksigner.contract.storage import Entry, Fingerprint, Hold, Removal, RemovalOutcome
from bulksigner.files import durable
from bulksigner.files.names import child_of
from bulksigner.files.set_aside import PRIVATE_PREFIX, arriving_path, put_back, removing_path, settle_leftovers
from bulksigner.files.volumes import is_on_this_host
from bulksigner.files.writers import is_open_for_writing

__all__ = ["LocalFileSystem", "LocalFolder"]

_ABSENT = Removal(RemovalOutcome.ABSENT)
_REMOVED = Removal(RemovalOutcome.REMOVED)
_REWRITTEN = Removal(RemovalOutcome.DIVERGED, "rewritten")
_PAUSES_SECONDS = (0.0, 0.5, 2.0, 5.0)
# What waiting does not mend; on Windows these are said of a file that another program has open, too.
_REFUSALS = frozenset() if sys.platform == "win32" else frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@attrs.frozen
class LocalEntry(Entry):
    """An entry with what no producer can set back: a file dropped again never compares equal to the one before."""

    inode: int
    changed_ns: int


class _NotRemovable(OSError):
    """The file is the one that was signed, and the system refuses to remove it."""


class _StillWritten(Exception):
    """A program has the file open for writing, and would lose what it writes after a removal."""


class LocalFolder:
    """One directory of this host; a hold is bookkeeping of this process, so the comparison protects the input."""

    def __init__(self, path: Path, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._path = path
        self._sleep = sleep
        self._held: dict[str, object] = {}
        self._lock = threading.Lock()
        self._is_near: bool | None = None

    @property
    def location(self) -> str:
        """Return the directory."""
        return str(self._path)

    @property
    def is_near(self) -> bool:
        """Tell whether the directory is not on a network file system."""
        if self._is_near is None:
            self._is_near = is_on_this_host(self._path)
        return self._is_near

    def __reduce__(self) -> tuple[type[LocalFolder], tuple[Path], dict[str, bool]]:
        # It travels with every file, and to tell what holds a folder takes longer than to remove a file from it.
        return LocalFolder, (self._path,), {"_is_near": self.is_near}

    def path_of(self, name: str) -> str:
        """Return the absolute path of a file of this folder."""
        return str(child_of(self._path, name))

    def entries(self) -> Iterator[Entry]:
        """List the regular files, without the product's own private ones."""
        try:
            listing = os.scandir(self._path)
        except OSError as error:
            raise TemporaryFailure(f"{self._path} cannot be listed: {error.strerror}.") from error
        with listing:
            while True:
                try:
                    found = next(listing, None)
                    if found is None:
                        return
                    if found.name.startswith(PRIVATE_PREFIX) or not found.is_file(follow_symlinks=False):
                        continue
                    seen = found.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise TemporaryFailure(f"{self._path} cannot be listed: {error.strerror}.") from error
                yield LocalEntry(found.name, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_ctime_ns)

    def look(self, name: str) -> Entry | None:
        """Look at one file; None when it is not there or is not a regular file."""
        try:
            seen = child_of(self._path, name).lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TemporaryFailure(f"{name} cannot be looked at: {error.strerror}.") from error
        if not stat.S_ISREG(seen.st_mode):
            return None
        return LocalEntry(name, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_ctime_ns)

    def hold(self, name: str) -> Hold:
        """Take the file for this caller alone, among the callers of this process."""
        with self._lock:
            if name in self._held:
                raise HeldElsewhere(f"{self.path_of(name)} is held by another job.")
            token = self._held[name] = object()
        return _LocalHold(self._release, name, token)

    def copy_to(self, name: str, target: Path) -> Fingerprint:
        """Copy a file to a new local file in one read that also measures it; one that changes meanwhile is refused."""
        path = child_of(self._path, name)
        try:
            with durable.open_regular(path) as source:
                # Not flushed: the input stays until the artifact is, and a staged copy that a power loss cuts short
                # is never signed, as its bytes are measured again before the key is used (PIPE-77).
                before = durable.identify_open(source)
                measured = durable.copy_measured(source, target, flush=False)
                is_steady = durable.identify_open(source) == before
        except FileNotFoundError:
            raise
        except durable.NotRegular as error:
            raise PermanentFailure(f"{path} {error.strerror}; only regular files are signed.") from error
        except OSError as error:
            raise TemporaryFailure(f"{path} cannot be copied to {target.parent}: {error.strerror}.") from error
        if not is_steady:
            # Half of the old content and half of the new one, which nobody delivered, must not be signed.
            target.unlink()
            raise TemporaryFailure(f"{path} was written to while it was copied. Deliver it whole, then retry the job.")
        return Fingerprint(measured.length, measured.sha256)

    def remove_if(self, name: str, expected: Fingerprint) -> Removal:
        """Remove a file only while it still is what `expected` says, trying four times (PIPE-93)."""
        left = Removal(RemovalOutcome.DIVERGED)
        for pause_seconds in _PAUSES_SECONDS:
            if pause_seconds:
                self._sleep(pause_seconds)
            left, is_final = self._remove_once(name, expected)
            if is_final:
                break
        return left

    def remove_now(self, name: str, expected: Fingerprint) -> Removal:
        """Remove a file as `remove_if` does, in one try."""
        return self._remove_once(name, expected)[0]

    def measure(self, name: str) -> Fingerprint:
        """Measure a file where it lies. Raises `ProviderError` when it cannot be read."""
        try:
            measured = durable.measure(child_of(self._path, name))
        except OSError as error:
            raise TemporaryFailure(f"{self.path_of(name)} cannot be read: {error.strerror}.") from error
        return Fingerprint(measured.length, measured.sha256)

    def is_being_written(self, name: str) -> bool:
        """Tell whether a program has the file open for writing; False where the system does not say."""
        return is_open_for_writing(child_of(self._path, name))

    def find_removal_fault(self) -> str | None:
        """Say why nothing can be removed from the folder; None when it can, or is not there to be asked."""
        if not self._path.is_dir() or os.access(self._path, os.W_OK | os.X_OK):
            return None
        return (
            f"{self._path} is not writable for this account, so signed files could not be removed from it; no file "
            f"is taken until it is"
        )

    def probe_rights(self) -> float:
        """List the folder, read one of its files, create a file and remove it; return how far ahead its clock is."""
        step, at = "listed", self._path
        try:
            entry = next(self.entries(), None)
            if entry is not None:
                step, at = "read", child_of(self._path, entry.name)
                # Taken by its producer in between, it says nothing of the rights.
                with contextlib.suppress(FileNotFoundError, durable.NotRegular), durable.open_regular(at):
                    pass
            # A start removes what a kill leaves of this.
            step, at = "written to", arriving_path(self._path)
            with at.open("xb") as probe:
                ahead_seconds = os.fstat(probe.fileno()).st_mtime - time.time()
            step, at = "cleared of files", at
            at.unlink()
        except OSError as error:
            place = at if step == "read" else self._path
            raise TemporaryFailure(
                f"{place} cannot be {step} by this account: {error.strerror}; no file is taken until it can"
            ) from error
        return ahead_seconds

    def receive(self, name: str, source: Path) -> None:
        """Move a finished local file into the folder, create-only; the source must be flushed."""
        target = child_of(self._path, name)
        try:
            durable.promote(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # Another file system: the copy is completed under a private name, as a watcher could take half of it.
            beside = arriving_path(self._path)
            with durable.open_regular(source) as stream:
                durable.copy_measured(stream, beside, flush=True)
            try:
                durable.promote(beside, target)
            finally:
                beside.unlink(missing_ok=True)
            durable.remove_file(source)

    def remove(self, name: str) -> None:
        """Remove a file that the product itself placed."""
        durable.remove_file(child_of(self._path, name))

    def settle_leftovers(self) -> list[str]:
        """Finish or undo what a killed process left half done here, and say what was done."""
        try:
            return settle_leftovers(self._path)
        except OSError as error:
            raise TemporaryFailure(f"{self._path}: {error.filename}: {error.strerror}.") from error

    def _release(self, name: str, token: object) -> None:
        with self._lock:
            if self._held.get(name) is token:
                del self._held[name]

    def _remove_once(self, name: str, expected: Fingerprint) -> tuple[Removal, bool]:
        """Try once; tell how it ended, and whether another try could end otherwise no more."""
        try:
            return self._try_removal(name, expected), True
        except _StillWritten:
            return Removal(RemovalOutcome.DIVERGED, "open for writing by another program"), False
        except _NotRemovable as error:
            reason = f"not removable: {error.strerror}"
            return Removal(RemovalOutcome.KEPT, reason), error.errno in _REFUSALS
        except OSError as error:
            return Removal(RemovalOutcome.DIVERGED, f"unreadable: {error.strerror}"), False

    def _try_removal(self, name: str, expected: Fingerprint) -> Removal:
        path = child_of(self._path, name)
        try:
            seen = path.lstat()
            if not stat.S_ISREG(seen.st_mode) or seen.st_size != expected.length:
                return _REWRITTEN
            measured, identity = durable.measure_identified(path)
            if measured != Measured(expected.length, expected.sha256):
                return _REWRITTEN
        except FileNotFoundError:
            return _ABSENT
        except durable.NotRegular:
            return _REWRITTEN
        try:
            return self._remove_identified(path, expected, identity)
        except FileNotFoundError:
            return _ABSENT
        except OSError as error:
            raise _NotRemovable(error.errno, error.strerror, str(path)) from error

    def _remove_identified(self, path: Path, expected: Fingerprint, identity: durable.Identity) -> Removal:
        # Between a comparison and an unlink by name a producer may rename a new file over the compared one. So what
        # has the name is first renamed to a private one, which no producer knows, compared by inode, length and time,
        # and only then unlinked; a stranger gets its name back. A kill in between: files/set_aside.py. A program that
        # opened the file before can still write to it, so the kernel is asked for one; none can come later, as none
        # knows the private name. What stays open: a writer of which the kernel does not tell (files/writers.py).
        aside = removing_path(path.parent, path.name, expected) or path
        if aside is not path:
            path.rename(aside)
        # In this order: what a writer did before it was asked for is seen in the comparison.
        is_written = self.is_near and is_open_for_writing(aside)
        if is_written or durable.identify(aside) != identity:
            if aside is not path:
                put_back(aside, path)
            if is_written:
                raise _StillWritten
            return _REWRITTEN
        try:
            durable.remove_file(aside)
        except OSError:
            if aside is not path and aside.exists():
                put_back(aside, path)
            raise
        return _REMOVED


@attrs.frozen
class LocalFileSystem:
    """Opens directories of this host."""

    sleep: Callable[[float], None] = time.sleep

    @property
    def name(self) -> str:
        """Return `LocalFileSystem`."""
        return "LocalFileSystem"

    @property
    def notifies(self) -> bool:
        """Tell that the operating system reports changes."""
        return True

    def open(self, path: str, options: Mapping[str, str]) -> LocalFolder:  # noqa: ARG002 - the contract's signature
        """Open a directory, which need not exist yet."""
        place = Path(os.path.abspath(path))  # noqa: PTH100 - a link that the operator chose stays in stored paths
        return LocalFolder(place, sleep=self.sleep)


@attrs.frozen
class _LocalHold:
    _release: Callable[[str, object], None]
    _name: str
    _token: object

    def release(self) -> None:
        """End the hold."""
        self._release(self._name, self._token)
