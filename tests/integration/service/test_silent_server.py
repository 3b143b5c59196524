"""HTTP while the database server takes connections and never answers."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bulksigner import panels
from bulksigner.contract.settings import Secret
from bulksigner.exposure import expose
from bulksigner.jobs.store import Jobs
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.records.engines import PostgresqlStore, open_postgresql
from bulksigner.serving import HttpServer
from bulksigner.settings.variables import ListenAddress

CLIENTS = 50
THREADS = 8


@pytest.fixture
def silent_store() -> Iterator[PostgresqlStore]:
    """A store whose server is a socket that nobody reads from."""
    with socket.create_server(("127.0.0.1", 0), backlog=2 * CLIENTS) as server:
        port = server.getsockname()[1]
        store = open_postgresql(Secret(f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable"), 5)
        yield store
        store.close()


def ask(address: str, path: str, key: str) -> tuple[int, float]:
    """Return the status of a GET and how many seconds it took."""
    begun = time.monotonic()
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    connection.request("GET", path, headers={"X-API-Key": key})
    status = connection.getresponse().status
    connection.close()
    return status, time.monotonic() - begun


def test_health_is_not_held_up_by_a_silent_database(
    built: Any, environ: dict[str, str], silent_store: PostgresqlStore
) -> None:
    """API-46, DEP-29: only the first requests wait for a connection, 2 s at most; every other one fails at once."""
    service = built()
    own = service.store
    service.store, service.jobs = silent_store, Jobs(silent_store)
    server = HttpServer([ListenAddress("127.0.0.1", 0)])
    server.start(expose(service), threads=THREADS)
    key = environ["Auth__ApiKey"]
    answers: list[tuple[int, float]] = []
    clients = [
        threading.Thread(target=lambda: answers.append(ask(server.addresses[0], "/api/jobs", key)))
        for _ in range(CLIENTS)
    ]
    try:
        for client in clients:
            client.start()
        time.sleep(0.2)
        status, seconds = ask(server.addresses[0], "/api/health", key)
        for client in clients:
            client.join()
    finally:
        server.stop()
        service.store = own
    assert (status, {status for status, _ in answers}, len(answers)) == (200, {500}, CLIENTS)
    # Before the first of them has given up waiting: health has a thread of its own.
    assert seconds < 1.5
    assert max(seconds for _, seconds in answers) < 6


def test_a_panel_is_printed_without_the_database(
    built: Any, silent_store: PostgresqlStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """OPS-31: one that goes away between the start and its panel does not end the start."""
    service = built()
    own = service.store
    service.store, service.pause = silent_store, PauseFlag(silent_store)
    panels.show(service, ["http://127.0.0.1:8080"])
    service.store = own
    assert "store status      = UNREACHABLE: StoreFailed" in capsys.readouterr().out
