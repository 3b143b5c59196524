"""The application behind a real Waitress on loopback sockets: hostile clients, large files, cut connections."""

from __future__ import annotations

import datetime
import hashlib
import http.client
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import pytest
import waitress.server
from waitress import wasyncore

from bulksigner.contract.errors import NotAllowed
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.jobs.model import Job, JobSource
from bulksigner.jobs.states import JobStatus
from bulksigner.observability.readiness import Report
from bulksigner.web.app import create_app
from bulksigner.web.limits import MAX_HEADER_BYTES
from bulksigner.web.services import WebServices

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


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Serve with four threads, the header limit of SEC-64 and a read timeout of one second."""
    landing = Landing(tmp_path / "landing")
    output = tmp_path / "output"
    landing.folder.mkdir()
    output.mkdir()
    jobs: dict[str, Job] = {}

    def unexpected(*_: object, **__: object) -> Any:
        raise AssertionError

    services = WebServices(
        api_key=Secret(KEY["X-API-Key"]),
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
        name_output=lambda job: None,
        scratch=tmp_path,
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
    )
    server = waitress.server.create_server(
        create_app(services),
        listen="127.0.0.1:0",
        threads=4,
        ident=None,
        max_request_header_size=MAX_HEADER_BYTES,
        channel_timeout=1,
        cleanup_interval=1,
        map={},
    )
    stopping = threading.Event()

    def serve() -> None:
        while not stopping.is_set():
            wasyncore.loop(timeout=0.02, map=server._map, count=1)
        server.task_dispatcher.shutdown()
        wasyncore.close_all(server._map)

    thread = threading.Thread(target=serve)
    thread.start()
    yield Host(server.effective_port, landing, output, jobs)
    stopping.set()
    thread.join(10)
    assert not thread.is_alive()


def read_all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while chunk := connection.recv(65_536):
            received += chunk
    except ConnectionResetError:
        return received
    return received


def test_answers_name_no_server_and_keep_the_connection(host: Host) -> None:
    """SEC-39: no `Server` header; two requests may share a connection."""
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=10)
    for _ in range(2):
        connection.request("GET", "/api/health")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"status":"healthy"}')
        assert answer.getheader("Server") is None
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
    connection.close()


def test_an_upload_in_chunks(host: Host) -> None:
    """API-54, SEC-68: a body of unknown length is taken in whole."""
    content = os.urandom(300_000)
    pieces = iter([HEAD[:10], HEAD[10:], content[:1], content[1:], TAIL])
    answer, body = host.request("POST", "/api/files", body=pieces, headers=FORM)
    assert answer.status == 202
    (landed,) = host.landing.content()
    assert landed.read_bytes() == content
    assert json.loads(body)["originalPath"] == str(landed)


def test_a_body_over_the_cap(host: Host) -> None:
    """SEC-68: refused by its declared length, and in chunks by what arrives; nothing stays on disk."""
    piece = bytes(MEGABYTE)

    def pieces() -> Iterator[bytes]:
        yield HEAD
        for _ in range(MAX_UPLOAD_BYTES // MEGABYTE):
            yield piece
        yield TAIL

    answer, body = host.request("POST", "/api/files", body=pieces(), headers=FORM)
    assert (answer.status, json.loads(body)["code"]) == (413, "upload.too-large")
    assert host.landing.content() == []


def test_an_upload_that_breaks_off_leaves_nothing(host: Host) -> None:
    """API-55: a connection that is cut inside the file queues nothing and keeps nothing."""
    head = f"POST /api/files HTTP/1.1\r\nHost: h\r\nX-API-Key: {KEY['X-API-Key']}\r\n"
    head += f"Content-Type: {FORM['Content-Type']}\r\nContent-Length: 1000000\r\n\r\n"
    with host.connect() as connection:
        connection.sendall(head.encode() + HEAD + b"x" * 400_000)
    time.sleep(0.2)
    assert host.request("GET", "/api/health")[0].status == 200
    assert host.landing.content() == []
    assert host.landing.calls == 0


def test_a_form_without_its_end_leaves_nothing(host: Host) -> None:
    """API-55: all declared bytes came, the closing boundary did not: refused, and the temporary file is removed."""
    answer, body = host.request("POST", "/api/files", body=HEAD + b"x" * 400_000, headers=FORM)
    assert (answer.status, json.loads(body)["code"]) == (400, "request.invalid")
    assert host.landing.calls == 1
    assert host.landing.content() == []


def test_slow_clients_do_not_hold_threads(host: Host) -> None:
    """SEC-64: more dribbling clients than threads; others are served at once, and the slow ones are cut off."""
    slow = [host.connect() for _ in range(8)]
    for connection in slow:
        connection.sendall(b"POST /api/files HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx")
    began = time.monotonic()
    assert host.request("GET", "/api/health")[0].status == 200
    assert time.monotonic() - began < 1
    for connection in slow:
        read_all(connection)
        connection.close()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "head",
    [
        b"GET /api/health HTTP/1.1\r\nX-Long: " + b"x" * MAX_HEADER_BYTES,
        b"GET /" + b"x" * MAX_HEADER_BYTES,
        b"GET /api/health HTTP/1.1\r\n" + b"A: b\r\n" * 8000,
    ],
    ids=["one header", "path", "many headers"],
)
def test_a_huge_head_is_refused(host: Host, head: bytes) -> None:
    """SEC-64: a head over 32 KiB is answered with 431 and the connection is closed."""
    with host.connect() as connection:
        connection.sendall(head)
        assert read_all(connection).startswith(b"HTTP/1.0 431")
    assert host.request("GET", "/api/health")[0].status == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /api/health HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
        b"GET /api/health HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\n",
        b"GET /api/health HTTP/1.1\r\nHost: h\r\nBad Header: x\r\n\r\n",
        b"POST /api/rescan HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n",
    ],
    ids=["length", "negative length", "header", "encoding", "not http"],
)
def test_what_is_not_http_is_refused(host: Host, raw: bytes) -> None:
    """SEC-64: a malformed request gets a 4xx or 5xx answer and does no harm."""
    with host.connect() as connection:
        connection.sendall(raw)
        status = int(read_all(connection).split(b" ", 2)[1])
    assert status in {400, 501}
    assert host.request("GET", "/api/health")[0].status == 200


def test_a_signed_file_is_sent_whole(host: Host) -> None:
    """API-64: 20 MB through the socket, with length and name; the file is open before the answer begins."""
    content = os.urandom(20 * MEGABYTE)
    path = host.output / "folha é.signed.pdf"
    path.write_bytes(content)
    host.jobs[JOB] = job_with(status=JobStatus.COMPLETED, output_path=str(path))
    answer, body = host.request("GET", f"/api/jobs/{JOB}/output")
    assert answer.status == 200
    assert answer.getheader("Content-Length") == str(len(content))
    assert answer.getheader("Content-Disposition").endswith("filename*=UTF-8''folha%20%C3%A9.signed.pdf")
    assert hashlib.sha256(body).digest() == hashlib.sha256(content).digest()
    path.unlink()
    assert host.request("GET", f"/api/jobs/{JOB}/output")[0].status == 410


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_a_large_upload_in_little_memory(host: Host) -> None:
    """PERF-05, API-55: 50 MB come in and the peak of resident memory hardly moves."""
    size = 50 * MEGABYTE
    piece = os.urandom(MEGABYTE)

    def pieces() -> Iterator[bytes]:
        yield HEAD
        for _ in range(size // MEGABYTE):
            yield piece
        yield TAIL

    Path("/proc/self/clear_refs").write_text("5")
    before = peak_bytes()
    headers = FORM | {"Content-Length": str(len(HEAD) + size + len(TAIL))}
    answer, _ = host.request("POST", "/api/files", body=pieces(), headers=headers)
    assert answer.status == 202
    assert host.landing.content()[0].stat().st_size == size
    assert peak_bytes() - before < 12 * MEGABYTE


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
