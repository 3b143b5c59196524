"""The OpenAPI 3.1 document, made of the table of routes and the table of codes (API-91, API-92)."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bulksigner.contract.codes import ErrorCode
from bulksigner.web.csrf import SAFE_METHODS
from bulksigner.web.guards import Policy
from bulksigner.web.route import Route
from bulksigner.web.schema import Schema, ref
from bulksigner.web.shapes import SHAPES

__all__ = [
    "COMMON",
    "DEFAULT_COOKIE",
    "DEFAULT_KEY_HEADER",
    "FORGED",
    "INTRODUCTION",
    "LIMITED",
    "OPERATOR",
    "answers_of",
    "describe",
    "refusals_of",
]

DEFAULT_KEY_HEADER, DEFAULT_COOKIE = "X-API-Key", "lbs-auth"
PROBLEM_TYPE = "application/problem+json"
_KEY, _SESSION = "apiKey", "session"
_IN_PATH = re.compile(r"\{(\w+)\}")
# Any route may answer these, and each operator route those, so no row repeats them.
COMMON = {"request.invalid": 400, "internal": 500}
OPERATOR = {"auth.invalid-credentials": 401, "auth.misconfigured": 401}
# Each route under a limit may answer the first, each one for operators that changes anything the second.
LIMITED, FORGED = {"rate-limited": 429}, {"auth.csrf": 403}
INTRODUCTION = (
    "Errors are problem documents (RFC 9457): dispatch on `code`, titles may change. Members and codes are only added; "
    "unknown members of a request are ignored unless a route says otherwise. `HEAD` is answered like `GET`, without a "
    "body. An unknown path is 404 and a method that a path does not have 405, both `request.invalid`. "
    "What is no proper HTTP is refused before any route: 413 `upload.too-large`, or `request.invalid` with 400, 431 or "
    "501."
)


def describe(
    routes: Sequence[Route],
    codes: Mapping[str, ErrorCode],
    *,
    key_header: str = DEFAULT_KEY_HEADER,
    cookie: str = DEFAULT_COOKIE,
) -> dict[str, Any]:
    """Return the document of a table of routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, codes)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "bulksigner",
            "version": importlib.metadata.version("bulksigner"),
            "description": INTRODUCTION,
        },
        "paths": paths,
        "components": {
            "schemas": {**SHAPES, "Code": _every_code(codes)},
            "securitySchemes": {
                _KEY: {"type": "apiKey", "in": "header", "name": key_header},
                _SESSION: {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": cookie,
                    "description": "The session of a browser, got at /login. What changes anything also carries the "
                    "token that GET /api/whoami tells, in the header X-CSRF-Token.",
                },
            },
        },
    }


def refusals_of(route: Route) -> dict[str, list[int]]:
    """Return every code that a route may answer, with the statuses it has there."""
    given = {**COMMON, **route.codes}
    if route.policy is not Policy.ANONYMOUS:
        given |= OPERATOR | ({} if route.method in SAFE_METHODS else FORGED)
    if route.limit is not None:
        given |= LIMITED
    refusals = {code: [status] for code, status in given.items()}
    if _IN_PATH.search(route.path):
        # An encoded slash in a parameter makes another path of it.
        refusals["request.invalid"].append(404)
    return refusals


def answers_of(route: Route) -> dict[int, str]:
    """Return the statuses of success, with what each means."""
    return {route.status: route.summary, **(route.answer.also if route.answer is not None else {})}


def _operation(route: Route, codes: Mapping[str, ErrorCode]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _identify(route),
        "summary": route.summary,
        "tags": [_subject(route.path)],
        "x-policy": route.policy.value,
        "responses": _responses(route, codes),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _of_path(name)}
        for name in _IN_PATH.findall(route.path)
    ]
    parameters += [
        {"name": one.name, "in": "query", "description": one.summary, "schema": one.schema} for one in route.query
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {route.body.media_type: {"schema": route.body.schema}}
        operation["requestBody"] = {"required": route.body.required, "content": content}
    schemes = {Policy.ANONYMOUS: (), Policy.OPERATOR: (_KEY, _SESSION), Policy.OPERATOR_SESSION: (_SESSION,)}
    operation["security"] = [{scheme: []} for scheme in schemes[route.policy]]
    if route.limit is not None:
        operation["x-rate-limit-policy"] = route.limit.value
    return operation


def _identify(route: Route) -> str:
    """Make an id of method and path, such as `getJobsIdOutput`."""
    words = re.findall(r"[A-Za-z0-9]+", route.path.removeprefix("/api"))
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _subject(path: str) -> str:
    """Name the group of a route: the first part of its path behind `/api`."""
    return path.removeprefix("/api").strip("/").partition("/")[0]


def _of_path(name: str) -> Schema:
    # Whatever has not the form of an id is no job, so the text is not restricted further than that.
    return {"type": "string", "format": "uuid"} if name == "id" else {"type": "string", "minLength": 1}


def _responses(route: Route, codes: Mapping[str, ErrorCode]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, told in answers_of(route).items():
        responses[str(status)] = {"description": told, **_success(route)}
    by_status: dict[int, list[str]] = {}
    for code, statuses in refusals_of(route).items():
        for status in statuses:
            by_status.setdefault(status, []).append(code)
    for status, found in sorted(by_status.items()):
        responses[str(status)] = _refusal(found, codes)
        if status == LIMITED["rate-limited"]:
            responses[str(status)]["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return responses


def _success(route: Route) -> dict[str, Any]:
    if route.answer is None:
        return {"headers": {"Location": {"schema": {"type": "string"}}}}
    media = {} if route.answer.schema is None else {"schema": route.answer.schema}
    success: dict[str, Any] = {"content": dict.fromkeys(route.answer.media_types, media)}
    if route.answer.schema is None:
        success["headers"] = {"Content-Disposition": {"schema": {"type": "string"}}}
    return success


def _refusal(found: Sequence[str], codes: Mapping[str, ErrorCode]) -> dict[str, Any]:
    told = "; ".join(f"`{code}`: {codes[code].title}" for code in found)
    schema = {"allOf": [ref("Problem"), {"properties": {"code": {"enum": list(found)}}}]}
    return {"description": told, "content": {PROBLEM_TYPE: {"schema": schema}}}


def _every_code(codes: Mapping[str, ErrorCode]) -> Schema:
    """Return every code there is: those of answers, and those that are only recorded on a job."""
    return {
        "type": "string",
        "enum": list(codes),
        "description": "\n".join(f"`{row.code}` ({row.status or 'on a job'}): {row.title}" for row in codes.values()),
    }
