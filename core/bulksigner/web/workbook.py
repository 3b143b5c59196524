"""Jobs as a workbook (API-66), written row by row: what is in memory does not grow with the rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import xlsxwriter

from bulksigner.jobs.model import Job
from bulksigner.web.wire import is_encrypted

__all__ = ["Heading", "write_workbook"]

_CELL_LIMIT = 32_767
_COLUMNS = (
    ("File name", 40),
    ("Format", 8),
    ("Profile", 16),
    ("Source", 10),
    ("Status", 16),
    ("Created (UTC)", 20),
    ("Updated (UTC)", 20),
    ("Input folder", 16),
    ("Original path", 50),
    ("CNAB240 total", 16),
    ("CNAB240 payments", 16),
    ("Encrypted", 10),
    ("Error", 40),
    ("Parent id", 38),
    ("Id", 38),
)


@attrs.frozen
class Heading:
    """What stands above the rows."""

    actor: str
    at: datetime.datetime
    filters: str
    match_count: int
    row_limit: int


def write_workbook(target: BinaryIO, heading: Heading, jobs: Iterable[Job], scratch: Path) -> None:
    """Write the workbook; rows wait in `scratch` until all are there.

    Texts are stored as texts, so that a name that begins like a formula is none (SEC-42).
    """
    book = xlsxwriter.Workbook(target, {"constant_memory": True, "tmpdir": str(scratch)})
    bold, red = book.add_format({"bold": True}), book.add_format({"font_color": "red"})
    moment = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
    sheet = book.add_worksheet("Jobs")
    for number, (_, width) in enumerate(_COLUMNS):
        sheet.set_column(number, number, width)
    lines: list[tuple[str, Any]] = [
        ("Jobs", bold),
        (f"Exported by {heading.actor} at {heading.at.isoformat(timespec='seconds')}", None),
        (f"Filters: {heading.filters}", None),
        (f"Matching jobs: {heading.match_count}", None),
    ]
    if heading.match_count > heading.row_limit:
        lines.append((f"Only the newest {heading.row_limit} are shown; narrow the filters to see the others.", red))
    for row, (text, style) in enumerate(lines):
        sheet.write_string(row, 0, _text(text), style)
    row = len(lines) + 1
    for number, (title, _) in enumerate(_COLUMNS):
        sheet.write_string(row, number, title, bold)
    for job in jobs:
        row += 1
        _write_job(sheet, row, job, moment)
    book.close()


def _write_job(sheet: Any, row: int, job: Job, moment: Any) -> None:
    cells: tuple[str | datetime.datetime | None, ...] = (
        job.file_name,
        job.format.value,
        job.profile_name,
        job.source.value,
        job.status.value,
        job.created_at,
        job.updated_at,
        job.input_folder,
        job.original_path,
        None,
        None,
        "yes" if is_encrypted(job) else "no",
        job.error_message or job.error_code,
        job.parent_job_id,
        job.id,
    )
    for number, cell in enumerate(cells):
        if isinstance(cell, datetime.datetime):
            sheet.write_datetime(row, number, cell.astimezone(datetime.UTC).replace(tzinfo=None), moment)
        elif cell is not None:
            sheet.write_string(row, number, _text(cell))


def _text(text: str) -> str:
    """Return a text that a cell can hold: valid Unicode, and not longer than Excel allows."""
    return text.encode("utf-8", "replace").decode()[:_CELL_LIMIT]
