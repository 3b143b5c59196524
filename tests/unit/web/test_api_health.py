"""Health, readiness and rescan over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from falcon.testing import TestClient

from bulksigner.contract.observe import ReadinessRow
from bulksigner.observability.readiness import Report

RED = Report(
    False,
    (
        ReadinessRow("database", False, True, "unreachable"),
        ReadinessRow("signing-profile:folha", False, False, "no token"),
    ),
)


def test_health_asks_nobody(make_client: Callable[..., TestClient]) -> None:
    """API-46: it answers while the process does, without key or dependency."""

    def unexpected() -> Report:
        raise AssertionError

    answer = make_client(key=None, report_readiness=unexpected).simulate_get("/api/health")
    assert (answer.status_code, answer.json) == (200, {"status": "healthy"})
    assert answer.headers["content-type"] == "application/json"


def test_the_verdict_shows_names_only(make_client: Callable[..., TestClient], service: Any) -> None:
    """API-77: exactly `ready` and `checks` of name and ok; 503 when not ready."""
    client = make_client(key=None)
    answer = client.simulate_get("/api/ready")
    assert (answer.status_code, answer.json) == (200, {"ready": True, "checks": [{"name": "database", "ok": True}]})
    service.report = RED
    answer = client.simulate_get("/api/ready")
    assert answer.status_code == 503
    assert answer.json == {
        "ready": False,
        "checks": [{"name": "database", "ok": False}, {"name": "signing-profile:folha", "ok": False}],
    }


def test_the_details_add_the_detail(client: TestClient, service: Any) -> None:
    """API-78: the same report and status, each check with its detail."""
    service.report = RED
    answer = client.simulate_get("/api/ready/details")
    assert answer.status_code == 503
    assert answer.json == {
        "ready": False,
        "checks": [
            {"name": "database", "ok": False, "detail": "unreachable"},
            {"name": "signing-profile:folha", "ok": False, "detail": "no token"},
        ],
    }


def test_a_rescan_of_all_folders(client: TestClient, service: Any, new_folder: Callable[..., Any]) -> None:
    """API-71: counts for each folder and their totals."""
    service.folders = [
        new_folder("a", "/in/a", 7, 1, 2, 3, 1, 0, ["x.pdf"]),
        new_folder("b", "/in/b", unassigned=True),
        new_folder("c", "/in/c", 2, 2, enqueued_files=["y.pdf", "z.pdf"], already_processed=5),
    ]
    answer = client.simulate_post("/api/rescan")
    assert answer.status_code == 200
    assert answer.json["folders"][0] == {
        "name": "a",
        "path": "/in/a",
        "scanned": 7,
        "enqueued": 1,
        "alreadyActive": 2,
        "ignored": 3,
        "errors": 1,
        "alreadyProcessed": 0,
        "enqueuedFiles": ["x.pdf"],
        "unassigned": False,
    }
    assert answer.json["totals"] == {
        "folders": 3,
        "scanned": 9,
        "enqueued": 3,
        "alreadyActive": 2,
        "ignored": 3,
        "errors": 1,
        "unassigned": 1,
        "alreadyProcessed": 5,
    }


def test_a_rescan_of_one_folder(client: TestClient, service: Any, new_folder: Callable[..., Any]) -> None:
    """API-36: `folder` names one; the others are left alone."""
    service.folders = [new_folder("a", "/in/a"), new_folder("b b", "/in/b")]
    assert client.simulate_post("/api/rescan", query_string="folder=b%20b").json["totals"]["folders"] == 1


@pytest.mark.parametrize(
    ("query", "status"), [("folder=zzz", 404), ("folder=", 404), ("folder=payments&folder=b", 400)]
)
def test_a_folder_that_is_not_configured(client: TestClient, query: str, status: int) -> None:
    """API-71: 404 `folder.not-found`; an empty or doubled name never widens to all folders."""
    answer = client.simulate_post("/api/rescan", query_string=query)
    assert answer.status_code == status
    assert answer.json["code"] == {404: "folder.not-found", 400: "request.invalid"}[status]
