"""The export of jobs (API-28, API-66)."""

from __future__ import annotations

import tempfile

import falcon

from bulksigner.jobs.model import utc_now
from bulksigner.web.api.jobs import FILTERS, read_filter
from bulksigner.web.guards import person_of
from bulksigner.web.outputs import disposition
from bulksigner.web.services import WebServices
from bulksigner.web.workbook import Heading, write_workbook

__all__ = ["MEDIA_TYPE", "send"]

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MOST_ROWS = 10_000


def send(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Send the newest jobs that pass the filters as a workbook."""
    wanted, now = read_filter(request), utc_now()
    given = [f"{one.name}={value}" for one in FILTERS if (value := request.get_param(one.name)) is not None]
    heading = Heading(
        actor=person_of(request).name,
        at=now.astimezone(),
        filters=", ".join(given) or "none",
        match_count=services.find_page(wanted, page=1, page_size=1).total_count,
        row_limit=MOST_ROWS,
    )
    # Without a name from its first moment on, so that nothing of it is left whatever happens.
    target = tempfile.TemporaryFile(dir=services.scratch)  # noqa: SIM115 - it is closed when it was sent
    try:
        write_workbook(target, heading, services.each_job(wanted, limit=MOST_ROWS), services.scratch)
        response.content_length = target.tell()
        target.seek(0)
    except BaseException:
        target.close()
        raise
    response.stream = target
    response.content_type = MEDIA_TYPE
    response.set_header("Content-Disposition", disposition(f"jobs-{now:%Y%m%d-%H%M%S}.xlsx"))
