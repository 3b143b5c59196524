"""More clients than threads upload at once: none is lost or refused, and the rest is answered meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bulksigner.testing.certificates import Issued
from bulksigner.testing.files import pdf_file
from bulksigner.testing.served import ServedService

CLIENTS = 20
UPLOADS_EACH = 3
PASSWORD = "senha de teste"
PATIENCE_SECONDS = 60.0


@pytest.fixture
def service(tmp_path: Path, leaf: Issued) -> Iterator[ServedService]:
    """A service with two threads for HTTP."""
    (tmp_path / "inbox").mkdir()
    served = ServedService(
        tmp_path,
        {
            "Storage:Inputs:0:Name": "inbox",
            "Storage:Inputs:0:Path": tmp_path / "inbox",
            "Signing:Profiles:0:Name": "default",
            "Signing:Profiles:0:ValidateCertificate": False,
            "Signing:Profiles:0:Certificate:Pfx:Path": leaf.write_pfx(tmp_path / "leaf.pfx", PASSWORD),
            "Signing:Profiles:0:Certificate:Pfx:Password": PASSWORD,
            "Hosting:Threads": 2,
            "Pipeline:MaxConcurrency": 4,
            "Signing:Engine": "InProcess",
        },
    )
    served.start()
    yield served
    served.stop()


def test_a_crowd_of_uploads_loses_nothing_and_holds_up_nobody(service: ServedService) -> None:
    """API-46, API-56, PERF-24: every acknowledged upload is signed; health and lists are answered in between."""
    content = pdf_file()
    answers: list[httpx.Response] = []
    waited: list[float] = []

    def upload(number: int) -> None:
        with service.client() as client:
            for turn in range(UPLOADS_EACH):
                files = {"file": (f"{number}-{turn}.pdf", content)}
                answers.append(client.post("/api/files", files=files))

    clients = [threading.Thread(target=upload, args=(number,)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    with service.client() as prober:
        while any(client.is_alive() for client in clients):
            for path in ("/api/health", "/api/jobs", "/api/metrics"):
                began = time.monotonic()
                assert prober.get(path).status_code == 200
                waited.append(time.monotonic() - began)
    for client in clients:
        client.join()
    assert [answer.status_code for answer in answers] == [202] * (CLIENTS * UPLOADS_EACH)
    assert len(waited) >= 3
    assert max(waited) < 10
    acknowledged = {answer.json()["jobId"] for answer in answers}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while service.count("Completed") < len(acknowledged):
        assert time.monotonic() < deadline, service.last_lines()
        time.sleep(0.05)
    assert {job["id"] for job in service.jobs("Completed")} == acknowledged
    assert len(list(service.output.iterdir())) == len(acknowledged)
