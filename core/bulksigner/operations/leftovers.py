"""What a job has left on disk, and how each of it is taken away; one item at a time, nothing by force."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import attrs

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.signing import Measured
from bulksigner.contract.storage import Fingerprint, Folder, Removal, RemovalOutcome
from bulksigner.files import durable
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import OpenedFolders
from bulksigner.intake.names import is_landing_name
from bulksigner.intake.sidecar import consume
from bulksigner.jobs.model import Job
from bulksigner.jobs.receipts import Receipts
from bulksigner.jobs.states import JobStatus
from bulksigner.pipeline.holding import held
from bulksigner.plugin_system.guard import ANYTHING, describe

__all__ = ["HOLD_WAITS_SECONDS", "Leftovers", "is_own_landing_copy"]

HOLD_WAITS_SECONDS = (0.1, 0.4)
"""Waits between the tries to hold an input; a job under way holds its own only while it copies or removes it."""


@attrs.frozen
class Leftovers:
    """Finds and removes the files of jobs. What refuses raises `OSError` or `ProviderError` and stays."""

    folders: OpenedFolders
    roots: WorkRoots
    receipts: Receipts | None = None

    def find_storage_fault(self) -> str | None:
        """Say which of the places with files of jobs cannot be looked into now, or None (OPS-177)."""
        for root in (self.roots.processing, self.roots.error, self.roots.output):
            try:
                os.scandir(root).close()
            except OSError as error:
                return f"{root} cannot be listed: {error.strerror}"
        for opened in self.folders:
            try:
                next(iter(opened.folder.entries()), None)
            except ANYTHING as error:  # whatever the provider of a plugin raises means the same here
                return f"input folder {opened.name}: {describe(error)}"
        return None

    def job_folders(self, job: Job) -> list[Path]:
        """Return where a job has a folder, below `processing/` and below `error/`, whether it is there or not."""
        return [self.roots.job_folder(job.id), self.roots.error_folder(job.id)]

    def remove_folder(self, place: Path) -> bool:
        """Remove one of `job_folders` with what is in it; False when it is not there."""
        seen = _look(place)
        if seen is None:
            return False
        if not stat.S_ISDIR(seen.st_mode):
            # What stands behind a link is nobody's leftover.
            raise NotADirectoryError(errno.ENOTDIR, "is not a folder", str(place))
        durable.remove_folder(place)
        return True

    def output(self, job: Job) -> Path | None:
        """Return the file at the recorded place of the job's output, or None when there is none.

        Raises `OSError` for what is recorded outside of the output folder or is no regular file (SEC-67).
        """
        return self._delivered(job.output_path)

    def companion(self, job: Job) -> Path | None:
        """Return the content that lies beside a detached signature of the job, as `output` does."""
        return self._delivered(job.companion_path)

    def _delivered(self, recorded: str | None) -> Path | None:
        if recorded is None:
            return None
        path = Path(recorded)
        seen = _look(path)
        if seen is None:
            return None
        if path.parent != self.roots.output:
            raise OSError(errno.EPERM, "is not directly in the output folder", str(path))
        if not stat.S_ISREG(seen.st_mode):
            raise durable.NotRegular(errno.EINVAL, "is not a regular file", str(path))
        return path

    def remove_own_output(self, path: Path, job: Job) -> RemovalOutcome:
        """Remove an output while it is the very file that the job delivered; `DIVERGED`, and it stays, otherwise."""
        return self._remove_same(path, job.output_sha256, job.output_length)

    def remove_own_companion(self, path: Path, job: Job) -> RemovalOutcome:
        """Remove the content beside a detached signature while it is what the job staged, as `remove_own_output`."""
        return self._remove_same(path, job.staged_sha256, job.staged_length)

    def _remove_same(self, path: Path, sha256: str | None, length: int | None) -> RemovalOutcome:
        try:
            measured, identity = durable.measure_identified(path)
            if (measured.sha256.hex(), measured.length) != (sha256, length):
                return RemovalOutcome.DIVERGED
            if durable.identify(path) != identity:
                return RemovalOutcome.DIVERGED
        except FileNotFoundError:
            return RemovalOutcome.ABSENT
        return RemovalOutcome.REMOVED if durable.remove_file(path) else RemovalOutcome.ABSENT

    def remove_receipt(self, job: Job) -> list[Path]:
        """Remove the files of the job's receipt while they are what was written; return those that went (PIPE-101).

        What is told of it in the chain stays, and says that the files were taken away.
        """
        receipt = None if self.receipts is None else self.receipts.of_job(job.id)
        if receipt is None or self.receipts is None:
            return []
        # Said first, so that nobody writes them from now on.
        self.receipts.remove(job.id)
        place = receipt.place
        if place is None or place.parent != self.roots.output:
            return []
        return [path for path, content in receipt.files(place) if _remove_same(path, content)]

    def locate_input(self, job: Job) -> tuple[Folder, str] | None:
        """Return the folder and the name of the job's input, None when it is gone with a folder that is unknown here.

        Raises `PermanentFailure` for an input that may still lie in a folder this host does not know.
        """
        found = self.folders.resolve(job.original_path)
        if found is not None:
            return found[0].folder, found[1]
        if self.has_removed_input(job):
            return None
        raise PermanentFailure(f"no input folder of this host holds {job.original_path}")

    def has_removed_input(self, job: Job) -> bool:
        """Tell whether the job itself took its input away, so that what lies there now arrived later."""
        return job.status is JobStatus.COMPLETED and not job.input_diverged

    def remove_input(self, folder: Folder, name: str, job: Job) -> None:
        """Remove an input whatever it is now, unless somebody holds it (PIPE-103), and its sidecar (PIPE-118)."""
        with held(folder, name, waits_seconds=HOLD_WAITS_SECONDS):
            folder.remove(name)
        consume(folder, name, job.sidecar_sha256)

    def remove_staged_input(self, folder: Folder, name: str, job: Job) -> Removal:
        """Remove the input while it is what the job staged (PIPE-92), and its sidecar; the hold is the caller's."""
        if job.staged_sha256 is None or job.staged_length is None:
            return Removal(RemovalOutcome.DIVERGED, "never staged by this job")
        if self.has_removed_input(job):
            return Removal(RemovalOutcome.DIVERGED, "arrived after this job had removed its input")
        fingerprint = Fingerprint(job.staged_length, bytes.fromhex(job.staged_sha256), job.staged_etag)
        removal = folder.remove_if(name, fingerprint)
        if removal.outcome is RemovalOutcome.REMOVED:
            consume(folder, name, job.sidecar_sha256)
        return removal


def is_own_landing_copy(job: Job, name: str) -> bool:
    """Tell whether the product itself placed the job's input, as it does for an upload (PIPE-54)."""
    return job.input_folder is None and is_landing_name(name)


def _remove_same(path: Path, content: bytes) -> bool:
    try:
        if durable.measure(path) != Measured(len(content), hashlib.sha256(content).digest()):
            return False
    except FileNotFoundError:
        return False
    return durable.remove_file(path)


def _look(place: Path) -> os.stat_result | None:
    try:
        return place.lstat()
    except FileNotFoundError:
        return None
