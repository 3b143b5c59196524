"""Uploads (API-23, API-54 to API-56)."""

from __future__ import annotations

import falcon

from bulksigner.contract.errors import NotAllowed, Refusal
from bulksigner.web.multipart import METADATA, METADATA_INVALID, read_upload, too_large
from bulksigner.web.parameters import Text
from bulksigner.web.problems import InvalidRequest
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json

__all__ = ["QUERY", "read_query", "receive"]

QUERY = (
    Text("profile", "Signing profile; wins over the form.", code="request.invalid", may_be_blank=True),
    Text("format", "Signature format; wins over the form.", code="request.invalid", may_be_blank=True),
)


def read_query(request: falcon.Request) -> dict[str, str]:
    """Return what the query says of the file."""
    given = ((parameter.name, parameter.read(request)) for parameter in QUERY)
    return {name: value.strip() for name, value in given if value is not None}


def receive(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Take one file in and queue it; the checks run in the order of API-55."""
    if not services.uploads_enabled:
        raise NotAllowed("Uploads are off (Upload:Enabled); use an input folder.", code="upload.disabled")
    declared = request.content_length
    if declared is not None and declared > services.max_upload_bytes:
        raise too_large(services.max_upload_bytes)
    if request.has_param(METADATA):
        raise InvalidRequest(METADATA, "is a field of the form, not of the query", code=METADATA_INVALID)
    form = read_upload(request, read_query(request), max_bytes=services.max_upload_bytes)
    try:
        job = services.receive_upload(
            form.stream,
            file_name=form.file_name,
            profile=form.values.get("profile") or None,
            format=form.values.get("format") or None,
            declared_length=declared,
            metadata=form.values.get(METADATA) or None,
        )
    except Refusal as refusal:
        raise form.name_fault(refusal) from refusal
    response.status = 202
    response.location = f"/api/jobs/{job.id}"
    response.data = dump_json(
        {
            "jobId": job.id,
            "fileName": job.file_name,
            "originalPath": job.original_path,
            "format": job.format.value,
            "status": job.status.value,
        }
    )
