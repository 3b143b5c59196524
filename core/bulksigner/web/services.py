"""What the routes need from the rest of the service, given once by `app`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import attrs

from bulksigner.backup.desk import BackupDesk
from bulksigner.contract.codes import CODES, ErrorCode
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.jobs.listing import JobFilter
from bulksigner.jobs.model import Changed, HistoryEntry, Job
from bulksigner.observability.metrics import Metrics
from bulksigner.observability.readiness import Report
from bulksigner.operations.clear import Cleared
from bulksigner.operations.file_check import FileReport
from bulksigner.operations.folder_list import FolderView
from bulksigner.operations.people import Person
from bulksigner.pipeline.pause import PauseState
from bulksigner.profiles.holds import Hold
from bulksigner.profiles.model import OpenedProfile
from bulksigner.records.event_log import EventEntry, EventFilter
from bulksigner.retention.desk import RetentionDesk
from bulksigner.web.entrance import Entrance
from bulksigner.web.guards import Policy
from bulksigner.web.rate_limits import RateLimits
from bulksigner.web.sessions import Sessions

__all__ = [
    "CheckFile",
    "EachJob",
    "EventPage",
    "FindEvents",
    "FindPage",
    "FolderReport",
    "JobPage",
    "PipelineView",
    "ReceiveUpload",
    "RescanReport",
    "WebServices",
]


class JobPage(Protocol):
    """One page of jobs, newest first, and how many there are in all (API-58)."""

    @property
    def items(self) -> Sequence[Job]: ...
    @property
    def total_count(self) -> int: ...


class FindPage(Protocol):
    """Reads one page of the jobs that pass a filter; `page` counts from 1."""

    def __call__(self, wanted: JobFilter, /, *, page: int, page_size: int) -> JobPage: ...


class EachJob(Protocol):
    """Reads up to `limit` jobs that pass a filter, newest first."""

    def __call__(self, wanted: JobFilter, /, *, limit: int) -> Iterable[Job]: ...


class CheckFile(Protocol):
    """Looks at a file and keeps nothing of it; an empty `stream` is refused before an unusable name."""

    def __call__(self, stream: BinaryIO, *, file_name: str, profile: str | None, format: str | None) -> FileReport: ...


class ReceiveUpload(Protocol):
    """Takes an upload in, in the order of API-55.

    Nothing is read from `stream` before the checks that need no content have passed. What `stream.read` raises
    is passed on, and nothing stays on disk. An empty `stream` is refused before an unusable name.
    """

    def __call__(
        self,
        stream: BinaryIO,
        *,
        file_name: str,
        profile: str | None,
        format: str | None,
        declared_length: int | None,
        metadata: str | None,
    ) -> Job: ...


class FolderReport(Protocol):
    """What a rescan met in one folder (API-71)."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def scanned(self) -> int: ...
    @property
    def enqueued(self) -> int: ...
    @property
    def already_active(self) -> int: ...
    @property
    def ignored(self) -> int: ...
    @property
    def errors(self) -> int: ...
    @property
    def already_processed(self) -> int: ...
    @property
    def enqueued_files(self) -> Sequence[str]: ...
    @property
    def unassigned(self) -> bool: ...


class RescanReport(Protocol):
    """What a rescan met, folder by folder."""

    @property
    def folders(self) -> Sequence[FolderReport]: ...


class EventPage(Protocol):
    """One page of events, newest first, and how many there are in all (API-42)."""

    @property
    def items(self) -> Sequence[EventEntry]: ...
    @property
    def total_count(self) -> int: ...


class FindEvents(Protocol):
    """Reads one page of the events that pass a filter; `page` counts from 1."""

    def __call__(self, wanted: EventFilter, /, *, page: int, page_size: int) -> EventPage: ...


@attrs.frozen
class PipelineView:
    """The pause flag, and what is under way beside it (API-68)."""

    state: PauseState
    max_concurrency: int
    in_flight: Mapping[Format, int]


@attrs.frozen
class WebServices:
    """Everything the routes call; whoever passes an act here has put its after-commit effects in."""

    api_key: Secret
    api_key_header: str
    environment: str
    uploads_enabled: bool
    max_upload_bytes: int
    receive_upload: ReceiveUpload
    check_file: CheckFile
    rescan: Callable[[str | None, Person], RescanReport]
    find_job: Callable[[str], Job | None]
    find_page: FindPage
    each_job: EachJob
    read_history: Callable[[str], Sequence[HistoryEntry]]
    retry: Callable[[str, Person], Changed]
    cancel: Callable[[str, Person, str | None], Changed]
    clear: Callable[[Person], Cleared]
    read_pipeline: Callable[[], PipelineView]
    pause: Callable[[Person, str | None], PipelineView]
    resume: Callable[[Person, str | None], PipelineView]
    find_events: FindEvents
    find_event_types: Callable[[], Sequence[str]]
    list_profiles: Callable[[], Sequence[OpenedProfile]]
    find_profile: Callable[[str], OpenedProfile | None]
    find_hold: Callable[[str], Hold | None]
    output_root: Path
    name_output: Callable[[Job], str | None]
    """The name that a job's profile gives its output today; None for a profile that is gone."""
    scratch: Path
    """A folder for files that live for one request; what a kill leaves there goes at the next start."""
    report_readiness: Callable[[], Report]
    codes: Mapping[str, ErrorCode] = CODES
    """The core's codes and those of plugins."""
    entrance: Entrance = attrs.Factory(Entrance)
    sessions: Sessions | None = None
    """None: nobody can sign in, and cookies count for nothing."""
    limits: RateLimits | None = None
    """None: every address may call as often as it likes."""
    spool: Path | None = None
    """The folder that takes bodies too large for memory, until they are complete."""
    backups: BackupDesk | None = None
    """None where backups are off, or `backups_supported` is false because the database is a server's."""
    backups_supported: bool = True
    retention: RetentionDesk | None = None
    scrub: Callable[[str], str] = str
    list_folders: Callable[[], Sequence[FolderView]] = list
    metrics: Metrics = attrs.field(factory=Metrics)
    policies: Mapping[str, Policy] = attrs.field(factory=dict)
    """Policies that settings have changed, by path."""
