"""Errors as RFC 9457 problem documents (API-03 to API-05)."""

from __future__ import annotations

import http
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import falcon

from bulksigner.contract.codes import CODES, ErrorCode
from bulksigner.contract.errors import NotFound, Refusal
from bulksigner.files.durable import is_disk_full
from bulksigner.observability.logs import facts
from bulksigner.records.errors import StoreFailed
from bulksigner.web.wire import SECURITY_HEADERS, RequestIds, dump_json

__all__ = ["InvalidRequest", "Problem", "Problems", "answer_before_app", "no_such_job"]

WWW_AUTHENTICATE = ("WWW-Authenticate", 'ApiKey realm="bulksigner"')
TYPE_PREFIX = "urn:bulksigner:problem:"
_log = logging.getLogger("bulksigner.web")


class InvalidRequest(Refusal):
    """Refuse a request because of named fields; `errors` is shown in every environment, unlike the message."""

    def __init__(self, field: str, problem: str, *, code: str = "request.invalid") -> None:
        super().__init__(f"{field}: {problem}", code=code)
        self.errors: Mapping[str, Sequence[str]] = {field: (problem,)}


@attrs.frozen
class Problem:
    """One error answer before the environment decides how much of it is shown."""

    status: int
    code: str
    title: str
    detail: str | None = None
    errors: Mapping[str, Sequence[str]] | None = None

    def document(self, ids: RequestIds, *, instance: str, is_verbose: bool) -> dict[str, object]:
        """Return the members of the document; only a verbose one has `detail` and `instance` (API-04)."""
        members: dict[str, object] = {
            "type": f"{TYPE_PREFIX}{self.code}",
            "title": self.title,
            "status": self.status,
        }
        if is_verbose:
            if self.detail is not None:
                members["detail"] = self.detail
            members["instance"] = instance
        members |= {"code": self.code, "traceId": ids.trace_id, "requestId": ids.request_id}
        if self.errors:
            members["errors"] = self.errors
        return members


class Problems:
    """Turns whatever a route raises into its problem document, and logs it with the ids of the request."""

    def __init__(self, codes: Mapping[str, ErrorCode], *, environment: str, scrub: Callable[[str], str] = str) -> None:
        self._codes = codes
        self._scrub = scrub
        self._is_verbose = environment.lower() == "development"

    def install(self, app: falcon.App[Any, Any]) -> None:
        """Register with the app for every kind of error."""
        app.add_error_handler(Exception, self._answer_unexpected)
        app.add_error_handler(falcon.HTTPError, self._answer_framework)
        app.add_error_handler(Refusal, self._answer_refusal)
        app.add_error_handler(StoreFailed, self._answer_store_failed)

    def _answer_refusal(
        self, request: falcon.Request, response: falcon.Response, refusal: Refusal, _: dict[str, object]
    ) -> None:
        code = refusal.code or Refusal.default_code
        row = self._codes.get(code)
        own: Mapping[str, int] = request.context.statuses
        status = own.get(code, row.status if row is not None else None)
        if row is None or status is None:
            # A code that is only ever recorded on a job must not leak out as an answer (API-76).
            self._answer_unexpected(request, response, refusal, _)
            return
        errors = refusal.errors if isinstance(refusal, InvalidRequest) else None
        if status >= 500:
            _log.error("Request failed: %s", refusal.message, extra=facts(method=request.method, path=request.path))
        if status == 401:
            response.set_header(*WWW_AUTHENTICATE)
        self._send(request, response, Problem(status, code, row.title, refusal.message, errors))

    def _answer_framework(
        self, request: falcon.Request, response: falcon.Response, error: falcon.HTTPError, _: dict[str, object]
    ) -> None:
        if error.status_code >= 500:
            self._answer_unexpected(request, response, error, _)
            return
        status = error.status_code if error.status_code in (404, 405) else 400
        if error.headers:
            response.set_headers(error.headers)
        row = self._codes["request.invalid"]
        self._send(request, response, Problem(status, row.code, row.title, error.description or error.title))

    def _answer_unexpected(
        self, request: falcon.Request, response: falcon.Response, error: Exception, _: dict[str, object]
    ) -> None:
        self._send_internal(request, response, error, trace=True)

    def _answer_store_failed(
        self, request: falcon.Request, response: falcon.Response, error: StoreFailed, _: dict[str, object]
    ) -> None:
        # Without its trace: while a database is away every request ends like this.
        self._send_internal(request, response, error, trace=False)

    def _send_internal(
        self, request: falcon.Request, response: falcon.Response, error: Exception, *, trace: bool
    ) -> None:
        row = self._codes["internal"]
        where = facts(method=request.method, path=request.path)
        if is_disk_full(error):
            # A fault of the host, whose place is in the text; a traceback would tell an operator nothing more.
            _log.error("Request failed: the disk is full, free space on it: %s", error, extra=where)
            detail = "The disk of the service is full; nothing was kept of the request. Send it again later."
        else:
            _log.error("Request failed: %s", error, exc_info=error if trace else None, extra=where)
            detail = f"{type(error).__name__}; see the log"
        self._send(request, response, Problem(500, row.code, row.title, detail))

    def _send(self, request: falcon.Request, response: falcon.Response, problem: Problem) -> None:
        if problem.detail is not None:
            problem = attrs.evolve(problem, detail=self._scrub(problem.detail))
        if problem.status < 500:
            _log.info(
                "Request refused: %s",
                problem.detail,
                extra=facts(method=request.method, path=request.path, status=problem.status, code=problem.code),
            )
        ids: RequestIds = request.context.ids
        response.status = problem.status
        response.stream = None
        response.content_type = "application/problem+json"
        response.data = dump_json(
            problem.document(ids, instance=self._scrub(request.path), is_verbose=self._is_verbose)
        )


def answer_before_app(status: int, reason: str, *, code: str | None = None) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return status line, headers and body for a request that the server refuses before the app sees it (API-05)."""
    ids = RequestIds.of(None)
    code = code or {413: "upload.too-large", 500: "internal"}.get(status, "request.invalid")
    row = CODES[code]
    _log.info("Request refused by the server: %s", reason, extra=facts(status=status, code=code, **attrs.asdict(ids)))
    body = dump_json(Problem(status, code, row.title).document(ids, instance="", is_verbose=False))
    headers = [("Content-Type", "application/problem+json"), *SECURITY_HEADERS]
    if status == 401:
        headers.append(WWW_AUTHENTICATE)
    return f"{status} {http.HTTPStatus(status).phrase}", headers, body


def no_such_job(job_id: str) -> NotFound:
    """Return the refusal of an unknown job id."""
    return NotFound(f"There is no job {job_id}.", code="job.not-found")
