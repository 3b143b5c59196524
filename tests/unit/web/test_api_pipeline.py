"""Pause, resume and the state over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from falcon.testing import TestClient

from bulksigner.contract.errors import RaceLost, Refusal
from bulksigner.operations.people import Person

OPERATOR = Person("operator", "ApiKey")
STATE = {
    "paused": False,
    "pausedAtUtc": "2026-05-26T15:42:11.123456Z",
    "resumedAtUtc": None,
    "pausedBy": "operator",
    "reason": "year end",
    "maxConcurrency": 4,
    "jobsInFlight": 3,
    "jobsInFlightByFormat": {"pades": 2, "cades": 0, "xades": 1, "total": 3},
}


def test_the_state(client: TestClient) -> None:
    """API-33, API-68: members, times in UTC, every format counted."""
    answer = client.simulate_get("/api/pipeline/state")
    assert (answer.status_code, answer.json) == (200, STATE)


@pytest.mark.parametrize(("action", "is_paused"), [("pause", True), ("resume", False)])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", None),
        (b"  ", None),
        (b"{}", None),
        (b'{"reason":null}', None),
        (b'{"reason":"Manuten\xc3\xa7\xc3\xa3o","unknown":[1]}', "Manutenção"),
    ],
)
def test_pause_and_resume_take_an_optional_reason(
    client: TestClient, service: Any, action: str, is_paused: bool, body: bytes, reason: str | None
) -> None:
    """API-02, API-34, API-35: a body may be left out, unknown members are ignored; the answer is the state."""
    answer = client.simulate_post(f"/api/pipeline/{action}", body=body)
    assert (answer.status_code, answer.json) == (200, STATE | {"paused": is_paused})
    assert service.asked == [(action, OPERATOR, reason)]


def test_the_type_of_a_body_is_not_asked(client: TestClient, service: Any) -> None:
    """API-34: `curl -d` without a header calls its JSON a form; the reason is read all the same."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.simulate_post("/api/pipeline/pause", body=b'{"reason":"x"}', headers=headers).status_code == 200
    assert service.asked == [("pause", OPERATOR, "x")]


@pytest.mark.parametrize(
    "body", [b"no JSON", b"[]", b'"text"', b"null", b'{"reason":1}', b'{"reason":{}}', b"\xff\xfe", b"[" * 20000, b"{"]
)
def test_a_body_that_cannot_be_read_changes_nothing(client: TestClient, service: Any, body: bytes) -> None:
    """API-05: 400 `request.invalid`."""
    answer = client.simulate_post("/api/pipeline/pause", body=body)
    assert (answer.status_code, answer.json["code"]) == (400, "request.invalid")
    assert service.asked == []


def test_a_body_over_the_limit_is_refused(client: TestClient, service: Any) -> None:
    """SEC-64: by what comes, not only by what was announced."""
    answer = client.simulate_post("/api/pipeline/pause", body=b" " * (1024 * 1024 + 1))
    assert (answer.status_code, answer.json["code"]) == (400, "request.invalid")
    assert service.asked == []


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (Refusal("513 characters", code="validation.reason-too-long"), 400),
        (RaceLost("somebody else", code="pipeline.race-lost"), 409),
        (Refusal("no row", code="pipeline.state-missing"), 500),
    ],
)
@pytest.mark.parametrize("action", ["pause", "resume"])
def test_refusals(
    client: TestClient,
    service: Any,
    caplog: pytest.LogCaptureFixture,
    action: str,
    refusal: Refusal,
    status: int,
) -> None:
    """API-34, API-35, API-76: each code with its status; the one that is a fault of the service is logged as such."""
    service.refusal = refusal
    answer = client.simulate_post(f"/api/pipeline/{action}", json={"reason": "x"})
    assert (answer.status_code, answer.json["code"]) == (status, refusal.code)
    assert ("ERROR" in [record.levelname for record in caplog.records]) is (status == 500)


def test_the_state_without_a_row(make_client: Callable[..., TestClient]) -> None:
    """API-33: 500 `pipeline.state-missing`."""

    def refuse() -> Any:
        raise Refusal("no row", code="pipeline.state-missing")

    answer = make_client(read_pipeline=refuse).simulate_get("/api/pipeline/state")
    assert (answer.status_code, answer.json["code"]) == (500, "pipeline.state-missing")
