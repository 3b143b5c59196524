"""Signed files on their way out: the recorded path only, opened before the first byte of the answer (API-64)."""

from __future__ import annotations

import datetime
import hashlib
import logging
import os
import stat
import urllib.parse
from pathlib import Path
from typing import BinaryIO

import attrs

from bulksigner.contract.errors import NotAllowed
from bulksigner.jobs.model import Job
from bulksigner.observability.logs import facts

__all__ = ["MEDIA_TYPES", "OpenedOutput", "disposition", "open_output"]

_TYPES = {
    ".pdf": "application/pdf",
    ".p7m": "application/pkcs7-mime",
    ".pem": "application/x-pem-file",
    ".xml": "application/xml",
}
_OTHER = "application/octet-stream"
MEDIA_TYPES = (*_TYPES.values(), _OTHER)
"""Every content type that a download may have."""
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NOT_BLOCKING = getattr(os, "O_NONBLOCK", 0)
_log = logging.getLogger("bulksigner.web")


@attrs.frozen
class OpenedOutput:
    """A signed file that is open for reading; whoever gets it closes it."""

    stream: BinaryIO
    length: int
    name: str

    @property
    def media_type(self) -> str:
        """Return the content type that goes with the name (API-64)."""
        return _TYPES.get(Path(self.name).suffix.lower(), _OTHER)


def open_output(root: Path, job: Job, name_now: str | None = None) -> OpenedOutput:
    """Open the file recorded as a job's output; it must be a regular file inside `root` (SEC-67).

    `name_now` is the name that the profile gives today: a file of this name and of the recorded content serves where
    the recorded path leads nowhere, as after a move of the storage root (API-64). Raises `NotAllowed` with
    `job.output-gone` when there is neither, also when another file lies under the name.
    """
    if job.output_path is None:
        raise NotAllowed(f"No output is recorded for job {job.id}.", code="job.output-gone")
    try:
        return _open(root, job, root / job.output_path)
    except NotAllowed:
        if name_now is None or job.output_sha256 is None:
            raise
        try:
            return _open(root, job, root / name_now)
        except NotAllowed:
            pass
        raise


def _open(root: Path, job: Job, path: Path) -> OpenedOutput:
    gone = NotAllowed(f"{path} is not there any more; it was taken from the output folder.", code="job.output-gone")
    try:
        folder = path.parent.resolve(strict=True)
    except OSError as failure:
        raise gone from failure
    if not folder.is_relative_to(root.resolve()):
        _log.warning("A recorded output path is outside the output folder", extra=facts(path=str(path)))
        raise gone
    try:
        # Not blocking: a named pipe put in the place of the file must not hold the thread.
        descriptor = os.open(folder / path.name, _OPEN_FLAGS | _NOT_BLOCKING)
    except (FileNotFoundError, NotADirectoryError) as failure:
        raise gone from failure
    except OSError as failure:
        if (folder / path.name).is_symlink():
            raise gone from failure
        raise
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        raise gone
    stream = os.fdopen(descriptor, "rb")
    if not _is_delivered(stream, state, job):
        stream.close()
        raise NotAllowed(
            f"{path} is not the file that job {job.id} delivered: it was replaced or changed.", code="job.output-gone"
        )
    return OpenedOutput(stream, state.st_size, path.name)


def _is_delivered(stream: BinaryIO, state: os.stat_result, job: Job) -> bool:
    """Compare with the job's record: length and time are enough while both agree, else the content decides."""
    if job.output_length is not None and state.st_size != job.output_length:
        return False
    modified_at = datetime.datetime.fromtimestamp(state.st_mtime, datetime.UTC)
    if job.output_sha256 is None or modified_at == job.output_modified_at:
        return True
    digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type] # a file read as bytes
    stream.seek(0)
    return digest == job.output_sha256


def disposition(name: str) -> str:
    """Return `Content-Disposition` for a download: an ASCII fall-back and the name itself (RFC 6266, RFC 5987)."""
    plain = "".join(
        character if character.isascii() and character.isprintable() and character not in '"\\%' else "_"
        for character in name
    )
    encoded = urllib.parse.quote(name.encode("utf-8", "replace"), safe="!#$&+-.^_`|~")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"
