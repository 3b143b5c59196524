"""The archive of signed files (API-27, API-65)."""

from __future__ import annotations

import logging
from pathlib import PurePath

import falcon

from bulksigner.contract.errors import NotAllowed, Refusal
from bulksigner.jobs.model import Job, utc_now
from bulksigner.observability.logs import facts
from bulksigner.web.api.jobs import find_output, is_id
from bulksigner.web.archive import Archive, Missing, name_entries
from bulksigner.web.guards import person_of
from bulksigner.web.outputs import OpenedOutput, disposition, open_output
from bulksigner.web.parameters import Texts
from bulksigner.web.problems import InvalidRequest
from bulksigner.web.query import FILTER_INVALID
from bulksigner.web.services import WebServices

__all__ = ["IDS", "MEDIA_TYPE", "send"]

MEDIA_TYPE = "application/zip"
MOST_JOBS = 50
IDS = Texts("id", f"A job; may be repeated, for up to {MOST_JOBS} jobs.")
_log = logging.getLogger("bulksigner.web")


def send(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Send the signed files of completed jobs as one ZIP; everything is refused before its first byte."""
    jobs = [find_output(services, job_id) for job_id in _read_ids(request)]
    found: list[tuple[Job, OpenedOutput]] = []
    missing: list[Missing] = []
    try:
        for job in jobs:
            try:
                found.append((job, open_output(services.output_root, job, services.name_output(job))))
            except NotAllowed:
                missing.append(Missing(job.id, PurePath(job.output_path or job.file_name).name))
        if not found:
            raise NotAllowed("None of these signed files is there any more.", code="job.output-gone")
        archive = Archive(name_entries(found), missing)
    except BaseException:
        for _, output in found:
            output.stream.close()
        raise
    response.stream = archive
    response.content_type = MEDIA_TYPE
    response.set_header("Content-Disposition", disposition(f"bulksigner-signed-{utc_now():%Y%m%d-%H%M%S}.zip"))
    _log.info(
        "Archive of %d signed file(s) sent",
        len(found),
        extra=facts(actor=person_of(request).name, missing=len(missing), method=request.method),
    )


def _read_ids(request: falcon.Request) -> list[str]:
    if not request.has_param(IDS.name):
        raise Refusal("Name the jobs: id=...&id=...", code="job.archive-empty")
    ids = list(dict.fromkeys(job_id.lower() for job_id in IDS.read(request)))
    if len(ids) > MOST_JOBS:
        raise Refusal(f"{len(ids)} jobs are named, {MOST_JOBS} are allowed.", code="job.archive-too-large")
    for job_id in ids:
        if not is_id(job_id):
            raise InvalidRequest(IDS.name, f"{job_id[:40]!r} is no id of a job", code=FILTER_INVALID)
    return ids
