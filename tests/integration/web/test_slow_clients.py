"""Clients that are slow, silent or deaf: they are cut off in time and hold up nobody (SEC-64)."""

from __future__ import annotations

import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.integration.web.served_web import JOB, KEY, MEGABYTE, Host, job_with, read_all, serving

from bulksigner import serving as server_module
from bulksigner.channels import Patience
from bulksigner.jobs.states import JobStatus

SHORT = Patience(quiet_seconds=1, slowest_bytes_per_second=1000, linger_seconds=0.5, look_seconds=0.1)
THREADS = 4


def seconds_until_closed(connection: socket.socket, dribble: bytes = b"") -> float:
    """Send a byte every tenth of a second until the server closes, and return how long that took."""
    began = time.monotonic()
    connection.settimeout(0.1)
    while time.monotonic() - began < 15:
        try:
            if dribble:
                connection.send(dribble)
            if not connection.recv(1000):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - began


def answers_at_once(host: Host) -> bool:
    began = time.monotonic()
    return host.request("GET", "/api/health")[0].status == 200 and time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("start", "dribble"),
    [
        (b"", b""),
        (b"G", b""),
        (b"GET /api/health HTTP/1.1\r\nHost: h\r\n", b"a"),
        (b"POST /api/files HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n", b"x"),
        (b"POST /api/files HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
        (b"GET /api/health HTTP/1.1\r\nHost: h\r\n\r\n", b""),
    ],
    ids=[
        "says nothing",
        "one byte",
        "head byte by byte",
        "body byte by byte",
        "chunk size byte by byte",
        "keeps alive",
    ],
)
def test_a_slow_client_is_cut_off(tmp_path: Path, start: bytes, dribble: bytes) -> None:
    """SEC-64: signs of life do not help below the slowest pace, nor in a head that has had its time."""
    with serving(tmp_path, patience=SHORT, threads=THREADS) as host:
        with host.connect() as connection:
            connection.sendall(start)
            if start.endswith(b"\r\n\r\n") and not dribble:
                assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
            assert 0.8 < seconds_until_closed(connection, dribble) < 6
        assert answers_at_once(host)


def test_a_steady_client_is_not_cut_off(tmp_path: Path) -> None:
    """SEC-64: one that keeps the pace may take many times the quiet time."""
    with serving(tmp_path, patience=SHORT, threads=THREADS) as host, host.connect() as connection:
        head = f"POST /api/files HTTP/1.1\r\nHost: h\r\nX-API-Key: {KEY['X-API-Key']}\r\nContent-Length: 15000\r\n\r\n"
        connection.sendall(head.encode())
        for _ in range(30):
            connection.sendall(b"x" * 500)
            time.sleep(0.1)
        assert connection.recv(1000).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("kind", ["a file", "a stream"])
def test_clients_that_never_read_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """SEC-64: more of them than threads, each with an answer too large for every buffer; others are served soon."""
    content = os.urandom(MEGABYTE)
    ended = threading.Semaphore(0)

    def endless(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        if environ["PATH_INFO"] == "/api/health":
            yield b"well"
            return
        try:
            while True:
                yield content
        finally:
            ended.release()

    if kind == "a stream":
        monkeypatch.setattr(server_module, "create_app", lambda _: endless)
    with serving(tmp_path, patience=SHORT, threads=THREADS) as host, ExitStack() as stack:
        path = host.output / "folha.signed.pdf"
        path.write_bytes(content * 40)
        host.jobs[JOB] = job_with(status=JobStatus.COMPLETED, output_path=str(path))
        deaf = [stack.enter_context(host.connect()) for _ in range(2 * THREADS)]
        for connection in deaf:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            request = f"GET /api/jobs/{JOB}/output HTTP/1.1\r\nHost: h\r\nX-API-Key: {KEY['X-API-Key']}\r\n\r\n"
            connection.sendall(request.encode())
        began = time.monotonic()
        assert host.request("GET", "/api/health")[0].status == 200
        assert time.monotonic() - began < 8
        if kind == "a stream":
            for _ in deaf:
                assert ended.acquire(timeout=10)
        for connection in deaf:
            connection.settimeout(10)
            assert len(read_all(connection)) < len(content) * 40


def open_silent(host: Host, count: int, stack: ExitStack) -> list[socket.socket]:
    return [stack.enter_context(host.connect()) for _ in range(count)]


def test_silent_connections_make_room(tmp_path: Path) -> None:
    """SEC-64: with every place taken by clients that say nothing, a newcomer gets that of the longest silent one."""
    patient = Patience(quiet_seconds=60, look_seconds=1)
    with serving(tmp_path, patience=patient, connection_limit=50) as host, ExitStack() as stack:
        silent = open_silent(host, 300, stack)
        assert answers_at_once(host)
        silent[0].settimeout(5)
        assert read_all(silent[0]) == b""
        # The newest still has its place: the newcomer took that of the oldest.
        silent[-1].sendall(b"GET /api/health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert read_all(silent[-1]).startswith(b"HTTP/1.1 200")


def test_a_request_under_way_is_never_put_out(tmp_path: Path) -> None:
    """SEC-64: an upload that has begun keeps its place, however many silent connections come after it."""
    patient = Patience(quiet_seconds=60, look_seconds=1)
    with serving(tmp_path, patience=patient, connection_limit=20) as host, ExitStack() as stack:
        upload = stack.enter_context(host.connect())
        head = f"POST /api/files HTTP/1.1\r\nHost: h\r\nX-API-Key: {KEY['X-API-Key']}\r\n"
        upload.sendall(f"{head}Content-Length: 10\r\nConnection: close\r\n\r\n12345".encode())
        assert answers_at_once(host)
        open_silent(host, 100, stack)
        assert answers_at_once(host)
        upload.sendall(b"67890")
        assert read_all(upload).startswith(b"HTTP/1.1 400")


def test_a_refused_client_that_goes_on_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    """CLU-04: one that was told no and still sends is let go when the service stops."""
    patient = Patience(quiet_seconds=60, linger_seconds=60, look_seconds=1)
    with ExitStack() as stack:
        with serving(tmp_path, patience=patient) as host:
            connection = stack.enter_context(host.connect())
            connection.sendall(b"POST /api/files HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 1000)
            assert connection.recv(10_000).startswith(b"HTTP/1.1 401")
            connection.sendall(b"x" * 1000)
            began = time.monotonic()
        assert time.monotonic() - began < 3


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="needs ten thousand descriptors")
def test_ten_thousand_connections_that_say_nothing(tmp_path: Path) -> None:
    """SEC-64: health is answered within a second all the while, and the process keeps few of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 12_000 if hard < 0 else min(12_000, hard)
    if wanted < 11_500:
        pytest.skip("this host allows too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        with serving(tmp_path, patience=Patience(), connection_limit=512) as host, ExitStack() as stack:
            for _ in range(100):
                for _ in range(100):
                    with suppress(TimeoutError):
                        stack.enter_context(host.connect())
                assert answers_at_once(host)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
