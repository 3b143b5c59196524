"""Every route of the service, in one table: method, path, who may call it, what answers, and with which codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import attrs

from bulksigner.contract.codes import CODES
from bulksigner.web import pages
from bulksigner.web.api import auth, backup, cleanup, events, files, folders, health, jobs, pipeline
from bulksigner.web.guards import Policy
from bulksigner.web.limits import MAX_BODY_BYTES
from bulksigner.web.rate_limits import ROUTE_LIMITS, LimitName

__all__ = ["ROUTES", "Route"]


@attrs.frozen
class Route:
    """One row: `codes` are the refusals of the route's own, each with its HTTP status here (API-76)."""

    method: str
    path: str
    policy: Policy
    act: Callable[..., None]
    """Called with services, request, response, and the parameters of the path by name."""
    status: int
    codes: Mapping[str, int]
    summary: str
    max_body_bytes: int | None = MAX_BODY_BYTES
    """None where the handler itself measures the body."""

    @property
    def limit(self) -> LimitName | None:
        """Return the limit on how often one address may call it."""
        return ROUTE_LIMITS.get((self.method, self.path))


def _codes(*names: str, **others: int) -> Mapping[str, int]:
    statuses = {name: CODES[name].status or 500 for name in names}
    return MappingProxyType(statuses | others)


_PAUSING = _codes("validation.reason-too-long", "pipeline.race-lost", "pipeline.state-missing")

ROUTES = (
    Route("GET", "/api/health", Policy.ANONYMOUS, health.answer_health, 200, _codes(), "The process answers"),
    Route(
        "GET", "/api/ready", Policy.ANONYMOUS, health.show_verdict, 200, _codes(), "Verdict of each check; 503 if red"
    ),
    Route(
        "GET", "/api/ready/details", Policy.OPERATOR, health.show_details, 200, _codes(), "The same with each detail"
    ),
    Route(
        "POST",
        "/api/files",
        Policy.OPERATOR,
        files.receive,
        202,
        _codes(
            "upload.disabled",
            "upload.too-large",
            "profile.not-found",
            "profile.disabled",
            "upload.format-unsupported",
            "upload.empty",
            "upload.invalid-name",
            "upload.metadata-invalid",
            "file.already-processed",
            "job.path-too-long",
            "job.already-processing",
        ),
        "Take a file in and queue it",
        max_body_bytes=None,
    ),
    Route(
        "GET",
        "/api/jobs",
        Policy.OPERATOR,
        jobs.list_page,
        200,
        _codes("validation.filter-invalid"),
        "One page of jobs",
    ),
    Route("GET", "/api/jobs/{id}", Policy.OPERATOR, jobs.show, 200, _codes("job.not-found"), "A job and its timeline"),
    Route(
        "GET",
        "/api/jobs/{id}/output",
        Policy.OPERATOR,
        jobs.send_output,
        200,
        _codes("job.not-found", "job.output-unavailable", "job.output-gone"),
        "The signed file",
    ),
    Route(
        "POST",
        "/api/jobs/{id}/retry",
        Policy.OPERATOR,
        jobs.retry,
        200,
        # Here the path was accepted once, so its length is a conflict and not a bad request.
        _codes(
            "job.not-found",
            "job.not-failed",
            "job.rejected-not-retriable",
            "file.already-processed",
            "job.input-missing",
            "profile.disabled",
            "job.race-lost",
            **{"job.path-too-long": 409},
        ),
        "Queue a failed job's input again, as a new job",
    ),
    Route(
        "POST",
        "/api/jobs/{id}/cancel",
        Policy.OPERATOR,
        jobs.cancel,
        200,
        _codes("job.not-found", "job.not-queued", "job.race-lost", "validation.reason-too-long"),
        "End a job that waits; its input stays",
    ),
    Route(
        "DELETE",
        "/api/jobs",
        Policy.OPERATOR,
        jobs.clear,
        200,
        _codes(),
        "Remove every job with its files, and all events so far",
    ),
    Route(
        "GET",
        "/api/pipeline/state",
        Policy.OPERATOR,
        pipeline.show,
        200,
        _codes("pipeline.state-missing"),
        "Paused or not, and the jobs under way",
    ),
    Route("POST", "/api/pipeline/pause", Policy.OPERATOR, pipeline.pause, 200, _PAUSING, "Take up no more jobs"),
    Route("POST", "/api/pipeline/resume", Policy.OPERATOR, pipeline.resume, 200, _PAUSING, "Take up jobs again"),
    Route(
        "GET",
        "/api/events",
        Policy.OPERATOR,
        events.list_page,
        200,
        _codes("validation.filter-invalid"),
        "One page of operational events",
    ),
    Route(
        "GET",
        "/api/events/types",
        Policy.OPERATOR,
        events.list_types,
        200,
        _codes(),
        "The types of which there are events",
    ),
    Route(
        "POST",
        "/api/rescan",
        Policy.OPERATOR,
        folders.rescan,
        200,
        _codes("folder.not-found"),
        "Look through input folders",
    ),
    Route(
        "POST",
        "/api/cleanup",
        Policy.OPERATOR,
        cleanup.clean_up,
        200,
        _codes("retention.not-acknowledged", "retention.already-running"),
        'Apply the retention policy; with the body {"dryRun": true} preview it',
    ),
    Route("GET", "/api/backup", Policy.OPERATOR, backup.show, 200, _codes(), "Backups: settings, state, newest 50"),
    Route(
        "POST",
        "/api/backup",
        Policy.OPERATOR,
        backup.ask,
        202,
        _codes("backup.disabled", "backup.already-running"),
        "Make a backup of the database",
    ),
    Route(
        "POST",
        "/api/backup/cancel",
        Policy.OPERATOR,
        backup.cancel,
        202,
        _codes("backup.disabled", "backup.not-running"),
        "End the backup under way",
    ),
    Route(
        "POST",
        "/api/auth/login",
        Policy.ANONYMOUS,
        auth.sign_in,
        302,
        _codes("auth.csrf"),
        "Begin a browser session with the form fields `ApiKey` and `ReturnUrl`",
    ),
    Route(
        "POST", "/api/auth/logout", Policy.ANONYMOUS, auth.sign_out, 302, _codes("auth.csrf"), "End the browser session"
    ),
    Route("GET", "/api/auth/entra-login", Policy.ANONYMOUS, auth.go_to_login, 302, _codes(), "Go to `/login`"),
    Route("GET", "/api/whoami", Policy.OPERATOR, auth.who_am_i, 200, _codes(), "Who asks, and how it was proved"),
    Route("GET", "/login", Policy.ANONYMOUS, pages.show_login, 200, _codes(), "The page to sign in"),
    Route("GET", "/access-denied", Policy.ANONYMOUS, pages.show_access_denied, 200, _codes(), "What is missing"),
    Route("GET", pages.STYLE_PATH, Policy.ANONYMOUS, pages.send_style, 200, _codes(), "The style of these pages"),
)
