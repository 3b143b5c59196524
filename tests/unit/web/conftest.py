"""Services played by hand, and a client with the key."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import falcon.testing
import pytest

from bulksigner.contract.errors import NotAllowed, NotFound, Refusal
from bulksigner.contract.observe import JobChange, ReadinessRow
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.contract.validation import Finding
from bulksigner.jobs.listing import JobFilter
from bulksigner.jobs.model import Changed, HistoryEntry, Job, JobSource
from bulksigner.jobs.states import JobStatus
from bulksigner.observability.readiness import Report
from bulksigner.operations.clear import Cleared
from bulksigner.operations.file_check import FileReport
from bulksigner.operations.people import Person
from bulksigner.pipeline.pause import PauseState
from bulksigner.profiles.model import OpenedProfile, StoredProfile
from bulksigner.records.event_log import EventEntry, EventFilter, EventPage
from bulksigner.web.app import create_app
from bulksigner.web.services import PipelineView, WebServices

API_KEY = "a-key-for-the-tests"
NOW = datetime.datetime(2026, 5, 26, 15, 42, 11, 123456, tzinfo=datetime.UTC)


def job_with(number: int = 1, **changes: object) -> Job:
    """Build a job whose id ends in `number`."""
    values: dict[str, object] = dict.fromkeys(field.name for field in attrs.fields(Job))
    values |= {
        "id": f"0f8fad5b-d9cb-469f-a165-{number:012}",
        "file_name": "folha.pdf",
        "original_path": "/in/folha.pdf",
        "profile_name": "default",
        "format": Format.PADES,
        "source": JobSource.UPLOAD,
        "status": JobStatus.QUEUED,
        "created_at": NOW,
        "updated_at": NOW,
        "row_version": 1,
        "metadata": {},
        "output_encrypted": False,
    }
    return Job(**(values | changes))  # type: ignore[arg-type]


def profile_with(**changes: object) -> StoredProfile:
    """Build a stored profile."""
    values: dict[str, object] = {
        "id": "1",
        "name": "default",
        "enabled": True,
        "format": None,
        "method": "Local",
        "verify": True,
        "preserve_file_extension": False,
        "save_as_pem": False,
        "certificate_source": "Pfx",
        "certificate_block": {"Path": "/secret/place.pfx"},
        "sealed": {},
        "extras": {},
        "input_folder": "payments",
    }
    return StoredProfile(**(values | changes))  # type: ignore[arg-type]


@attrs.frozen
class Page:
    items: Sequence[Job]
    total_count: int


@attrs.frozen
class FolderCounts:
    name: str
    path: str
    scanned: int = 0
    enqueued: int = 0
    already_active: int = 0
    ignored: int = 0
    errors: int = 0
    already_processed: int = 0
    enqueued_files: Sequence[str] = ()
    unassigned: bool = False


@attrs.frozen
class FolderCountsReport:
    folders: Sequence[FolderCounts]


class FakeService:
    """The rest of the service in memory: what was asked of it, and what it answers."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.history: list[HistoryEntry] = []
        self.pages: list[dict[str, object]] = []
        self.uploads: list[dict[str, object]] = []
        self.profiles: list[OpenedProfile] = [OpenedProfile(profile_with())]
        self.holds: dict[str, Any] = {}
        self.findings: tuple[Finding, ...] = ()
        self.refusal: Refusal | None = None
        self.asked: list[tuple[object, ...]] = []
        self.folders = [FolderCounts("payments", "/in")]
        self.report = Report(True, (ReadinessRow("database", True, True, "reachable (SQLite (/db))"),))

    def add(self, job: Job) -> Job:
        self.jobs[job.id] = job
        return job

    def find_page(self, wanted: JobFilter, *, page: int, page_size: int) -> Page:
        self.pages.append({"wanted": wanted, "page": page, "page_size": page_size})
        return Page(list(self.jobs.values()), 7)

    def each_job(self, wanted: JobFilter, *, limit: int) -> list[Job]:
        self.asked.append(("each", wanted, limit))
        return list(self.jobs.values())[:limit]

    def find_profile(self, name: str) -> OpenedProfile | None:
        return next((one for one in self.profiles if one.name.casefold() == name.casefold()), None)

    def check_file(self, stream: BinaryIO, *, file_name: str, profile: str | None, format: str | None) -> FileReport:
        if profile == "missing":
            raise NotFound("no such profile", code="profile.not-found")
        if format not in (None, "", "Pades", "Cades", "Xades"):
            raise NotAllowed("no such format", code="upload.format-unsupported")
        content = stream.read()
        if not content:
            raise NotAllowed("nothing in it", code="upload.empty")
        if not file_name:
            raise NotAllowed("no name", code="upload.invalid-name")
        self.asked.append(("check", content, file_name, profile, format))
        return FileReport(profile or "default", self.findings)

    def receive(
        self,
        stream: BinaryIO,
        *,
        file_name: str,
        profile: str | None,
        format: str | None,
        declared_length: int | None,
        metadata: str | None,
    ) -> Job:
        """Honour the order of API-55: profile, format, content, name; then keep what was read."""
        if profile == "missing":
            raise NotFound("no such profile", code="profile.not-found")
        if format not in (None, "Pades", "Cades", "Xades"):
            raise NotAllowed("no such format", code="upload.format-unsupported")
        content = bytearray()
        while chunk := stream.read(1000):
            content += chunk
        if not content:
            raise NotAllowed("nothing in it", code="upload.empty")
        if not file_name:
            raise NotAllowed("no name", code="upload.invalid-name")
        if self.refusal is not None:
            raise self.refusal
        self.uploads.append(
            {
                "content": bytes(content),
                "name": file_name,
                "profile": profile,
                "format": format,
                "length": declared_length,
                "metadata": metadata,
            }
        )
        return self.add(job_with(len(self.uploads), file_name=file_name, original_path="/in/minted.pdf"))

    def rescan(self, folder: str | None, person: Person) -> FolderCountsReport:
        self.asked.append(("rescan", folder, person))
        chosen = [one for one in self.folders if folder in (None, one.name)]
        if not chosen:
            raise NotFound("configured: payments", code="folder.not-found")
        return FolderCountsReport(chosen)

    def retry(self, job_id: str, person: Person) -> Changed:
        self._ask("retry", job_id, person)
        child = job_with(99, parent_job_id=job_id, source=JobSource.RETRY)
        return Changed(child, JobChange(child.id, "enqueue", None, "Queued", "default", "Pades", NOW, "m"), True)

    def cancel(self, job_id: str, person: Person, reason: str | None) -> Changed:
        self._ask("cancel", job_id, person, reason)
        job = attrs.evolve(self.jobs[job_id], status=JobStatus.CANCELED)
        return Changed(job, JobChange(job.id, "cancel", "Queued", "Canceled", "default", "Pades", NOW, "m"), False)

    def clear(self, person: Person) -> Cleared:
        self._ask("clear", person)
        return Cleared(jobs=1234, files=2460, folders=7, events=318, items_failed=2)

    def read_pipeline(self) -> PipelineView:
        return self._turned(is_paused=False)

    def pause(self, person: Person, reason: str | None) -> PipelineView:
        self._ask("pause", person, reason)
        return self._turned(is_paused=True)

    def resume(self, person: Person, reason: str | None) -> PipelineView:
        self._ask("resume", person, reason)
        return self._turned(is_paused=False)

    def find_events(self, wanted: EventFilter, *, page: int, page_size: int) -> EventPage:
        self.asked.append(("events", wanted, page, page_size))
        return EventPage((EventEntry(8, NOW, "PipelinePaused", "Pipeline paused by operator."),), 3)

    def find_event_types(self) -> list[str]:
        return ["JobDeleted", "PipelinePaused"]

    def _ask(self, *what: object) -> None:
        self.asked.append(what)
        if self.refusal is not None:
            raise self.refusal

    def _turned(self, *, is_paused: bool) -> PipelineView:
        state = PauseState(is_paused, NOW, "operator", "year end", NOW, "operator", None, 3)
        return PipelineView(state, 4, {Format.PADES: 2, Format.XADES: 1})


