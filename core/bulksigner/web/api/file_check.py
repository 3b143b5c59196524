"""The check of a file before it is sent (API-103, BEY-10)."""

from __future__ import annotations

import falcon

from bulksigner.contract.errors import Refusal
from bulksigner.operations.file_check import report_members
from bulksigner.web.api.files import read_query
from bulksigner.web.multipart import read_upload, too_large
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json

__all__ = ["check"]


def check(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Tell whether a file would be signed under a profile, with every finding; nothing of it is kept."""
    declared = request.content_length
    if declared is not None and declared > services.max_upload_bytes:
        raise too_large(services.max_upload_bytes)
    form = read_upload(request, read_query(request), max_bytes=services.max_upload_bytes)
    try:
        report = services.check_file(
            form.stream,
            file_name=form.file_name,
            profile=form.values.get("profile"),
            format=form.values.get("format"),
        )
    except Refusal as refusal:
        raise form.name_fault(refusal) from refusal
    response.data = dump_json(report_members(report))
