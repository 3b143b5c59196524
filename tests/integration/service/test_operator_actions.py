"""Operator actions on a whole service: watcher, worker, REST and restart agree on what a person did."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from bulksigner.contract.errors import NotAllowed
from bulksigner.exposure import expose
from bulksigner.jobs import listing
from bulksigner.jobs.states import ACTIVE, JobStatus
from bulksigner.operations.clear import Interrupted
from bulksigner.operations.leftovers import Leftovers
from bulksigner.operations.people import Person
from bulksigner.pipeline.tasks import CheckTask, DeliverTask, SignTask, StageTask
from bulksigner.profiles.store import ProfileStore
from bulksigner.testing.harness import API_KEY
from bulksigner.web.app import create_app

OPERATOR = Person("operator", "ApiKey")


def client(harness: Any) -> falcon.testing.TestClient:
    return falcon.testing.TestClient(create_app(expose(harness.service)), headers={"X-API-Key": API_KEY})


def post(harness: Any, path: str, **body: str) -> Any:
    answer = client(harness).simulate_post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json


def put(path: Path, content: bytes) -> None:
    arriving = path.with_name(f"{path.name}.tmp")
    arriving.write_bytes(content)
    arriving.replace(path)


def wait_for(look: Callable[[], bool], limit_seconds: float = 20.0) -> None:
    deadline = time.monotonic() + limit_seconds
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def look(harness: Any, times: int = 3) -> None:
    for _ in range(times):
        harness.service.watchers.step()


def test_a_pause_outlives_a_restart(harness: Any, pdf_file: Any) -> None:
    """PIPE-68, CLU-55, CLU-56: files are still taken in, none is claimed, before and after a restart."""
    state = post(harness, "/api/pipeline/pause", reason="year end")
    assert (state["paused"], state["reason"], state["jobsInFlight"]) == (True, "year end", 0)
    harness.drop("contract.pdf", pdf_file())
    look(harness)
    assert harness.service.worker.step() == 0
    harness.restart()
    assert client(harness).simulate_get("/api/pipeline/state").json == state
    assert harness.service.worker.step() == 0
    [job] = harness.jobs()
    assert job.status is JobStatus.QUEUED
    assert post(harness, "/api/pipeline/resume")["paused"] is False
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED]
    answer = client(harness).simulate_get("/api/events?eventType=PipelinePaused&eventType=PipelineResumed")
    assert [event["message"] for event in answer.json["items"]] == [
        "Pipeline resumed by operator.",
        "Pipeline paused by operator. Reason: year end.",
    ]


def test_an_upload_while_paused_waits_and_runs_after_the_resume(harness: Any, pdf_file: Any) -> None:
    """PIPE-68, CLU-56: it is accepted and queued; nothing is claimed before the resume."""
    post(harness, "/api/pipeline/pause")
    job = harness.upload("contract.pdf", pdf_file())
    assert job.status is JobStatus.QUEUED
    for _ in range(3):
        assert harness.service.worker.step() == 0
    assert [one.status for one in harness.jobs()] == [JobStatus.QUEUED]
    post(harness, "/api/pipeline/resume")
    assert [(one.id, one.status) for one in harness.run_until_idle()] == [(job.id, JobStatus.COMPLETED)]
    assert harness.outputs() == ["contract.signed.pdf"]


def test_folder_rescan_and_retry_work_with_uploads_off(make_harness: Any, pdf_file: Any) -> None:
    """API-55: `Upload:Enabled` closes that one door and no other."""
    harness = make_harness(settings={"Upload:Enabled": False})
    with pytest.raises(NotAllowed) as refused:
        harness.upload("upload.pdf", pdf_file())
    assert refused.value.code == "upload.disabled"
    harness.drop("contract.pdf", pdf_file())
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED]
    path = harness.drop("mended.pdf", b"no PDF")
    failed = harness.run_until_idle()[-1]
    path.write_bytes(pdf_file())
    assert post(harness, f"/api/jobs/{failed.id}/retry")["status"] == "Queued"
    assert harness.run_until_idle()[-1].status is JobStatus.COMPLETED
    path = harness.drop("again.pdf", b"no PDF")
    assert harness.run_until_idle()[-1].status is JobStatus.FAILED
    path.write_bytes(pdf_file())
    assert post(harness, "/api/rescan")["totals"]["enqueued"] == 1
    assert harness.run_until_idle()[-1].status is JobStatus.COMPLETED
    assert harness.outputs() == ["again.signed.pdf", "contract.signed.pdf", "mended.signed.pdf"]


def test_a_canceled_file_waits_for_a_rescan(harness: Any, pdf_file: Any) -> None:
    """PIPE-44, PIPE-98, PIPE-100: the watcher leaves it, also after a restart; a rescan takes it."""
    path = harness.drop("contract.pdf", pdf_file())
    look(harness)
    [job] = harness.jobs()
    answer = post(harness, f"/api/jobs/{job.id}/cancel", reason="wrong month")
    assert (answer["id"], answer["status"]) == (job.id, "Canceled")
    assert [one.status for one in harness.run_until_idle()] == [JobStatus.CANCELED]
    harness.restart()
    assert [one.status for one in harness.run_until_idle()] == [JobStatus.CANCELED]
    assert path.exists()
    assert post(harness, "/api/rescan")["totals"]["enqueued"] == 1
    assert [one.status for one in harness.run_until_idle()] == [JobStatus.CANCELED, JobStatus.COMPLETED]
    assert not path.exists()


def test_what_a_deletion_kept_is_a_new_arrival(harness: Any, pdf_file: Any) -> None:
    """PIPE-44, PIPE-101, PIPE-113, OPS-178: with an older failed job at the path, and without a rescan."""
    harness.drop("contract.pdf", b"no PDF")
    [older] = harness.run_until_idle()
    newer = harness.retry(older)
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.FAILED] * 2
    harness.drop("contract.pdf", pdf_file())
    assert len(harness.run_until_idle()) == 2
    deleted = harness.service.operations.deletion.delete(newer.id, OPERATOR)
    assert [kept.reason for kept in deleted.kept] == ["rewritten"]
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.FAILED, JobStatus.COMPLETED]
    assert harness.outputs() == ["contract.signed.pdf"]


def test_a_kept_file_is_taken_while_nothing_else_happens(
    built: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-101, OPS-178: a folder that reports its changes has none to report; the deletion itself is the news."""
    service = built()
    service.start()
    path = tmp_path / "inbox" / "broken.pdf"
    put(path, b"no PDF")
    wait_for(lambda: service.jobs.counts()[JobStatus.FAILED] == 1)
    [first] = listing.page(service.store).items
    put(path, b"still no PDF")
    wait_for(lambda: any(f"{path} is not taken" in record.getMessage() for record in caplog.records))
    service.operations.deletion.delete(first.id, OPERATOR)
    wait_for(lambda: service.jobs.counts()[JobStatus.FAILED] == 1)
    [second] = listing.page(service.store).items
    assert second.id != first.id
    assert path.read_bytes() == b"still no PDF"


