"""Jobs: list, detail, signed output, retry, cancel, clear (API-24 to API-26, API-29, API-30, API-32)."""

from __future__ import annotations

import datetime
import re

import falcon

from bulksigner.contract.errors import NotAllowed
from bulksigner.jobs.listing import JobFilter
from bulksigner.jobs.model import Job
from bulksigner.jobs.states import JobStatus
from bulksigner.web.bodies import REASON
from bulksigner.web.guards import person_of
from bulksigner.web.outputs import disposition, open_output
from bulksigner.web.paging import PAGE, PAGE_SIZE
from bulksigner.web.parameters import Choice, Day, Text, refuse_inverted
from bulksigner.web.problems import no_such_job
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json, is_encrypted, job_members, wire_time

__all__ = [
    "FILTERS",
    "LIST_QUERY",
    "cancel",
    "clear",
    "find_output",
    "is_id",
    "list_page",
    "read_filter",
    "retry",
    "send_output",
    "show",
]

_STATUS = Choice("status", "Only jobs of this status.", {status.value: status for status in JobStatus})
_PROFILE = Text("profile", "Only jobs of this signing profile.")
_FILE_NAME = Text("fileName", "Only jobs whose file name has this text, in any case.")
_FROM = Day("from", "Only jobs created on this day (UTC) or later.")
_TO = Day("to", "Only jobs created on this day (UTC) or earlier.")
FILTERS = (_STATUS, _PROFILE, _FILE_NAME, _FROM, _TO)
LIST_QUERY = (*FILTERS, PAGE, PAGE_SIZE)

_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def read_filter(request: falcon.Request) -> JobFilter:
    """Return which jobs are asked for; days are whole ones of UTC, both ends included (API-66)."""
    first, last = _FROM.read(request), _TO.read(request)
    refuse_inverted(first, last, _TO.name)
    return JobFilter(
        status=_STATUS.read(request),
        profile=_PROFILE.read(request),
        file_name=_FILE_NAME.read(request),
        since=None if first is None else _midnight(first),
        # The last day of the calendar has no end to compare with.
        until=None if last is None or last == datetime.date.max else _midnight(last + datetime.timedelta(days=1)),
    )


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)


def list_page(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """List jobs, newest first (API-57, API-58)."""
    wanted, page, page_size = read_filter(request), PAGE.read(request), PAGE_SIZE.read(request)
    found = services.find_page(wanted, page=page, page_size=page_size)
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
            "outputEncrypted": is_encrypted(job),
            "inputFolder": job.input_folder,
            "metadata": dict(job.metadata),
            "history": history,
            "cnab240": None,
            "approval": None,
        }
    )


def send_output(services: WebServices, _: falcon.Request, response: falcon.Response, *, id: str) -> None:
    """Stream the signed file of a completed job (API-64)."""
    job = find_output(services, id)
    output = open_output(services.output_root, job, services.name_output(job))
    response.stream = output.stream
    response.content_length = output.length
    response.content_type = output.media_type
    response.set_header("Content-Disposition", disposition(output.name))


def find_output(services: WebServices, job_id: str) -> Job:
    """Return the job whose signed file is asked for; raises `NotAllowed` unless it is completed."""
    job = _find(services, job_id)
    if job.status is not JobStatus.COMPLETED:
        raise NotAllowed(
            f"Job {job.id} is {job.status.value}; only a completed job has a signed output.",
            code="job.output-unavailable",
        )
    return job


def retry(services: WebServices, request: falcon.Request, response: falcon.Response, *, id: str) -> None:
    """Queue the input of a failed job again, as a new job (PIPE-99)."""
    parent = _find(services, id)
    child = services.retry(parent.id, person_of(request)).job
    response.data = dump_json({"newJobId": child.id, "parentJobId": child.parent_job_id, "status": child.status.value})


def cancel(services: WebServices, request: falcon.Request, response: falcon.Response, *, id: str) -> None:
    """End a job that waits, with an optional reason (API-63)."""
    job = _find(services, id)
    changed = services.cancel(job.id, person_of(request), REASON.read(request))
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


def is_id(text: str) -> bool:
    """Tell whether a text has the form of a job's id, in any case."""
    return _GUID.fullmatch(text.lower()) is not None


def _find(services: WebServices, job_id: str) -> Job:
    job = services.find_job(job_id.lower()) if is_id(job_id) else None
    if job is None:
        raise no_such_job(job_id)
    return job
