"""The table of routes is the whole of the service: what it says is served, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Callable

import falcon
import falcon.testing
import pytest
from falcon.testing import TestClient

from bulksigner.contract.codes import CODES
from bulksigner.contract.settings import Secret
from bulksigner.web.guards import Policy, person_of
from bulksigner.web.routes import ROUTES, Route

JOB = "0f8fad5b-d9cb-469f-a165-000000000001"
Making = Callable[..., TestClient]


def url(route: Route) -> str:
    return route.path.replace("{id}", JOB).replace("{name}", "default")


def test_the_routes_of_this_build() -> None:
    """API-11: every route and its policy, enumerated."""
    assert {f"{route.method} {route.path}": route.policy.value for route in ROUTES} == {
        "GET /api/health": "Anonymous",
        "GET /api/ready": "Anonymous",
        "GET /api/ready/details": "Operator",
        "GET /api/metrics": "Operator",
        "POST /api/files": "Operator",
        "GET /api/jobs": "Operator",
        "GET /api/jobs/{id}": "Operator",
        "GET /api/jobs/{id}/output": "Operator",
        "POST /api/jobs/{id}/retry": "Operator",
        "POST /api/jobs/{id}/cancel": "Operator",
        "DELETE /api/jobs": "Operator",
        "GET /api/pipeline/state": "Operator",
        "POST /api/pipeline/pause": "Operator",
        "POST /api/pipeline/resume": "Operator",
        "GET /api/events": "Operator",
        "GET /api/events/types": "Operator",
        "GET /api/folders": "Operator",
        "POST /api/rescan": "Operator",
        "POST /api/cleanup": "Operator",
        "GET /api/backup": "Operator",
        "POST /api/backup": "Operator",
        "POST /api/backup/cancel": "Operator",
        "POST /api/files/check": "Operator",
        "GET /api/jobs/archive": "Operator",
        "GET /api/jobs/export": "Operator",
        "GET /api/profiles": "Operator",
        "GET /api/profiles/{name}": "Operator",
        "POST /api/culture": "Anonymous",
        "GET /openapi/v1.json": "Operator",
        "GET /api/openapi.json": "Operator",
        "GET /api/reference": "Operator",
        "GET /scalar/v1": "Operator",
        "GET /static/reference.css": "Anonymous",
        "POST /api/auth/login": "Anonymous",
        "POST /api/auth/logout": "Anonymous",
        "GET /api/auth/entra-login": "Anonymous",
        "GET /api/whoami": "Operator",
        "GET /login": "Anonymous",
        "GET /access-denied": "Anonymous",
        "GET /static/sign-in.css": "Anonymous",
    }


def test_every_code_of_a_route_is_in_the_table() -> None:
    """API-76: routes answer known codes that are HTTP answers, with their status unless it differs by route."""
    for route in ROUTES:
        for code, status in route.codes.items():
            assert CODES[code].status is not None
            assert status == CODES[code].status or (route.path, code) in (
                ("/api/jobs/{id}/retry", "job.path-too-long"),
                ("/api/profiles/{name}", "profile.not-found"),
            )


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
@pytest.mark.parametrize(
    "key", [None, "", "wrong", "a-key-for-the-tests-", "A-KEY-FOR-THE-TESTS", "a-key-for-the-test"]
)
def test_an_operator_route_needs_the_key(make_client: Making, route: Route, key: str | None) -> None:
    """API-08, SEC-18: a missing or wrong key is 401 on every operator route and asked for on no other."""
    answer = make_client(key=key).simulate_request(route.method, url(route))
    if route.policy is Policy.ANONYMOUS:
        assert answer.status_code in (200, 302, 400)
        return
    assert answer.status_code == 401
    assert answer.json["code"] == "auth.invalid-credentials"
    assert answer.headers["www-authenticate"].startswith("ApiKey ")


def test_the_header_of_the_key_can_be_chosen(make_client: Making) -> None:
    """API-08: `Auth:ApiKeyHeader` names the header."""
    client = make_client(api_key_header="X-Other")
    assert client.simulate_get("/api/jobs").status_code == 401
    assert client.simulate_get("/api/jobs", headers={"x-other": "a-key-for-the-tests"}).status_code == 200


def test_a_key_outside_ascii_is_compared_as_bytes(make_client: Making) -> None:
    """SEC-18: the key travels as UTF-8, whatever WSGI makes of it."""
    key = "chave-não-trivial"
    client = make_client(key=key.encode().decode("latin-1"), api_key=Secret(key))
    assert client.simulate_get("/api/jobs").status_code == 200


def test_an_empty_configured_key_opens_nothing(make_client: Making) -> None:
    """API-76: with no key configured nobody is let in, and the code says why."""
    for key in (None, "", "x"):
        answer = make_client(key=key, api_key=Secret("")).simulate_get("/api/jobs")
        assert (answer.status_code, answer.json["code"]) == (401, "auth.misconfigured")


@pytest.mark.parametrize("path", ["/", "/api", "/api/nothing", "/api/jobs/x/y", "/api/health/x", "/%00"])
def test_an_unknown_route_is_not_found(client: TestClient, path: str) -> None:
    """API-05: 404 with `request.invalid`."""
    answer = client.simulate_get(path)
    assert (answer.status_code, answer.json["code"]) == (404, "request.invalid")


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_a_method_without_a_row_is_not_allowed(client: TestClient, path: str, method: str) -> None:
    """API-05, SEC-38: 405 with `request.invalid` and the methods there are; a preflight is refused too."""
    there = {route.method for route in ROUTES if route.path == path}
    if "GET" in there:
        there.add("HEAD")
    if method in there:
        return
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.simulate_request(method, path.replace("{id}", JOB), headers=headers)
    assert answer.status_code == 405
    assert there <= set(answer.headers["allow"].split(", ")) <= there | {"OPTIONS"}
    if method != "HEAD":
        assert answer.json["code"] == "request.invalid"
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/api/health", "/api/jobs", "/nowhere", f"/api/jobs/{JOB}"])
@pytest.mark.parametrize("key", [None, "a-key-for-the-tests"])
def test_every_answer_has_the_security_headers(make_client: Making, path: str, key: str | None) -> None:
    """SEC-39: on success and on every kind of refusal."""
    headers = make_client(key=key).simulate_get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "camera=()" in headers["permissions-policy"]
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


@pytest.mark.parametrize("route", [route for route in ROUTES if route.max_body_bytes is not None], ids=lambda r: r.path)
def test_a_body_over_the_limit_is_refused_by_its_length(client: TestClient, route: Route) -> None:
    """SEC-64: 1 MiB on every route but the upload."""
    headers = {"Content-Length": str(1024 * 1024 + 1)}
    answer = client.simulate_request(route.method, url(route), headers=headers)
    assert (answer.status_code, answer.json["code"]) == (400, "request.invalid")
    assert answer.json["errors"] == {"Content-Length": ["must be at most 1048576"]}


def test_paths_are_templates_falcon_knows() -> None:
    """API-11: a row's parameters are plain names in braces."""
    for route in ROUTES:
        assert re.fullmatch(r"(/[a-z0-9]+(-[a-z]+)*(\.[a-z]+)?|/\{(id|name)\})+", route.path)
        assert route.method in falcon.HTTP_METHODS


@pytest.mark.parametrize("path", ["/api/health", "/api/ready", "/api/jobs", "/api/jobs/unknown"])
def test_head_answers_as_get_without_a_body(client: TestClient, path: str) -> None:
    """RFC 9110 9.3.2: the same status and headers, for load balancers that ask this way."""
    asked, told = client.simulate_get(path), client.simulate_head(path)
    assert (told.status_code, told.headers["content-type"]) == (asked.status_code, asked.headers["content-type"])
    assert told.content == b""


def test_an_open_route_does_not_know_who_asks() -> None:
    """SEC-26: an act that needs a person cannot be put on a route that asks nobody for a key."""
    request = falcon.Request(falcon.testing.create_environ(path="/api/health"))
    request.context.person = None
    with pytest.raises(TypeError, match="open to anybody"):
        person_of(request)
