"""An archive that cannot be sent whole does not look whole (API-65)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import httpx
import pytest

from bulksigner.testing.served import ServedService

MEGABYTE = 1_000_000


def test_a_file_that_shrinks_while_it_is_sent_ends_the_connection(serve: Callable[..., ServedService]) -> None:
    """API-65: a read error in the middle aborts; the client knows that the archive is not complete."""
    service = serve()
    with service.client() as client:
        content = os.urandom(MEGABYTE) * 60
        sent = client.post("/api/files", files={"file": ("big.rem", content)}).raise_for_status().json()
        deadline = time.monotonic() + 60
        while (job := client.get(f"/api/jobs/{sent['jobId']}").json())["status"] != "Completed":
            assert time.monotonic() < deadline, job
            time.sleep(0.05)
        # What the client does not read waits in the server, and the rest of the file is not read before there is room.
        with client.stream("GET", "/api/jobs/archive", params={"id": job["id"]}) as answer:
            assert answer.status_code == 200
            blocks = answer.iter_raw(MEGABYTE)
            assert next(blocks).startswith(b"PK")
            os.truncate(service.output / "big.rem.p7m", 50 * MEGABYTE)
            with pytest.raises(httpx.RemoteProtocolError):
                for _ in blocks:
                    pass
        assert client.get("/api/jobs/archive", params={"id": job["id"]}).status_code == 410
        assert client.get("/api/health").status_code == 200
