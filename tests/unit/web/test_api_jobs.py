"""Jobs over REST: list, detail, output, retry."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from falcon.testing import TestClient

from bulksigner.contract.errors import NotAllowed, RaceLost
from bulksigner.jobs.listing import EVERY_JOB, JobFilter
from bulksigner.jobs.model import HistoryEntry
from bulksigner.jobs.states import JobStatus
from bulksigner.operations.people import Person
from bulksigner.web.outputs import disposition

JOB = "0f8fad5b-d9cb-469f-a165-000000000001"
Building = Callable[..., Any]


def day(number: int) -> datetime.datetime:
    return datetime.datetime(2026, 3, number, tzinfo=datetime.UTC)


def test_a_page_of_jobs(client: TestClient, service: Any, new_job: Building) -> None:
    """API-57, API-58: members of an item, envelope, defaults."""
    service.add(
        new_job(status=JobStatus.FAILED, error_code="sign.failed", error_message="sign.failed: no", file_name="ç")
    )
    answer = client.simulate_get("/api/jobs")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {
        "items": [
            {
                "id": JOB,
                "fileName": "ç",
                "originalPath": "/in/folha.pdf",
                "format": "Pades",
                "source": "Upload",
                "status": "Failed",
                "createdAt": "2026-05-26T15:42:11.123456Z",
                "updatedAt": "2026-05-26T15:42:11.123456Z",
                "parentJobId": None,
                "errorCode": "sign.failed",
                "errorMessage": "sign.failed: no",
                "profileName": "default",
            }
        ],
        "page": 1,
        "pageSize": 50,
        "totalCount": 7,
    }
    assert service.pages == [{"wanted": EVERY_JOB, "page": 1, "page_size": 50}]


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("status=AwaitingApproval", {"wanted": JobFilter(status=JobStatus.AWAITING_APPROVAL)}),
        ("profile=folha%20A", {"wanted": JobFilter(profile="folha A")}),
        ("page=10737418&pageSize=200", {"page": 10_737_418, "page_size": 200}),
        ("pageSize=99999999999", {"page_size": 200}),
        ("pageSize=0&page=0", {"page_size": 1, "page": 1}),
        ("pageSize=-5&page=-7", {"page_size": 1, "page": 1}),
        ("profile=a,b", {"wanted": JobFilter(profile="a,b")}),
        ("unknown=1", {}),
        ("fileName=%25_%C3%A7", {"wanted": JobFilter(file_name="%_ç")}),
        ("from=2026-03-02&to=2026-03-02", {"wanted": JobFilter(since=day(2), until=day(3))}),
        ("to=9999-12-31", {}),
    ],
)
def test_filters_and_pages(client: TestClient, service: Any, query: str, asked: dict[str, object]) -> None:
    """API-57: sizes are capped, low values read as 1, unknown parameters are ignored."""
    assert client.simulate_get("/api/jobs", query_string=query).status_code == 200
    assert service.pages == [{"wanted": EVERY_JOB, "page": 1, "page_size": 50} | asked]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=queued", "status"),
        ("status=", "status"),
        ("status=Queued&status=Failed", "status"),
        ("status=Done", "status"),
        ("page=10737419", "page"),
        ("page=1.0", "page"),
        ("page=x", "page"),
        ("page=", "page"),
        ("page=%D9%A1", "page"),
        ("page=1_0", "page"),
        ("page=%201", "page"),
        ("page=" + "9" * 400, "page"),
        ("pageSize=ten", "pageSize"),
        ("profile=", "profile"),
        ("profile=%20", "profile"),
        ("profile=a&profile=b", "profile"),
        ("fileName=", "fileName"),
        ("fileName=a%00", "fileName"),
        ("profile=%00", "profile"),
        ("fileName=a&fileName=b", "fileName"),
        ("from=2026-1-1", "from"),
        ("from=2026-02-30", "from"),
        ("from=2026-01-01T00:00:00Z", "from"),
        ("from=20260101", "from"),
        ("to=", "to"),
        ("from=2026-01-02&to=2026-01-01", "to"),
    ],
)
def test_a_bad_filter_is_refused_and_never_widens(client: TestClient, service: Any, query: str, field: str) -> None:
    """API-57: 400 `validation.filter-invalid` that names the parameter, in Production too."""
    answer = client.simulate_get("/api/jobs", query_string=query)
    assert (answer.status_code, answer.json["code"]) == (400, "validation.filter-invalid")
    assert list(answer.json["errors"]) == [field]
    assert service.pages == []


def test_a_job_in_detail(client: TestClient, service: Any, new_job: Building) -> None:
    """API-59, API-98: the item, its folder, an empty map, the timeline; what does not apply is null."""
    job = service.add(new_job(input_folder="payments", parent_job_id="p"))
    service.history = [
        HistoryEntry(1, job.created_at, JobStatus.QUEUED, "Queued from upload"),
        HistoryEntry(2, job.created_at, JobStatus.PROCESSING, "Processing started"),
    ]
    document = client.simulate_get(f"/api/jobs/{JOB.upper()}").json
    assert document["id"] == JOB
    assert {name: document[name] for name in ("outputEncrypted", "inputFolder", "metadata", "cnab240", "approval")} == {
        "outputEncrypted": False,
        "inputFolder": "payments",
        "metadata": {},
        "cnab240": None,
        "approval": None,
    }
    assert document["history"] == [
        {"id": 1, "timestamp": "2026-05-26T15:42:11.123456Z", "status": "Queued", "message": "Queued from upload"},
        {"id": 2, "timestamp": "2026-05-26T15:42:11.123456Z", "status": "Processing", "message": "Processing started"},
    ]


def test_a_name_that_is_no_unicode_is_served_all_the_same(client: TestClient, service: Any, new_job: Building) -> None:
    """API-01: a file name from a disk with other bytes does not break the answer."""
    service.add(new_job(file_name="a\udcffb"))
    assert client.simulate_get(f"/api/jobs/{JOB}").json["fileName"] == "a\udcffb"


@pytest.mark.parametrize(
    "wrong", ["x", "0f8fad5b-d9cb-469f-a165-00000000000", JOB + "0", "..", "%2e%2e%2f", JOB[:-1] + "%0A"]
)
@pytest.mark.parametrize("suffix", ["", "/output"])
def test_what_is_no_id_is_no_job(make_client: Building, wrong: str, suffix: str) -> None:
    """API-25: it is refused before the database is asked."""

    def unexpected(job_id: str) -> None:
        raise AssertionError(job_id)

    answer = make_client(find_job=unexpected).simulate_get(f"/api/jobs/{wrong}{suffix}")
    assert answer.status_code == 404


def completed(service: Any, new_job: Building, root: Path, name: str, content: bytes | None = b"signed") -> None:
    if content is not None:
        (root / name).write_bytes(content)
    service.add(new_job(status=JobStatus.COMPLETED, output_path=str(root / name)))


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("folha.signed.pdf", "application/pdf"),
        ("folha.rem.p7m", "application/pkcs7-mime"),
        ("folha.PEM", "application/x-pem-file"),
        ("nfe.signed.xml", "application/xml"),
        ("folha.rem", "application/octet-stream"),
        ("folha.signed.pdf.enc", "application/octet-stream"),
        ("folha.reject.rem.enc", "application/octet-stream"),
    ],
)
def test_the_output_is_sent_with_its_type(
    client: TestClient, service: Any, new_job: Building, tmp_path: Path, name: str, media_type: str
) -> None:
    """API-64: the bytes, the type by name, the name, the length."""
    content = os.urandom(300_000)
    completed(service, new_job, tmp_path, name, content)
    answer = client.simulate_get(f"/api/jobs/{JOB}/output")
    assert answer.content == content
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-length"] == "300000"
    assert answer.headers["content-disposition"] == f"attachment; filename=\"{name}\"; filename*=UTF-8''{name}"


def test_a_name_cannot_break_the_header() -> None:
    """API-64: RFC 5987 for every name; quotes, ends of line and other alphabets are encoded."""
    assert disposition('a"b\r\nX: é%.pdf') == (
        "attachment; filename=\"a_b__X: __.pdf\"; filename*=UTF-8''a%22b%0D%0AX%3A%20%C3%A9%25.pdf"
    )
    assert disposition("a\udcff").isascii()


def test_a_job_says_whether_its_output_is_an_envelope(
    client: TestClient, service: Any, new_job: Building, tmp_path: Path
) -> None:
    """ENC-05, ENC-26, API-59: and the envelope is sent as it is stored."""
    content = b"BSENC\0\0\0\1" + os.urandom(60)
    completed(service, new_job, tmp_path, "folha.rem.p7m.enc", content)
    service.jobs[JOB] = attrs.evolve(service.jobs[JOB], output_encrypted=True)
    assert client.simulate_get(f"/api/jobs/{JOB}").json["outputEncrypted"] is True
    assert client.simulate_get(f"/api/jobs/{JOB}/output").content == content


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.COMPLETED])
def test_only_a_completed_job_has_an_output(
    client: TestClient, service: Any, new_job: Building, status: JobStatus
) -> None:
    """API-64: 409 `job.output-unavailable`."""
    service.add(new_job(status=status))
    answer = client.simulate_get(f"/api/jobs/{JOB}/output")
    assert (answer.status_code, answer.json["code"]) == (409, "job.output-unavailable")


def assert_gone(client: TestClient) -> None:
    answer = client.simulate_get(f"/api/jobs/{JOB}/output")
    assert (answer.status_code, answer.json["code"]) == (410, "job.output-gone")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "content-disposition" not in answer.headers


def test_a_file_that_was_taken_is_gone(client: TestClient, service: Any, new_job: Building, tmp_path: Path) -> None:
    """API-64: 410, whether the file, its folder or its record is missing."""
    completed(service, new_job, tmp_path, "a.pdf", None)
    assert_gone(client)
    service.add(new_job(status=JobStatus.COMPLETED, output_path=str(tmp_path / "no-folder" / "a.pdf")))
    assert_gone(client)
    service.add(new_job(status=JobStatus.COMPLETED, output_path=None))
    assert_gone(client)


def test_another_file_under_the_name_is_not_the_output(
    client: TestClient, service: Any, new_job: Building, tmp_path: Path
) -> None:
    """API-64, BEY-01: length and time are compared, and the content where the time differs."""
    output = tmp_path / "a.pdf"
    output.write_bytes(b"signed")
    written_at = datetime.datetime.fromtimestamp(output.stat().st_mtime, datetime.UTC)
    service.add(
        new_job(
            status=JobStatus.COMPLETED,
            output_path=str(output),
            output_length=6,
            output_sha256=hashlib.sha256(b"signed").hexdigest(),
            output_modified_at=written_at,
        )
    )

    def put(content: bytes, seconds_later: int) -> None:
        output.write_bytes(content)
        at = written_at.timestamp() + seconds_later
        os.utime(output, (at, at))

    url = f"/api/jobs/{JOB}/output"
    assert client.simulate_get(url).content == b"signed"
    put(b"signed", 60)
    assert client.simulate_get(url).content == b"signed"
    put(b"forged", 60)
    assert_gone(client)
    put(b"signed!", 0)
    assert_gone(client)


def test_head_opens_what_get_would_send(client: TestClient, service: Any, new_job: Building, tmp_path: Path) -> None:
    """API-64: status, type and length without the bytes; the file does not stay open."""
    completed(service, new_job, tmp_path, "a.pdf")
    answer = client.simulate_head(f"/api/jobs/{JOB}/output")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "6", b"")


def test_only_a_regular_file_inside_the_output_folder_is_sent(
    client: TestClient, service: Any, new_job: Building, tmp_path: Path, make_client: Building
) -> None:
    """SEC-67: no link is followed, no folder or pipe opened, nothing outside the root."""
    root = tmp_path / "output"
    root.mkdir()
    outside = tmp_path / "secret.pdf"
    outside.write_bytes(b"secret")
    (root / "link.pdf").symlink_to(outside)
    (root / "folder.pdf").mkdir()
    os.mkfifo(root / "pipe.pdf")
    (root / "linked").symlink_to(tmp_path)
    here = make_client(output_root=root)
    for recorded in (
        outside,
        root / "link.pdf",
        root / "folder.pdf",
        root / "pipe.pdf",
        root / ".." / "secret.pdf",
        root / "linked" / "secret.pdf",
    ):
        service.add(new_job(status=JobStatus.COMPLETED, output_path=str(recorded)))
        assert_gone(here)


def test_a_retry_answers_with_both_ids(client: TestClient, service: Any, new_job: Building) -> None:
    """API-29: 200 with the new job, its parent and its status."""
    service.add(new_job(status=JobStatus.FAILED))
    answer = client.simulate_post(f"/api/jobs/{JOB}/retry")
    assert answer.status_code == 200
    assert answer.json == {
        "newJobId": "0f8fad5b-d9cb-469f-a165-000000000099",
        "parentJobId": JOB,
        "status": "Queued",
    }


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (NotAllowed("m", code="job.not-failed"), 409),
        (NotAllowed("m", code="job.input-missing"), 409),
        (NotAllowed("m", code="profile.disabled"), 409),
        (NotAllowed("m", code="job.path-too-long"), 409),
        (RaceLost("m"), 409),
    ],
    ids=lambda value: getattr(value, "code", ""),
)
def test_what_a_retry_refuses(client: TestClient, service: Any, new_job: Building, refusal: Any, status: int) -> None:
    """API-29, PIPE-99: a path too long is 409 here, though 400 for an upload."""
    service.add(new_job())
    service.refusal = refusal
    answer = client.simulate_post(f"/api/jobs/{JOB}/retry")
    assert (answer.status_code, answer.json["code"]) == (status, refusal.code)
    assert answer.json["status"] == status


def test_a_retry_of_nothing_is_not_found(client: TestClient) -> None:
    """API-29: 404 `job.not-found`."""
    assert client.simulate_post(f"/api/jobs/{JOB}/retry").json["code"] == "job.not-found"


def test_a_cancel_answers_the_job(client: TestClient, service: Any, new_job: Building) -> None:
    """API-30, API-63: the list item with its new status; who asked and why is passed on."""
    job = service.add(new_job())
    answer = client.simulate_post(f"/api/jobs/{JOB}/cancel", json={"reason": "wrong month"})
    assert answer.status_code == 200
    assert answer.json == client.simulate_get("/api/jobs").json["items"][0] | {"status": "Canceled"}
    assert service.asked[0] == ("cancel", job.id, Person("operator", "ApiKey"), "wrong month")


def test_a_cancel_needs_no_body(client: TestClient, service: Any, new_job: Building) -> None:
    """API-30: the reason is optional."""
    service.add(new_job())
    assert client.simulate_post(f"/api/jobs/{JOB.upper()}/cancel").status_code == 200
    assert service.asked[0][-1] is None


@pytest.mark.parametrize(
    ("code", "status"),
    [("job.not-queued", 409), ("job.race-lost", 409), ("validation.reason-too-long", 400)],
)
def test_a_cancel_that_is_refused(client: TestClient, service: Any, new_job: Building, code: str, status: int) -> None:
    """API-30, API-76: each refusal with its status."""
    service.add(new_job())
    service.refusal = NotAllowed("no", code=code)
    answer = client.simulate_post(f"/api/jobs/{JOB}/cancel")
    assert (answer.status_code, answer.json["code"]) == (status, code)


def test_a_cancel_of_an_unknown_job(client: TestClient, service: Any) -> None:
    """API-30: 404 `job.not-found`."""
    answer = client.simulate_post(f"/api/jobs/{JOB}/cancel")
    assert (answer.status_code, answer.json["code"]) == (404, "job.not-found")
    assert service.asked == []


@pytest.mark.parametrize("code", ["job.rejected-not-retriable", "file.already-processed"])
def test_a_decision_is_not_retried(client: TestClient, service: Any, new_job: Building, code: str) -> None:
    """API-29: 409 for both."""
    service.add(new_job(status=JobStatus.FAILED))
    service.refusal = NotAllowed("no", code=code)
    answer = client.simulate_post(f"/api/jobs/{JOB}/retry")
    assert (answer.status_code, answer.json["code"]) == (409, code)


def test_a_clear_answers_what_went(client: TestClient, service: Any) -> None:
    """API-32, API-67: counts and the message made of them."""
    answer = client.simulate_delete("/api/jobs")
    assert answer.status_code == 200
    assert answer.json == {
        "deleted": 1234,
        "filesDeleted": 2460,
        "foldersDeleted": 7,
        "eventsDeleted": 318,
        "itemsFailed": 2,
        "message": "Cleared 1234 job record(s), 2460 file(s), 7 folder(s) and 318 operational event(s).",
    }
    assert service.asked == [("clear", Person("operator", "ApiKey"))]


def test_there_is_no_route_that_deletes_one_job(client: TestClient, service: Any, new_job: Building) -> None:
    """API-07: a deliberate absence."""
    service.add(new_job())
    assert client.simulate_delete(f"/api/jobs/{JOB}").status_code == 405


def test_metadata_is_shown_in_the_detail_alone(client: TestClient, service: Any, new_job: Building) -> None:
    """API-98, PIPE-119: text by text as given, and in no list item."""
    service.add(new_job(metadata={"consignado.lote": "dezessete"}))
    assert client.simulate_get(f"/api/jobs/{JOB}").json["metadata"] == {"consignado.lote": "dezessete"}
    listed = client.simulate_get("/api/jobs")
    assert listed.status_code == 200
    assert "metadata" not in listed.text
    assert "dezessete" not in listed.text
