"""The OpenAPI document is valid, complete, and what the service answers: a client made of it meets every code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import falcon.testing
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.openapi_client import Answer, GeneratedClient, form
from tests.revoked_tickets import RevokedTickets

from bulksigner.contract.codes import CODES
from bulksigner.contract.errors import Refusal
from bulksigner.contract.settings import Secret
from bulksigner.jobs.model import utc_now
from bulksigner.jobs.states import JobStatus
from bulksigner.settings.hosting import RateLimitingSettings, WindowSettings
from bulksigner.web.app import create_app
from bulksigner.web.guards import Policy
from bulksigner.web.key_ring import open_key_ring
from bulksigner.web.openapi import describe
from bulksigner.web.rate_limits import RateLimits
from bulksigner.web.routes import ROUTES
from bulksigner.web.services import WebServices
from bulksigner.web.sessions import Sessions

KEY = {"X-API-Key": "a-key-for-the-tests"}
JOB = "0f8fad5b-d9cb-469f-a165-000000000001"
DOCUMENT = describe(ROUTES, CODES)
CLIENT = GeneratedClient(DOCUMENT, lambda *_: pytest.fail("nothing is sent"))
BODY = {"Content-Type": "multipart/form-data; boundary=limit"}
REFUSALS = [
    (operation.id, status, code) for operation in CLIENT.operations.values() for status, code in operation.refusals
]

# Codes that the rules behind a route raise: the act of the services that is replaced by one that refuses.
BEHIND = {
    "postFiles": "receive_upload",
    "postJobsIdRetry": "retry",
    "postJobsIdCancel": "cancel",
    "getPipelineState": "read_pipeline",
    "postPipelinePause": "pause",
    "postPipelineResume": "resume",
    "postRescan": "rescan",
}
# Codes that a request or the state of a job provokes: what is sent.
LONG = json.dumps({"reason": "x" * 513}).encode()
GIVEN: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("getJobs", "validation.filter-invalid"): {"query": [("page", "x")]},
    ("getJobsExport", "validation.filter-invalid"): {"query": [("from", "x")]},
    ("getEvents", "validation.filter-invalid"): {"query": [("to", "x")]},
    ("getJobsArchive", "validation.filter-invalid"): {"query": [("id", "x")]},
    ("getJobsArchive", "job.archive-empty"): {},
    ("getJobsArchive", "job.archive-too-large"): {
        "query": [("id", f"0f8fad5b-d9cb-469f-a165-{number:012}") for number in range(51)]
    },
    ("getJobsArchive", "job.not-found"): {"query": [("id", JOB)]},
    ("getJobsId", "job.not-found"): {},
    ("getJobsIdOutput", "job.not-found"): {},
    ("postJobsIdRetry", "job.not-found"): {},
    ("postJobsIdCancel", "job.not-found"): {},
    ("getProfilesName", "profile.not-found"): {"name": "missing"},
    ("postCulture", "culture.not-supported"): {"query": [("culture", "fr-FR")]},
    ("postFilesCheck", "upload.too-large"): {"body": form(b"x" * 200_000)},
    ("postFilesCheck", "profile.not-found"): {"query": [("profile", "missing")]},
    ("postFilesCheck", "upload.format-unsupported"): {"query": [("format", "x")]},
    ("postFilesCheck", "upload.empty"): {"body": form(b"")},
    ("postFilesCheck", "upload.invalid-name"): {"body": form(b"x").replace(b'; filename="a.pdf"', b"")},
}
STATES: Mapping[tuple[str, str], JobStatus] = {
    ("getJobsArchive", "job.output-unavailable"): JobStatus.FAILED,
    ("getJobsArchive", "job.output-gone"): JobStatus.COMPLETED,
    ("getJobsIdOutput", "job.output-unavailable"): JobStatus.QUEUED,
    ("getJobsIdOutput", "job.output-gone"): JobStatus.COMPLETED,
}


class BrokenDesk:
    """Backups and retention that refuse whatever they are asked."""

    def __init__(self, code: str) -> None:
        self._code = code

    def refuse(self, *_: object) -> None:
        raise Refusal("refused", code=self._code)

    ask = cancel = clean_up = refuse


@pytest.fixture
def generated(services: WebServices) -> Callable[..., GeneratedClient]:
    """Make a generated client of an application; keywords change the services."""

    def make(*, key: bool = True, routes: Any = ROUTES, **changes: Any) -> GeneratedClient:
        client = falcon.testing.TestClient(create_app(attrs.evolve(services, **changes), routes))

        def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
            path, _, query = target.partition("?")
            given = client.simulate_request(
                method, path, query_string=query, headers={**(KEY if key else {}), **headers}, body=body
            )
            return Answer(given.status_code, given.headers, given.content)

        return GeneratedClient(DOCUMENT, send)

    return make


def test_the_document_is_valid() -> None:
    """API-91: OpenAPI 3.1 by its own schema."""
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_route_is_described() -> None:
    """API-92, API-93: each row of the table has its operation, and each answer with content has its shape or type."""
    assert {f"{one.method} {one.path}" for one in CLIENT.operations.values()} == {route.name for route in ROUTES}
    for route in ROUTES:
        assert route.answer is not None or 300 <= route.status < 400, route.name
        security = DOCUMENT["paths"][route.path][route.method.lower()]["security"]
        assert bool(security) is (route.policy is not Policy.ANONYMOUS)
    assert DOCUMENT["components"]["schemas"]["Code"]["enum"] == list(CODES)


def test_the_served_document_names_the_header_in_force(generated: Callable[..., GeneratedClient]) -> None:
    """API-91: it is made of the running routes, with the name of the key's header and the codes of plugins."""
    for operation in ("getOpenapiV1Json", "getOpenapiJson"):
        assert generated().call(operation).json == json.loads(json.dumps(DOCUMENT))


