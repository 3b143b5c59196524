"""A clear of a served service goes on when the one who asked is gone."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import httpx
import pytest

from bulksigner.boot import product_version
from bulksigner.testing.served import API_KEY, ServedService

FILES = 300


def wait_for(look: Callable[[], bool], limit_seconds: float = 60.0) -> None:
    deadline = time.monotonic() + limit_seconds
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_caller_that_leaves_does_not_stop_a_clear(serve: Callable[..., ServedService]) -> None:
    """PIPE-103, API-32, OPS-30: its connection is closed at once, the clear runs to its event; every start says who."""
    service = serve()
    with service.client() as client:
        client.post("/api/pipeline/pause", json={"reason": "clear out"}).raise_for_status()
        for number in range(FILES):
            (service.root / "inbox" / f"{number}.bin").write_bytes(b"content")
        wait_for(lambda: service.count("Queued") == FILES)
        # The kernel throws away what a reset overtakes, so that the request may never arrive: then it is sent again.
        attempts = 0
        while not _events(client):
            if attempts % 40 == 0:
                _ask_and_leave(service.port)
            attempts += 1
            assert attempts < 1200
            time.sleep(0.05)
        message = _events(client)[-1]
        assert message.startswith(f"Jobs cleared by operator: {FILES} job record(s), {FILES} file(s), 0 folder(s)")
        assert client.get("/api/jobs").json()["totalCount"] == 0
        assert client.get("/api/pipeline/state").json()["paused"]
    assert list((service.root / "inbox").iterdir()) == []
    assert service.stop() == 0
    assert f"Bulk Signer v{product_version()}" in service.log.read_text(encoding="utf-8").splitlines()


def _ask_and_leave(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"DELETE /api/jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: {API_KEY}\r\n\r\n".encode())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


def _events(client: httpx.Client) -> list[str]:
    answer = client.get("/api/events", params={"eventType": "JobsCleared"}).raise_for_status().json()
    return [event["message"] for event in answer["items"]]
