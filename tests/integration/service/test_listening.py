"""The sockets of the service: which are taken, which answer, and what Waitress says by itself."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bulksigner import serving
from bulksigner.contract.errors import StartRefused
from bulksigner.serving import HttpServer
from bulksigner.settings.variables import ListenAddress
from bulksigner.web import limits
from bulksigner.web.gate import BodyGate

LOOPBACK = ListenAddress("127.0.0.1", 0)


def answer(environ: Any, start_response: Any) -> list[bytes]:
    """Answer anything."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"here"]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Serve a small application; stopped at the end."""
    monkeypatch.setattr(serving, "create_app", lambda _: answer)
    monkeypatch.setattr(serving, "gate_of", lambda _: BodyGate(bool, uploads_enabled=True, max_upload_bytes=1))
    servers: list[HttpServer] = []

    def start(*addresses: ListenAddress) -> HttpServer:
        servers.append(HttpServer(addresses))
        services: Any = SimpleNamespace(limits=None, spool=None)
        servers[-1].start(services, threads=1)
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def ask(url: str) -> bytes:
    host, port = url.removeprefix("http://").rsplit(":", 1)
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read()
    finally:
        connection.close()


def exchange(url: str, request: bytes) -> tuple[int, dict[str, str], bytes]:
    with socket.create_connection(("127.0.0.1", port_of(url)), timeout=10) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_every_address_answers(serve: Any) -> None:
    """CFG-20: two of them, with the ports that were really bound in the URLs."""
    server = serve(LOOPBACK, LOOPBACK)
    first, second = server.addresses
    assert first != second
    assert ask(first) == ask(second) == b"here"


@pytest.mark.skipif(not has_ipv6(), reason="this host has no IPv6 loopback")
def test_an_ipv6_address_answers_beside_the_same_port_of_ipv4(serve: Any) -> None:
    """CFG-20: each family has its own socket."""
    [plain] = serve(LOOPBACK).addresses
    server = serve(ListenAddress("::1", port_of(plain)))
    assert server.addresses == (f"http://[::1]:{port_of(plain)}",)
    assert ask(server.addresses[0]) == b"here"


def test_an_address_in_use_is_refused_and_the_others_are_freed() -> None:
    """OPS-58, OPS-28: exit 71, with the address and the variable to change."""
    with socket.socket() as taken, socket.socket() as probe:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
        probe.close()
        port = taken.getsockname()[1]
        with pytest.raises(StartRefused, match=f"127.0.0.1:{port} .*in use.*BULK_SIGNER_URLS") as refused:
            HttpServer([ListenAddress("127.0.0.1", free), ListenAddress("127.0.0.1", port)])
    assert refused.value.exit_code == 71
    HttpServer([ListenAddress("127.0.0.1", free)]).stop()


def test_an_address_that_is_not_ours_is_refused() -> None:
    """OPS-28: a host that cannot be resolved, and an address of someone else."""
    for host in ("no-such-host.invalid", "203.0.113.1"):
        with pytest.raises(StartRefused, match=host) as refused:
            HttpServer([ListenAddress(host, 8080)])
        assert refused.value.exit_code == 71


def test_what_waitress_refuses_is_a_problem_document(serve: Any) -> None:
    """API-05, SEC-68: too large, malformed, too long a head."""
    [url] = serve(LOOPBACK).addresses
    requests = {
        413: b"POST /api/files HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (limits.MAX_BODY_BYTES + 1),
        400: b"GET / HTTP/1.1\r\nHost: x\r\nbroken header\r\n\r\n",
        431: b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * limits.MAX_HEADER_BYTES + b"\r\n\r\n",
    }
    for status, request in requests.items():
        given, headers, body = exchange(url, request)
        document = json.loads(body)
        assert (given, document["status"]) == (status, status)
        assert headers["content-type"] == "application/problem+json"
        assert document["code"] == ("upload.too-large" if status == 413 else "request.invalid")
        assert b"aitress" not in body
        assert "server" not in headers or "aitress" not in headers["server"]


def test_a_stop_frees_the_address_and_may_come_twice(serve: Any) -> None:
    """CLU-04: at once, so that a restart can listen again."""
    server = serve(LOOPBACK)
    [url] = server.addresses
    assert ask(url) == b"here"
    server.stop()
    server.stop()
    HttpServer([ListenAddress("127.0.0.1", port_of(url))]).stop()


def test_a_request_under_way_is_answered_before_the_stop_ends(serve: Any, monkeypatch: Any) -> None:
    """CLU-04: what was taken is answered; an idle connection does not hold up the stop."""
    entered, may_answer = threading.Event(), threading.Event()

    def answer_late(environ: Any, start_response: Any) -> list[bytes]:
        entered.set()
        assert may_answer.wait(10)
        return answer(environ, start_response)

    monkeypatch.setattr(serving, "create_app", lambda _: answer_late)
    server = serve(LOOPBACK)
    [url] = server.addresses
    given: list[bytes] = []
    client = threading.Thread(target=lambda: given.append(ask(url)))
    with socket.create_connection(("127.0.0.1", port_of(url))):
        client.start()
        assert entered.wait(10)
        threading.Timer(0.1, may_answer.set).start()
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 3.0
    client.join(10)
    assert given == [b"here"]
    assert not [thread for thread in threading.enumerate() if thread.name == "http"]
