"""Metadata through a whole service: where it is seen, where it never is, and when its sidecar goes (PIPE-128)."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from bulksigner.contract.errors import Refusal
from bulksigner.exposure import expose
from bulksigner.jobs.model import Job
from bulksigner.jobs.states import JobStatus
from bulksigner.operations.people import Person
from bulksigner.pipeline.tasks import SignTask
from bulksigner.testing.files import pdf_file
from bulksigner.testing.harness import API_KEY, Harness
from bulksigner.web.app import create_app

VALUE, KEY = "segredo-do-produtor", "consignado.chave"
TEXT = f'{{"{KEY}": "{VALUE}"}}'


@pytest.fixture
def harness(make_harness: Callable[..., Harness]) -> Harness:
    """A service whose folder has sidecars."""
    return make_harness(settings={"Storage:Inputs:0:Sidecar": True})


def drop(harness: Harness, name: str, content: bytes) -> Path:
    """Drop the sidecar, then the file; return the path of the first."""
    beside = harness.drop(f"{name}.meta.json", TEXT.encode())
    harness.drop(name, content)
    return beside


def upload(harness: Harness, metadata: str | None, name: str = "sent.pdf") -> Job:
    return harness.service.uploads.receive(io.BytesIO(pdf_file()), file_name=name, metadata=metadata)


def web(harness: Harness) -> falcon.testing.TestClient:
    return falcon.testing.TestClient(create_app(expose(harness.service)), headers={"X-API-Key": API_KEY})


def recorded(harness: Harness) -> str:
    """Return all that the database holds but the column itself, as one text."""
    store, found = harness.service.store, []
    with store.reading():
        for table in store.database.get_tables():
            names = [column.name for column in store.database.get_columns(table) if column.name != "metadata"]
            found += store.database.execute_sql(f"SELECT {', '.join(names)} FROM {table}").fetchall()
    return repr(found)


def test_metadata_is_seen_in_the_detail_and_nowhere_else(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-115 to PIPE-119, PIPE-128, SEC-86: by both doors; not in log, event, history, list or readiness."""
    tasks: list[Any] = []
    harness.before_task(SignTask, tasks.append)
    caplog.set_level(logging.DEBUG)
    beside = drop(harness, "dropped.pdf", pdf_file())
    sent = upload(harness, TEXT)
    failing = drop(harness, "failing.pdf", b"no PDF")
    drop(harness, "sent.pdf", pdf_file())
    jobs = {job.file_name: job for job in harness.run_until_idle()}
    assert jobs["dropped.pdf"].status is JobStatus.COMPLETED
    assert not beside.exists()
    assert failing.exists()
    # What signs is told, as the hooks promise, and prints nothing of it.
    assert {VALUE} == {task.metadata[KEY] for task in tasks}
    client = web(harness)
    for job_id in (sent.id, jobs["dropped.pdf"].id, jobs["failing.pdf"].id, jobs["sent.pdf"].id):
        assert client.simulate_get(f"/api/jobs/{job_id}").json["metadata"] == {KEY: VALUE}
    others = [client.simulate_get(path).text for path in ("/api/jobs", "/api/jobs?status=Failed", "/api/ready")]
    refused = client.simulate_get(f"/api/jobs/{jobs['sent.pdf'].id}").json
    assert refused["errorCode"] == "file.already-processed"
    others += [repr(refused["history"]), recorded(harness), caplog.text, repr(tasks), repr(harness.jobs())]
    for text in others:
        assert text
        assert VALUE not in text
        assert KEY not in text


def test_a_retry_copies_and_consumes_in_the_end(harness: Harness) -> None:
    """PIPE-116, PIPE-118, PIPE-128: it reads no sidecar; where the input stays, so does the sidecar."""
    beside = drop(harness, "a.pdf", b"no PDF")
    [failed] = harness.run_until_idle()
    assert failed.status is JobStatus.FAILED
    assert beside.read_bytes() == TEXT.encode()
    harness.drop("a.pdf", pdf_file())
    retried = harness.retry(failed)
    assert dict(retried.metadata) == {KEY: VALUE}
    assert harness.run_until_idle()[-1].status is JobStatus.COMPLETED
    assert list(harness.input_folder().iterdir()) == []


def test_a_rescan_reads_the_sidecar_again(harness: Harness) -> None:
    """PIPE-118: where the input stays after a failure, a corrected sidecar counts."""
    drop(harness, "a.pdf", b"no PDF")
    harness.run_until_idle()
    harness.drop("a.pdf.meta.json", b'{"k": "new"}')
    harness.drop("a.pdf", pdf_file())
    expose(harness.service).rescan(None, Person("operator", "ApiKey"))
    job = harness.run_until_idle()[-1]
    assert (job.status, dict(job.metadata)) == (JobStatus.COMPLETED, {"k": "new"})
    assert list(harness.input_folder().iterdir()) == []


def test_a_changed_sidecar_stays_and_diverges_no_job(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-118, PIPE-128: one warning; the job is completed without a word of it."""
    beside = drop(harness, "a.pdf", pdf_file())
    harness.service.watchers.step()
    beside.write_bytes(b"{}")
    [job] = harness.run_until_idle()
    assert (job.status, job.input_diverged, dict(job.metadata)) == (JobStatus.COMPLETED, False, {KEY: VALUE})
    assert [path.name for path in harness.input_folder().iterdir()] == [beside.name]
    assert caplog.text.count(f"The sidecar {beside} was left") == 1


def test_a_diverged_input_keeps_its_sidecar(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-118, PIPE-94: both stay, and the hand-back reads the sidecar again."""
    beside = drop(harness, "a.pdf", pdf_file())
    harness.before_task(SignTask, lambda _: harness.drop("a.pdf", pdf_file(pages=2)))
    harness.service.watchers.step()
    harness.service.worker.step()
    assert beside.exists()
    harness.output("a.signed.pdf").unlink()
    assert [dict(job.metadata) for job in harness.run_until_idle()] == [{KEY: VALUE}] * 2
    assert list(harness.input_folder().iterdir()) == []


@pytest.mark.parametrize("text", [None, "", "  ", "{}"])
def test_an_upload_without_metadata_has_none(harness: Harness, text: str | None) -> None:
    """API-97: absent or empty."""
    assert dict(upload(harness, text).metadata) == {}


def test_an_upload_with_bad_metadata_leaves_nothing(harness: Harness) -> None:
    """API-55, API-97, PIPE-128: refused before the name rule and before anything is stored, naming the rule alone."""
    upload(harness, TEXT)
    before = sorted(harness.folder.rglob("*.pdf"))
    with pytest.raises(Refusal, match="not text") as refused:
        upload(harness, f'{{"{KEY}": ["{VALUE}"]}}')
    assert refused.value.code == "upload.metadata-invalid"
    assert VALUE not in str(refused.value)
    assert sorted(harness.folder.rglob("*.pdf")) == before
    assert len(harness.jobs()) == 1


def test_metadata_ends_with_its_job(harness: Harness) -> None:
    """PIPE-119: nothing but the row has it."""
    upload(harness, TEXT)
    [job] = harness.run_until_idle()
    store = harness.service.store
    with store.reading():
        count = store.database.execute_sql("SELECT COUNT(*) FROM job WHERE metadata LIKE '%segredo%'").fetchone()[0]
    assert (count, dict(job.metadata)) == (1, {KEY: VALUE})
    files = [path for path in harness.folder.rglob("*") if path.is_file() and ".db" not in path.name]
    assert [path for path in files if VALUE.encode() in path.read_bytes()] == []