@pytest.mark.parametrize("operation", CLIENT.operations)
def test_a_handler_reads_the_parameters_it_declares(
    generated: Callable[..., GeneratedClient],
    service: Any,
    new_job: Any,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
) -> None:
    """API-92: of the query each route looks at what its row declares, all of it and nothing else."""
    read: set[str] = set()

    def spy(name: str) -> None:
        original = getattr(falcon.Request, name)

        def record(request: falcon.Request, parameter: str, *args: Any, **options: Any) -> Any:
            read.add(parameter)
            return original(request, parameter, *args, **options)

        monkeypatch.setattr(falcon.Request, name, record)

    for name in ("get_param", "get_param_as_list", "has_param"):
        spy(name)
    service.add(new_job())
    own = {"id": JOB} if "id" in CLIENT.operations[operation].names("path") else {}
    given = {"postCulture": [("culture", "pt-BR")], "getJobsArchive": [("id", JOB)]}.get(operation)
    generated().call(operation, query=given, **own)
    # A field that belongs in the form is looked for in the query, to be refused there.
    assert read - {"metadata"} == set(CLIENT.operations[operation].names("query"))


def provoke(
    generated: Callable[..., GeneratedClient],
    service: Any,
    new_job: Any,
    tmp_path: Path,
    operation: str,
    status: int,
    code: str,
) -> Answer:
    own = "id" in CLIENT.operations[operation].names("path")
    if code == "auth.invalid-credentials":
        return generated(key=False).call(operation)
    if code == "auth.misconfigured":
        return generated(api_key=Secret("")).call(operation)
    if code == "rate-limited":
        window = WindowSettings(permits_per_window=1)
        once = RateLimitingSettings(upload=window, actions=window, export=window, login=window)
        client = generated(limits=RateLimits(once, threads=8))
        client.call(operation)
        return client.call(operation)
    if code == "auth.csrf":
        key_ring = open_key_ring(tmp_path / "keys", utc_now)
        sessions = Sessions(key_ring, RevokedTickets(), Secret("a-key-for-the-tests"), "lbs-auth", utc_now)
        cookie = f"lbs-auth={sessions.seal(sessions.begin('operator'))}"
        return generated(key=False, sessions=sessions).call(operation, headers={"Cookie": cookie})
    if code == "internal":
        routes = [attrs.evolve(route, act=lambda *_, **__: 1 / 0) for route in ROUTES]
        return generated(routes=routes).call(operation)
    if code == "request.invalid" and status == 404:
        [name] = CLIENT.operations[operation].names("path")
        return generated().call(operation, **{name: "a/b/c"})
    if code == "request.invalid":
        if operation in ("postFiles", "postFilesCheck"):
            return generated().call(operation, headers={"Content-Type": "text/plain"})
        return generated().call(operation, headers={"Content-Length": "2000000"})
    if (operation, code) in GIVEN:
        return generated().call(operation, **GIVEN[operation, code])
    if (operation, code) in STATES:
        service.add(new_job(status=STATES[operation, code], output_path="gone.pdf"))
        if own:
            return generated().call(operation, id=JOB)
        return generated().call(operation, query=[("id", JOB)])
    if operation.startswith("postBackup"):
        return generated(backups=None if code == "backup.disabled" else BrokenDesk(code)).call(operation)
    if operation == "postCleanup":
        return generated(retention=BrokenDesk(code)).call(operation)
    if code == "upload.disabled":
        return generated(uploads_enabled=False).call(operation)
    service.add(new_job())

    def refuse(*_: object, **__: object) -> None:
        raise Refusal("refused", code=code)

    return generated(**{BEHIND[operation]: refuse}).call(operation, **({"id": JOB} if own else {}))


@pytest.mark.parametrize(("operation", "status", "code"), REFUSALS)
def test_every_documented_code_is_answered_as_documented(
    generated: Callable[..., GeneratedClient],
    service: Any,
    new_job: Any,
    tmp_path: Path,
    operation: str,
    status: int,
    code: str,
) -> None:
    """API-76, API-92: each pair of operation and code can be met, with its status and in the shape of a problem."""
    answer = provoke(generated, service, new_job, tmp_path, operation, status, code)
    assert (answer.status, answer.json["code"]) == (status, code)


@pytest.mark.parametrize("code", [code for code, row in CODES.items() if row.status is None])
def test_a_code_that_is_only_recorded_on_a_job_is_no_answer(
    generated: Callable[..., GeneratedClient], code: str
) -> None:
    """API-76: such a code that escapes is an `internal`, so no answer is undocumented."""

    def refuse(*_: object, **__: object) -> None:
        raise Refusal("refused", code=code)

    assert generated(read_pipeline=refuse).call("getPipelineState").json["code"] == "internal"
