"""A job as the rest of the product sees it."""

from __future__ import annotations

import datetime
import enum
import os.path
import secrets
import time
import uuid
from collections.abc import Mapping

import attrs

from bulksigner.contract.observe import JobChange
from bulksigner.contract.signing import Format
from bulksigner.jobs.states import JobStatus
from bulksigner.records.events import Event

__all__ = [
    "PATH_LIMIT",
    "Birth",
    "Changed",
    "HistoryEntry",
    "Job",
    "JobSource",
    "Owner",
    "new_id",
    "path_key",
    "utc_now",
]

PATH_LIMIT = 850
"""The longest stored path, in characters (PIPE-03)."""


class JobSource(enum.Enum):
    """The door a job came through; the value is the wire name (PIPE-34)."""

    WATCHER = "Watcher"
    UPLOAD = "Upload"
    RETRY = "Retry"
    SIGNER = "Signer"


@attrs.frozen(slots=False)  # a copy with changes is two dictionaries then (`jobs.rows.with_changes`)
class Job:
    """One attempt to sign one file, as read at `row_version`; columns of PIPE-01, hashes in hex, times in UTC.

    `metadata` is the producer's, and left out of what is printed of a job (SEC-86).
    """

    id: str
    file_name: str
    original_path: str
    input_folder: str | None
    profile_name: str
    certificate_source: str | None
    format: Format
    source: JobSource
    status: JobStatus
    created_at: datetime.datetime
    queued_at: datetime.datetime | None
    updated_at: datetime.datetime
    completed_at: datetime.datetime | None
    parent_job_id: str | None
    error_code: str | None
    error_message: str | None
    owner_identity: str | None
    owner_incarnation: str | None
    sign_call_started_at: datetime.datetime | None
    staged_length: int | None
    staged_sha256: str | None
    staged_etag: str | None
    staged_at: datetime.datetime | None
    output_path: str | None
    output_sha256: str | None
    output_length: int | None
    output_modified_at: datetime.datetime | None
    path_released: bool
    input_diverged: bool
    row_version: int
    metadata: Mapping[str, str] = attrs.field(factory=dict, repr=False, hash=False)
    sidecar_sha256: str | None = None
    output_encrypted: bool = False
    companion_path: str | None = None
    """Where the content of a detached signature is delivered; its hash is that of the staged copy."""


@attrs.frozen(kw_only=True)
class Birth:
    """A job to be made: a row of `states.BIRTHS` and its first history line.

    `parent_message` is a history line for the parent, written in the same transaction (PIPE-99), and with
    `parent_row_version` the birth is refused unless the parent is still as it was read.
    """

    file_name: str
    original_path: str
    input_folder: str | None
    profile_name: str
    format: Format
    source: JobSource
    message: str
    event: str = "enqueue"
    id: str | None = None
    parent_job_id: str | None = None
    parent_message: str | None = None
    parent_row_version: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    path_released: bool = False
    operational_event: Event | None = None
    metadata: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    sidecar_sha256: str | None = None


@attrs.frozen
class Owner:
    """Who has a job: an instance, and which life of it (CLU-33)."""

    identity: str
    incarnation: str


@attrs.frozen
class Changed:
    """A committed change; what follows a commit (plugins, metrics, waking the worker) is the caller's."""

    job: Job
    change: JobChange
    wakes: bool


@attrs.frozen
class HistoryEntry:
    """One line of a job's history (SEC-72)."""

    id: int
    at: datetime.datetime
    status: JobStatus
    message: str


def new_id() -> str:
    """Return the id of a new job: a UUID that begins with the time, in 250 ns, and ends at random (RFC 9562, 5.7).

    Rows that are written together lie together then, in the table's index and in those of history and timings.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000
    value = milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def path_key(original_path: str) -> str:
    """Return the form under which paths are compared (PIPE-02): without `.`, `..` and doubled separators.

    On Windows also without case and with one kind of separator; elsewhere the bytes of a name are its identity.
    """
    return os.path.normcase(os.path.normpath(original_path))


def utc_now() -> datetime.datetime:
    """Return the time that is stored."""
    return datetime.datetime.now(datetime.UTC)
