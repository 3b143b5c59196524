"""An application on the real HTTP server, with the rest of the service played by hand."""

from __future__ import annotations

import datetime
import http.client
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import attrs
from tests.revoked_tickets import RevokedTickets

from bulksigner.channels import Patience
from bulksigner.contract.errors import NotAllowed
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.jobs.model import Job, JobSource
from bulksigner.jobs.states import JobStatus
from bulksigner.observability.readiness import Report
from bulksigner.serving import HttpServer
from bulksigner.settings.variables import ListenAddress
from bulksigner.web.key_ring import open_key_ring
from bulksigner.web.services import WebServices
from bulksigner.web.sessions import Sessions

KEY = {"X-API-Key": "a-key-for-the-tests"}
BOUNDARY = "limit-of-the-form"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
HEAD = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="folha.pdf"\r\n\r\n'.encode()
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()
MEGABYTE = 1_000_000
MAX_UPLOAD_BYTES = 60 * MEGABYTE
JOB = "0f8fad5b-d9cb-469f-a165-70867728950e"


class Landing:
    """Takes uploads in as the real service does: under a temporary name, renamed when the form is complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = 0

    def receive(self, stream: BinaryIO, *, file_name: str, **_: object) -> Job:
        self.calls += 1
        temporary = self.folder / f".upload-{uuid.uuid4()}"
        length = 0
        try:
            with temporary.open("xb") as target:
                while chunk := stream.read(65_536):
                    length += target.write(chunk)
            if not length:
                raise NotAllowed("nothing in it", code="upload.empty")
        except BaseException:
            temporary.unlink()
            raise
        return job_with(original_path=str(temporary.rename(self.folder / f"{uuid.uuid4()}.pdf")))

    def content(self) -> list[Path]:
        return list(self.folder.iterdir())


def job_with(**changes: object) -> Job:
    now = datetime.datetime.now(datetime.UTC)
    values: dict[str, object] = dict.fromkeys(field.name for field in attrs.fields(Job))
    values |= {"id": JOB, "file_name": "folha.pdf", "format": Format.PADES, "source": JobSource.UPLOAD}
    values |= {"status": JobStatus.QUEUED, "created_at": now, "updated_at": now}
    return Job(**(values | changes))  # type: ignore[arg-type]


@attrs.frozen
class Host:
    """A running server and what is behind it."""

    port: int
    landing: Landing
    output: Path
    jobs: dict[str, Job]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def request(self, method: str, path: str, *, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers=KEY | (headers or {}))
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@contextmanager
def serving(
    folder: Path,
    *,
    patience: Patience = Patience(quiet_seconds=1, look_seconds=0.1),  # noqa: B008 - frozen
    connection_limit: int | None = None,
    threads: int = 4,
    **changes: Any,
) -> Iterator[Host]:
    """Serve below `folder`; keywords change the services."""
    landing = Landing(folder / "landing")
    output, spool = folder / "output", folder / "spool"
    for made in (landing.folder, output, spool):
        made.mkdir()
    jobs: dict[str, Job] = {}
    key = Secret(KEY["X-API-Key"])

    def unexpected(*_: object, **__: object) -> Any:
        raise AssertionError

    services = WebServices(
        api_key=key,
        api_key_header="X-API-Key",
        environment="Production",
        uploads_enabled=True,
        max_upload_bytes=MAX_UPLOAD_BYTES,
        receive_upload=landing.receive,
        rescan=unexpected,
        find_job=jobs.get,
        find_page=unexpected,
        each_job=unexpected,
        check_file=unexpected,
        list_profiles=unexpected,
        find_profile=unexpected,
        find_hold=unexpected,
        name_output=lambda job: None,
        scratch=folder,
        read_history=unexpected,
        retry=unexpected,
        cancel=unexpected,
        clear=unexpected,
        read_pipeline=unexpected,
        pause=unexpected,
        resume=unexpected,
        find_events=unexpected,
        find_event_types=unexpected,
        output_root=output,
        report_readiness=lambda: Report(True, ()),
        sessions=Sessions(open_key_ring(folder / "keys", utc_now), RevokedTickets(), key, "lbs-auth", utc_now),
        spool=spool,
    )
    server = HttpServer([ListenAddress("127.0.0.1", 0)], patience=patience, connection_limit=connection_limit)
    server.start(attrs.evolve(services, **changes), threads=threads)
    try:
        yield Host(int(server.addresses[0].rpartition(":")[2]), landing, output, jobs)
    finally:
        server.stop()


def read_all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while chunk := connection.recv(65_536):
            received += chunk
    except ConnectionResetError:
        return received
    return received
