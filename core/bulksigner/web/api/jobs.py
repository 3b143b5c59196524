"""Jobs: list, detail, signed output, retry, cancel, clear (API-24 to API-26, API-29, API-30, API-32)."""

from __future__ import annotations

import re

import falcon

from bulksigner.contract.errors import NotAllowed
from bulksigner.jobs.model import Job
from bulksigner.jobs.states import JobStatus
from bulksigner.web.bodies import read_text
from bulksigner.web.guards import person_of
from bulksigner.web.outputs import disposition, open_output
from bulksigner.web.problems import InvalidRequest, no_such_job
from bulksigner.web.query import (
    DEFAULT_PAGE_SIZE,
    FILTER_INVALID,
    MAX_PAGE,
    MAX_PAGE_SIZE,
    read_number,
    read_single,
)
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json, job_members, wire_time

__all__ = ["cancel", "clear", "list_page", "retry", "send_output", "show"]

_STATUSES = {status.value: status for status in JobStatus}
# Filters of the workbook export (API-66). Left unread they would widen the answer, so they are refused.
_NOT_OFFERED = ("fileName", "from", "to")
_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def list_page(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """List jobs, newest first, by status and profile (API-57, API-58)."""
    for name in _NOT_OFFERED:
        if request.has_param(name):
            raise InvalidRequest(name, "is not a filter of this list", code=FILTER_INVALID)
    status = read_single(request, "status")
    if status is not None and status not in _STATUSES:
        raise InvalidRequest("status", f"must be one of {', '.join(_STATUSES)}", code=FILTER_INVALID)
    profile = read_single(request, "profile")
    if profile is not None and not profile.strip():
        raise InvalidRequest("profile", "must not be blank", code=FILTER_INVALID)
    page = read_number(request, "page", default=1, highest=MAX_PAGE)
    page_size = min(read_number(request, "pageSize", default=DEFAULT_PAGE_SIZE), MAX_PAGE_SIZE)
    found = services.find_page(
        status=None if status is None else _STATUSES[status], profile=profile, page=page, page_size=page_size
    )
    response.data = dump_json(
        {
            "items": [job_members(job) for job in found.items],
            "page": page,
            "pageSize": page_size,
            "totalCount": found.total_count,
        }
    )


def show(services: WebServices, _: falcon.Request, response: falcon.Response, *, id: str) -> None:
    """Show one job with its timeline, oldest line first (API-59)."""
    job = _find(services, id)
    history = [
        {"id": entry.id, "timestamp": wire_time(entry.at), "status": entry.status.value, "message": entry.message}
        for entry in services.read_history(job.id)
    ]
    response.data = dump_json(
        {
            **job_members(job),
            "outputEncrypted": job.output_encrypted,
            "inputFolder": job.input_folder,
            "metadata": dict(job.metadata),
            "history": history,
            "cnab240": None,
            "approval": None,
        }
    )


def send_output(services: WebServices, _: falcon.Request, response: falcon.Response, *, id: str) -> None:
    """Stream the signed file of a completed job (API-64)."""
    job = _find(services, id)
    if job.status is not JobStatus.COMPLETED:
        raise NotAllowed(
            f"Job {job.id} is {job.status.value}; only a completed job has a signed output.",
            code="job.output-unavailable",
        )
    output = open_output(services.output_root, job)
    response.stream = output.stream
    response.content_length = output.length
    response.content_type = output.media_type
    response.set_header("Content-Disposition", disposition(output.name))


def retry(services: WebServices, request: falcon.Request, response: falcon.Response, *, id: str) -> None:
    """Queue the input of a failed job again, as a new job (PIPE-99)."""
    parent = _find(services, id)
    child = services.retry(parent.id, person_of(request)).job
    response.data = dump_json({"newJobId": child.id, "parentJobId": child.parent_job_id, "status": child.status.value})


def cancel(services: WebServices, request: falcon.Request, response: falcon.Response, *, id: str) -> None:
    """End a job that waits, with an optional reason (API-63)."""
    job = _find(services, id)
    changed = services.cancel(job.id, person_of(request), read_text(request, "reason"))
    response.data = dump_json(job_members(changed.job))


def clear(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Remove every job with its files, and the events up to now (API-67)."""
    cleared = services.clear(person_of(request))
    response.data = dump_json(
        {
            "deleted": cleared.jobs,
            "filesDeleted": cleared.files,
            "foldersDeleted": cleared.folders,
            "eventsDeleted": cleared.events,
            "itemsFailed": cleared.items_failed,
            "message": f"Cleared {cleared.counts}.",
        }
    )


def _find(services: WebServices, job_id: str) -> Job:
    wanted = job_id.lower()
    job = services.find_job(wanted) if _GUID.fullmatch(wanted) else None
    if job is None:
        raise no_such_job(job_id)
    return job