def test_a_deleted_completed_job_frees_its_output_name(harness: Any, pdf_file: Any) -> None:
    """PIPE-52, PIPE-101: the same file can be signed again."""
    harness.drop("contract.pdf", pdf_file())
    [job] = harness.run_until_idle()
    deleted = harness.service.operations.deletion.delete(job.id, OPERATOR, "again")
    assert deleted.removed == (f"output {harness.output('contract.signed.pdf')}",)
    assert harness.outputs() == []
    harness.drop("contract.pdf", pdf_file())
    assert [one.status for one in harness.run_until_idle()] == [JobStatus.COMPLETED]


def test_a_cleared_service_works_on(harness: Any, pdf_file: Any, xml_file: Any) -> None:
    """PIPE-103, API-67: all is gone, uploads and the event of the seeding too; what the host has been given is not.

    The next life reads them from the database and signs the next file as before.
    """
    profiles = ProfileStore(harness.service.store).all()
    assert [profile.input_folder for profile in profiles] == ["inbox"]
    harness.drop("contract.pdf", pdf_file())
    harness.drop("broken.pdf", b"no PDF")
    harness.upload("invoice.xml", xml_file())
    harness.run_until_idle()
    waiting = harness.upload("later.xml", xml_file())
    log = harness.root / "logs" / "bulksigner-20200101.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("an earlier day\n", encoding="utf-8")
    given = {path: path.read_bytes() for path in harness.folder.rglob("*") if is_given(harness, path)}
    answer = client(harness).simulate_delete("/api/jobs").json
    assert answer["message"] == "Cleared 4 job record(s), 4 file(s), 1 folder(s) and 1 operational event(s)."
    assert (answer["deleted"], answer["itemsFailed"]) == (4, 0)
    assert harness.service.jobs.get(waiting.id) is None
    assert harness.outputs() == []
    assert list(harness.input_folder().iterdir()) == []
    assert client(harness).simulate_get("/api/events/types").json == ["JobsCleared"]
    assert ProfileStore(harness.service.store).all() == profiles
    assert {path: path.read_bytes() for path in given} == given
    assert log.read_text(encoding="utf-8") == "an earlier day\n"
    harness.restart()
    harness.drop("contract.pdf", pdf_file())
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED]


