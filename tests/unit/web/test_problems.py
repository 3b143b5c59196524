"""Problem documents: members, what Production hides, and what a surprise becomes."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Any

import pytest
from falcon.testing import TestClient

from bulksigner.contract.errors import NotAllowed, PermanentFailure
from bulksigner.observability.logs import CONTEXT
from bulksigner.records.errors import StoreFailed

JOB = "0f8fad5b-d9cb-469f-a165-000000000001"
Making = Callable[..., TestClient]


def test_a_problem_in_production(client: TestClient) -> None:
    """API-03, API-04: type, title, status, code and the two ids; neither detail nor instance."""
    answer = client.simulate_get(f"/api/jobs/{JOB}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json
    assert len(document.pop("traceId")) == 32
    assert len(document.pop("requestId")) == 16
    assert document == {
        "type": "urn:bulksigner:problem:job.not-found",
        "title": "No such job",
        "status": 404,
        "code": "job.not-found",
    }


@pytest.mark.parametrize("environment", ["Development", "development"])
def test_a_problem_in_development_has_detail_and_instance(make_client: Making, environment: str) -> None:
    """API-04: full detail in Development."""
    document = make_client(environment=environment).simulate_get(f"/api/jobs/{JOB}", query_string="k=v").json
    assert document["detail"] == f"There is no job {JOB}."
    assert document["instance"] == f"/api/jobs/{JOB}"


@pytest.mark.parametrize("environment", ["Staging", "", "Prod"])
def test_other_environments_behave_as_production(make_client: Making, environment: str) -> None:
    """API-04: only Development shows more."""
    assert "detail" not in make_client(environment=environment).simulate_get(f"/api/jobs/{JOB}").json


def test_the_callers_trace_is_continued(client: TestClient) -> None:
    """API-03: `traceId` is the one of a valid `traceparent`; anything else begins a new one."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    def trace_of(header: str) -> str:
        return str(client.simulate_get("/x", headers={"traceparent": header}).json["traceId"])

    assert trace_of(f"00-{trace}-00f067aa0ba902b7-01") == trace
    for invalid in (f"00-{'0' * 32}-00f067aa0ba902b7-01", "x", f"00-{trace.upper()}-00f067aa0ba902b7-01", trace):
        assert trace_of(invalid).lower() != trace
        assert trace_of(invalid) != "0" * 32


@pytest.mark.parametrize("environment", ["Production", "Development"])
def test_a_surprise_is_internal_and_shows_no_trace(
    make_client: Making, environment: str, caplog: pytest.LogCaptureFixture
) -> None:
    """API-04, API-05: 500 `internal`, no stack trace, no text of the error; both are in the log."""

    def fail(_: str) -> None:
        raise RuntimeError("table jobs at /srv/secret")

    answer = make_client(environment=environment, find_job=fail).simulate_get(f"/api/jobs/{JOB}")
    assert (answer.status_code, answer.json["code"]) == (500, "internal")
    assert "srv" not in answer.text
    assert "Traceback" not in answer.text
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert "srv" in str(record.exc_info[1])


def test_a_database_that_is_away_is_one_line_of_the_log(make_client: Making, caplog: pytest.LogCaptureFixture) -> None:
    """API-76: 500 `internal`; its trace would be repeated for every request of an outage."""

    def fail(_: str) -> None:
        raise StoreFailed("PostgreSQL (db/bs) failed: connection refused.")

    answer = make_client(find_job=fail).simulate_get(f"/api/jobs/{JOB}")
    assert (answer.status_code, answer.json["code"]) == (500, "internal")
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "connection refused" in record.getMessage()
    assert record.exc_info is None


def test_a_providers_failure_is_internal(make_client: Making) -> None:
    """API-05: what is no refusal is our fault, not the caller's."""

    def fail(_: str) -> None:
        raise PermanentFailure("disk")

    assert make_client(find_job=fail).simulate_get(f"/api/jobs/{JOB}").status_code == 500


@pytest.mark.parametrize("code", ["sign.failed", "never.heard-of"])
def test_a_code_that_is_no_answer_does_not_leak(client: TestClient, service: Any, new_job: Any, code: str) -> None:
    """API-76: a code without an HTTP status, or out of the table, is `internal`."""
    service.add(new_job())
    service.refusal = NotAllowed("x", code=code)
    answer = client.simulate_post(f"/api/jobs/{JOB}/retry")
    assert (answer.status_code, answer.json["code"]) == (500, "internal")


def test_log_lines_of_a_request_carry_its_ids(make_client: Making, caplog: pytest.LogCaptureFixture) -> None:
    """API-03: `traceId` and `requestId` are in the context of every line, and gone afterwards."""
    seen: list[object] = []

    def look(_: str) -> None:
        seen.append(dict(CONTEXT.get({})))

    document = make_client(find_job=look).simulate_get(f"/api/jobs/{JOB}").json
    assert seen == [{"trace_id": document["traceId"], "request_id": document["requestId"]}]
    assert CONTEXT.get(None) is None


def test_a_refusal_is_one_line_without_query_values(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-58: the line names path and code; values of the query are not in it."""
    with caplog.at_level(logging.INFO, "bulksigner.web"):
        client.simulate_get("/api/jobs", query_string="page=x&token=hunter2hunter2")
    (record,) = caplog.records
    assert record.facts == {  # type: ignore[attr-defined]
        "method": "GET",
        "path": "/api/jobs",
        "status": 400,
        "code": "validation.filter-invalid",
    }
    assert "hunter2" not in record.getMessage()


def test_a_full_disk_is_one_line_for_the_operator(make_client: Making, caplog: pytest.LogCaptureFixture) -> None:
    """BEY-22, API-04: 500 `internal` with a detail that says it, and no traceback in the log."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    answer = make_client(find_job=fail, environment="Development").simulate_get(f"/api/jobs/{JOB}")
    assert (answer.status_code, answer.json["code"]) == (500, "internal")
    assert answer.json["detail"].startswith("The disk of the service is full; nothing was kept of the request.")
    [record] = caplog.records
    assert record.getMessage().startswith("Request failed: the disk is full, free space on it: ")
    assert record.exc_info is None
