"""Requests that two servers could read in two ways, and bodies that must not be stored; each is answered and closed."""

from __future__ import annotations

import io
import json
import socket
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integration.web.served_web import FORM, HEAD, KEY, MAX_UPLOAD_BYTES, TAIL, Host, read_all, serving

from bulksigner import channels
from bulksigner.web.limits import MAX_ANONYMOUS_BODY_BYTES, MAX_BODY_BYTES

KEY_LINE = f"X-API-Key: {KEY['X-API-Key']}\r\n".encode()
FORM_LINE = f"Content-Type: {FORM['Content-Type']}\r\n".encode()
HEALTH = b"GET /api/health HTTP/1.1\r\nHost: h\r\n"
POST = b"POST /api/auth/logout HTTP/1.1\r\nHost: h\r\n"
HIDDEN = b"GET /api/hidden HTTP/1.1\r\nHost: h\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def exchange(host: Host, raw: bytes) -> bytes:
    """Send bytes as they are and return all that comes back until the server closes."""
    with host.connect() as connection:
        connection.sendall(raw)
        return read_all(connection)


def problem_of(answer: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    found: dict[str, object] = json.loads(body)
    return found


@pytest.mark.parametrize(
    "raw",
    [
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + HIDDEN,
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + HIDDEN,
        POST + b"Content-Length: +5\r\n\r\nhello" + HIDDEN,
        POST + b"Content-Length: 5, 5\r\n\r\nhello" + HIDDEN,
        POST + b"Content-Length: 0x5\r\n\r\nhello" + HIDDEN,
        POST + b"Content-Length : 5\r\n\r\nhello" + HIDDEN,
        POST + b"Content-Length:\n5\r\n\r\nhello" + HIDDEN,
        POST.replace(b"1.1", b"1.0")
        + b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n"
        + HIDDEN,
        POST.replace(b"1.1", b"1.9") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
        HEALTH + b"X-One: a\r\n Transfer-Encoding: chunked\r\n\r\n" + HIDDEN,
        HEALTH + b"Host: other\r\n\r\n" + HIDDEN,
        b"GET http://other/api/health HTTP/1.1\r\nHost: h\r\n\r\n" + HIDDEN,
        b"GET /api/health HTTP/1.1\r\n\r\n" + HIDDEN,
        b"GET /api/health\r\n\r\n" + HIDDEN,
        CHUNKED + b"zz\r\n" + HIDDEN,
        CHUNKED + b"-1\r\n" + HIDDEN,
        CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n" + HIDDEN,
        CHUNKED + b"5\r\nhelloX\r\n0\r\n\r\n" + HIDDEN,
        CHUNKED + b"5;" + b"e" * 5000,
        CHUNKED + b"1" * 2000,
        CHUNKED + b"0\r\nX: " + b"t" * 40_000,
    ],
)
def test_what_has_two_meanings_is_refused(host: Host, raw: bytes) -> None:
    """SEC-64, RFC 9112: one refusal, then the connection is closed; what was hidden behind it is never answered."""
    answer = exchange(host, raw)
    assert answer.split(b" ", 2)[1] == b"400"
    assert answer.count(b"HTTP/1.") == 1
    assert problem_of(answer)["code"] == "request.invalid"
    assert host.request("GET", "/api/health")[0].status == 200


@pytest.mark.parametrize("method", [b"WEBSOCKET", b"CONNECT", b"TRACE", b"BREW"])
def test_a_method_of_no_route_gets_a_problem(host: Host, method: bytes) -> None:
    """API-03, API-05: also one that the framework refuses by itself, before anything of ours has run."""
    answer = exchange(host, method + b" /api/health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    assert answer.split(b" ", 2)[1] in (b"400", b"405")
    assert problem_of(answer)["code"] == "request.invalid"
    assert b"X-Content-Type-Options: nosniff" in answer


def test_chunks_are_no_way_around(host: Host) -> None:
    """SEC-64: what is well-formed is read to its end, and the next request of the connection is its own."""
    raw = CHUNKED + b"5;a=b\r\nhello\r\n0\r\nX-Trailer: x\r\n\r\n" + HEALTH + b"Connection: close\r\n\r\n"
    first, second = exchange(host, raw).split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"403")
    assert second.startswith(b"200")


@pytest.mark.parametrize("path", [b"/api/files", b"/api/rescan", b"/nowhere"])
@pytest.mark.parametrize("credentials", [b"", b"X-API-Key: wrong\r\n", b"Cookie: lbs-auth=AAAA\r\n"])
def test_nothing_large_is_stored_for_a_stranger(host: Host, path: bytes, credentials: bytes) -> None:
    """API-11: without credentials a large body is answered with 401 before a byte of it is read."""
    length = f"Content-Length: {MAX_ANONYMOUS_BODY_BYTES + 1}\r\n\r\n".encode()
    answer = exchange(host, b"POST " + path + b" HTTP/1.1\r\nHost: h\r\n" + credentials + length)
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"Www-Authenticate: ApiKey" in answer
    assert problem_of(answer)["code"] == "auth.invalid-credentials"


def test_a_stranger_s_chunks_end_at_the_same_length(host: Host) -> None:
    """API-11: a body of unknown length is cut off where a declared one would have been."""
    chunk = b"%x\r\n" % 10_000 + b"x" * 10_000 + b"\r\n"
    raw = b"POST /api/files HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 8
    assert exchange(host, raw).startswith(b"HTTP/1.1 401")
    assert host.landing.calls == 0


@pytest.mark.parametrize(
    ("path", "length", "status", "code"),
    [
        (b"/api/files", MAX_UPLOAD_BYTES + 1, 413, "upload.too-large"),
        (b"/api/rescan", MAX_BODY_BYTES + 1, 400, "request.invalid"),
        (b"/api/jobs/x/retry", MAX_BODY_BYTES + 1, 400, "request.invalid"),
    ],
)
def test_an_operator_s_body_over_the_limit_is_refused_by_its_head(
    host: Host, path: bytes, length: int, status: int, code: str
) -> None:
    """API-55, SEC-64, SEC-68: the declared length decides; a client that waits for 100-continue is told no instead."""
    head = b"POST " + path + b" HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n" + KEY_LINE
    answer = exchange(host, head + b"Content-Length: %d\r\n\r\n" % length)
    assert answer.startswith(b"HTTP/1.1 %d" % status)
    assert problem_of(answer)["code"] == code


def test_an_upload_while_uploads_are_off(tmp_path: Path) -> None:
    """API-55, CFG-132: `upload.disabled` comes first, before the length and before the body."""
    with serving(tmp_path, uploads_enabled=False) as host:
        head = b"POST /api/files HTTP/1.1\r\nHost: h\r\n" + KEY_LINE
        answer = exchange(host, head + b"Content-Length: %d\r\n\r\n" % (MAX_UPLOAD_BYTES + 1))
    assert answer.startswith(b"HTTP/1.1 409")
    assert problem_of(answer)["code"] == "upload.disabled"


def test_a_client_that_is_told_to_go_on_does(host: Host) -> None:
    """RFC 9110 10.1.1: an upload that waits for 100-continue gets it."""
    body = HEAD + b"content" + TAIL
    with host.connect() as connection:
        head = b"POST /api/files HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nConnection: close\r\n"
        connection.sendall(head + KEY_LINE + FORM_LINE + b"Content-Length: %d\r\n\r\n" % len(body))
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read_all(connection).startswith(b"HTTP/1.1 202")


def test_a_refused_client_reads_its_answer(host: Host) -> None:
    """API-05: one that goes on sending a body nobody wants still gets the answer, not a reset."""
    body = b"x" * 3_000_000
    with host.connect() as connection:
        connection.sendall(b"POST /api/files HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body))
        connection.sendall(body)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    assert problem_of(answer)["status"] == 401


class FullFile(io.BytesIO):
    """A file on a volume with space for `room` bytes; it fails once more when it is closed with bytes left to write."""

    def __init__(self, *_: object, room: int, **__: object) -> None:
        super().__init__()
        self._room = room
        self._has_failed = False

    def write(self, content: Any) -> int:
        if self.tell() + len(content) > self._room:
            self._has_failed = True
            raise OSError(28, "No space left on device")
        return super().write(content)

    def close(self) -> None:
        super().close()
        if self._has_failed:
            self._has_failed = False
            raise OSError(28, "No space left on device")


@pytest.mark.parametrize("room", [0, 1_000_000])
def test_a_full_disk_while_a_body_comes_in(host: Host, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """BEY-22, API-05: the client is told with a problem, nothing reaches the app, and the next request is served."""
    body = HEAD + b"x" * 2_000_000 + TAIL
    with monkeypatch.context() as patched:
        patched.setattr(channels.tempfile, "TemporaryFile", partial(FullFile, room=room))
        head = b"POST /api/files HTTP/1.1\r\nHost: h\r\n" + KEY_LINE + FORM_LINE
        answer = exchange(host, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 500")
    assert problem_of(answer)["code"] == "internal"
    assert host.landing.calls == 0
    assert host.request("POST", "/api/files", body=body, headers=FORM)[0].status == 202


@pytest.mark.skipif(sys.platform != "linux", reason="open files are listed in /proc")
def test_bodies_lie_beside_the_work_folders_and_go_with_their_client(host: Host, tmp_path: Path) -> None:
    """SEC-68: what has come of an upload is in the spool folder, without a name, and gone when the client is."""

    def spooled() -> int:
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return sum(str(link).startswith(str(tmp_path / "spool")) for link in links)

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 10
        while spooled() != count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    with host.connect() as connection:
        head = b"POST /api/files HTTP/1.1\r\nHost: h\r\n" + KEY_LINE + FORM_LINE + b"Content-Length: 9000000\r\n\r\n"
        connection.sendall(head + HEAD + b"x" * 4_000_000)
        wait_for(1)
        assert list((tmp_path / "spool").iterdir()) == []
    wait_for(0)
    assert host.landing.calls == 0
