"""The application behind the real server on loopback sockets: hostile clients, large files, cut connections."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.web.served_web import (
    FORM,
    HEAD,
    JOB,
    KEY,
    MAX_UPLOAD_BYTES,
    MEGABYTE,
    TAIL,
    Host,
    job_with,
    read_all,
)

from bulksigner.jobs.states import JobStatus
from bulksigner.web.limits import MAX_HEADER_BYTES


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