@pytest.fixture
def service() -> FakeService:
    """Return the fake behind the client."""
    return FakeService()


@pytest.fixture
def services(service: FakeService, tmp_path: Path) -> WebServices:
    """Return the bundle as `app` would build it, in Production."""
    return WebServices(
        api_key=Secret(API_KEY),
        api_key_header="X-API-Key",
        environment="Production",
        uploads_enabled=True,
        max_upload_bytes=100_000,
        receive_upload=service.receive,
        rescan=service.rescan,
        find_job=service.jobs.get,
        find_page=service.find_page,
        each_job=service.each_job,
        check_file=service.check_file,
        list_profiles=lambda: service.profiles,
        find_profile=service.find_profile,
        find_hold=service.holds.get,
        name_output=lambda job: None,
        scratch=tmp_path,
        read_history=lambda job_id: service.history,
        retry=service.retry,
        cancel=service.cancel,
        clear=service.clear,
        read_pipeline=service.read_pipeline,
        pause=service.pause,
        resume=service.resume,
        find_events=service.find_events,
        find_event_types=service.find_event_types,
        output_root=tmp_path,
        report_readiness=lambda: service.report,
    )


@pytest.fixture
def make_client(services: WebServices) -> Callable[..., falcon.testing.TestClient]:
    """Return a function that makes a client; keywords change the services."""

    def make(*, key: str | None = API_KEY, **changes: Any) -> falcon.testing.TestClient:
        headers = {} if key is None else {"X-API-Key": key}
        return falcon.testing.TestClient(create_app(attrs.evolve(services, **changes)), headers=headers)

    return make


@pytest.fixture
def client(make_client: Callable[..., falcon.testing.TestClient]) -> falcon.testing.TestClient:
    """Return a client that sends the key."""
    return make_client()


@pytest.fixture
def new_job() -> Callable[..., Job]:
    """Return the builder of jobs."""
    return job_with


@pytest.fixture
def new_profile() -> Callable[..., StoredProfile]:
    """Return the builder of stored profiles."""
    return profile_with


@pytest.fixture
def new_folder() -> Callable[..., FolderCounts]:
    """Return the builder of folder counts."""
    return FolderCounts