def is_given(harness: Any, path: Path) -> bool:
    """Tell whether a file is of the host's configuration."""
    return path.is_file() and not path.is_relative_to(harness.root) and path.parent != harness.input_folder()


def test_a_signed_in_person_is_the_actor(harness: Any) -> None:
    """SEC-26, PIPE-103: an act in a browser's session is told of like one by key."""
    sessions = harness.service.sessions
    ticket = sessions.begin("operator")
    browser = falcon.testing.TestClient(create_app(expose(harness.service)))
    headers = {"Cookie": f"{sessions.cookie_name}={sessions.seal(ticket)}", "X-CSRF-Token": ticket.csrf}
    assert browser.simulate_delete("/api/jobs", headers=headers).status_code == 200
    [event] = browser.simulate_get("/api/events", headers=headers).json["items"]
    assert event["eventType"] == "JobsCleared"
    assert event["message"].startswith("Jobs cleared by operator: 0 job record(s)")


@pytest.mark.parametrize("task", [StageTask, SignTask, CheckTask, DeliverTask])
def test_a_clear_while_a_job_is_signed(harness: Any, task: Any, caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-104: it loses its staged copy; its worker fails it, finds no row, logs both, and delivers nothing."""
    harness.drop("folha.rem", b"content")
    harness.before_task(task, lambda _: harness.service.operations.clearing.clear(OPERATOR))
    harness.service.watchers.step()
    assert harness.service.worker.step() == 1
    assert harness.jobs() == []
    assert harness.outputs() == []
    told = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("Job failed in step ") for line in told)
    assert any("no longer as it was read" in line for line in told)
    harness.drop("next.rem", b"content")
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED]


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
def test_clears_beside_a_service_at_work(make_harness: Any, engine: str) -> None:
    """PIPE-103, PIPE-104: with real workers, whatever each job was at, no output is left that nobody accounts for."""
    harness = make_harness(engine=engine, settings={"Pipeline:MaxConcurrency": 4, "Signing:EngineWorkers": 2})
    service = harness.service
    service.start()
    warned: set[str] = set()
    clearing = service.operations.clearing
    remove_all = clearing._removal.remove_all

    def note_late(*arguments: Any) -> Any:
        removed = remove_all(*arguments)
        warned.update(removed.late_outputs)
        return removed

    clearing._removal.remove_all = note_late
    for number in range(6):
        for each in range(25):
            harness.drop(f"{number}-{each}.rem", b"content")
        wait_for(lambda: service.jobs.counts()[JobStatus.COMPLETED] > 2)
        clearing.clear(OPERATOR)
    post(harness, "/api/rescan")
    wait_for(lambda: not any(service.jobs.counts()[status] for status in ACTIVE))
    service.stop()
    named = {job.output_path for job in harness.jobs() if job.status is JobStatus.COMPLETED}
    assert {str(harness.output(name)) for name in harness.outputs()} - warned == named - warned


def test_a_stop_ends_a_clear_and_leaves_the_rows(
    harness: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-103, OPS-176: the stop waits for the clear to notice; a warning tells, and the next life has every job."""
    service = harness.service
    for number in range(3):
        harness.upload(f"{number}.p7m", b"content")
    removing, stopping = threading.Event(), service.operations.clearing._stopping
    remove = Leftovers.remove_input

    def remove_until_stopped(leftovers: Leftovers, folder: Any, name: str, job: Any) -> None:
        remove(leftovers, folder, name, job)
        removing.set()
        assert stopping.wait(10)

    monkeypatch.setattr(Leftovers, "remove_input", remove_until_stopped)
    raised: list[BaseException] = []

    def clear() -> None:
        try:
            service.operations.clearing.clear(OPERATOR)
        except Interrupted as error:
            raised.append(error)

    thread = threading.Thread(target=clear)
    thread.start()
    assert removing.wait(10)
    service.stop()
    thread.join(10)
    assert len(raised) == 1
    assert any("interrupted by the end of the service" in record.getMessage() for record in caplog.records)
    harness.restart()
    assert len(harness.jobs()) == 3
