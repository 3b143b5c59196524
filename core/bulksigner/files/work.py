"""The work roots, on one file system: `processing/`, `output/`, `error/`, and the places of uploads and of notes."""

from __future__ import annotations

import os
from pathlib import Path

from bulksigner.contract.errors import StartRefused
from bulksigner.files import durable
from bulksigner.files.names import child_of

__all__ = ["WorkRoots", "open_place"]

_CANNOT_CREATE = 73
_PROBE = ".promote-check"


def open_place(target: Path) -> Path:
    """Make the folder of a job's file, or find it, and take away what a lost worker left there; returns `target`."""
    target.parent.mkdir(mode=durable.FOLDER_MODE, exist_ok=True)
    target.unlink(missing_ok=True)
    return target


class WorkRoots:
    """Folders the product alone writes to, below `Storage:Root`."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 - Path.resolve would follow a link the operator chose
        self.processing = self.root / "processing"
        self.output = self.root / "output"
        self.error = self.root / "error"
        self.landing = self.root / "landing"
        self.refusals = self.root / "refusals"

    def prepare(self) -> None:
        """Create the folders, mode 0750, and prove that a promotion is create-only here.

        Raises `StartRefused` (exit 73, OPS-59) naming what stands in the way.
        """
        roots = (self.processing, self.output, self.error, self.landing, self.refusals)
        try:
            for folder in roots:
                folder.mkdir(mode=durable.FOLDER_MODE, parents=True, exist_ok=True)
            volumes = {folder.stat().st_dev for folder in roots}
        except OSError as error:
            raise StartRefused(
                f"The work root {self.root} cannot be created: {error.strerror}: {error.filename}. Give the account "
                f"that runs the service write access to it; under systemd name it in ReadWritePaths.",
                exit_code=_CANNOT_CREATE,
            ) from error
        if len(volumes) != 1:
            raise StartRefused(
                f"processing, output, error and landing below {self.root} lie on different file systems, so a finished "
                f"file could not be renamed into output. Mount the whole of Storage:Root as one.",
                exit_code=_CANNOT_CREATE,
            )
        self._prove_promotion()

    def job_folder(self, job_id: str) -> Path:
        """Return the path of `processing/<id>`."""
        return child_of(self.processing, job_id)

    def job_folder_names(self) -> list[str]:
        """Return the names of the folders below `processing/`, sorted; each is the id of a job, or of none (CLU-10)."""
        with os.scandir(self.processing) as found:
            return sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))

    def error_folder(self, job_id: str) -> Path:
        """Return the path of `error/<id>`."""
        return child_of(self.error, job_id)

    def output_path(self, name: str) -> Path:
        """Return the path of a finished file; raises `BulkSignerError` for a name that leads out (SEC-67)."""
        return child_of(self.output, name)

    def fail_job_folder(self, job_id: str) -> Path | None:
        """Move `processing/<id>` to `error/<id>` and return where it is now; None when there was none (PIPE-86)."""
        try:
            return durable.move_folder(self.job_folder(job_id), self.error_folder(job_id))
        except FileNotFoundError:
            return None

    def discard_job_folder(self, job_id: str) -> None:
        """Remove `processing/<id>`."""
        durable.remove_folder(self.job_folder(job_id))

    def _prove_promotion(self) -> None:
        first, second = self.processing / f"{_PROBE}-1", self.processing / f"{_PROBE}-2"
        target = self.output / _PROBE
        try:
            for path in (first, second, target):
                path.unlink(missing_ok=True)
            for path in (first, second):
                path.touch(mode=durable.FILE_MODE, exist_ok=False)
            durable.promote(first, target)
            try:
                durable.promote(second, target)
            except FileExistsError:
                return
        except OSError as error:
            raise StartRefused(
                f"A file cannot be renamed into {self.output} without the danger of replacing another: "
                f"{error.strerror}. Use a file system with hard links or renameat2 for Storage:Root.",
                exit_code=_CANNOT_CREATE,
            ) from error
        finally:
            for path in (first, second, target):
                path.unlink(missing_ok=True)
        raise StartRefused(
            f"The file system of {self.output} replaces an existing file where it must refuse. "
            f"Use a local file system for Storage:Root.",
            exit_code=_CANNOT_CREATE,
        )
