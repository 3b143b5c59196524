"""The export of jobs as a workbook (API-66)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from falcon.testing import TestClient

from bulksigner.jobs.listing import JobFilter
from bulksigner.jobs.states import JobStatus
from bulksigner.web.api import export

Building = Callable[..., Any]


def sheet_of(answer: Any) -> list[list[Any]]:
    assert answer.status_code == 200
    assert answer.headers["content-type"] == export.MEDIA_TYPE
    assert int(answer.headers["content-length"]) == len(answer.content)
    book = openpyxl.load_workbook(io.BytesIO(answer.content))
    return [[cell.value for cell in row] for row in book["Jobs"].iter_rows()]


def test_a_row_a_job_below_the_title(client: TestClient, service: Any, new_job: Building, tmp_path: Path) -> None:
    """API-66: who, when, filters and count; then the columns, with times as times; nothing stays in the work folder."""
    service.add(new_job(1, status=JobStatus.FAILED, error_message="sign.failed: no", input_folder="in"))
    answer = client.simulate_get("/api/jobs/export", query_string="status=Failed&fileName=fol")
    rows = sheet_of(answer)
    assert rows[0][0] == "Jobs"
    assert re.fullmatch(r"Exported by operator at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", rows[1][0])
    assert [row[0] for row in rows[2:4]] == ["Filters: status=Failed, fileName=fol", "Matching jobs: 7"]
    assert rows[5][:5] == ["File name", "Format", "Profile", "Source", "Status"]
    assert rows[5][5:] == [
        "Created (UTC)",
        "Updated (UTC)",
        "Input folder",
        "Original path",
        "CNAB240 total",
        "CNAB240 payments",
        "Encrypted",
        "Error",
        "Parent id",
        "Id",
    ]
    assert rows[6][:5] == ["folha.pdf", "Pades", "default", "Upload", "Failed"]
    assert f"{rows[6][5]:%Y-%m-%d %H:%M:%S}" == "2026-05-26 15:42:11"
    assert rows[6][7:] == [
        "in", "/in/folha.pdf", None, None, "no", "sign.failed: no", None, "0f8fad5b-d9cb-469f-a165-000000000001"
    ]  # fmt: skip
    assert service.asked == [("each", JobFilter(JobStatus.FAILED, file_name="fol"), 10_000)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("begin", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "http://x", "{=1}", "a\udcffb", ""])
def test_a_text_is_never_a_formula(client: TestClient, service: Any, new_job: Building, begin: str) -> None:
    """SEC-42: what begins like one is stored as text, and no text is made a link or breaks the file."""
    service.add(new_job(1, file_name=begin, input_folder="=2"))
    book = openpyxl.load_workbook(io.BytesIO(client.simulate_get("/api/jobs/export").content))
    cell = book["Jobs"].cell(7, 1)
    assert cell.data_type in ("s", "n", "inlineStr")
    assert cell.data_type != "f"
    assert cell.hyperlink is None
    assert book["Jobs"].cell(7, 8).data_type == "s"
    if begin.isprintable():
        assert (cell.value or "") == begin


def test_a_text_longer_than_a_cell_is_cut(client: TestClient, service: Any, new_job: Building) -> None:
    """API-66: an error text of any length leaves a workbook that opens."""
    service.add(new_job(1, error_message="x" * 40_000))
    assert len(sheet_of(client.simulate_get("/api/jobs/export"))[6][12]) == 32_767


def test_a_capped_export_says_so(
    client: TestClient, service: Any, new_job: Building, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-66: a red line in the title tells that there are more; 7 match here and 2 are shown."""
    monkeypatch.setattr(export, "MOST_ROWS", 2)
    for number in range(3):
        service.add(new_job(number))
    rows = sheet_of(client.simulate_get("/api/jobs/export"))
    assert rows[4][0] == "Only the newest 2 are shown; narrow the filters to see the others."
    assert len(rows) == 9


def test_the_name_is_a_time(client: TestClient) -> None:
    """API-66: `jobs-yyyyMMdd-HHmmss.xlsx`."""
    disposition = client.simulate_get("/api/jobs/export").headers["content-disposition"]
    assert re.search(r'filename="jobs-\d{8}-\d{6}\.xlsx"', disposition)


@pytest.mark.parametrize("query", ["from=2026-01-02&to=2026-01-01", "status=x", "page", "from=1.1.2026", "profile="])
def test_a_bad_filter_exports_nothing(client: TestClient, service: Any, query: str) -> None:
    """API-66: 400 `validation.filter-invalid`; a parameter that is none of the export's is ignored."""
    answer = client.simulate_get("/api/jobs/export", query_string=query)
    if query == "page":
        assert answer.status_code == 200
        return
    assert (answer.status_code, answer.json["code"]) == (400, "validation.filter-invalid")
    assert service.asked == []


def test_a_workbook_that_fails_leaves_nothing(make_client: Building, tmp_path: Path) -> None:
    """API-66: a database that goes away half way is a 500, and no part of the file stays."""

    def fail(*_: object, **__: object) -> Any:
        raise OSError("away")

    assert make_client(each_job=fail).simulate_get("/api/jobs/export").status_code == 500
    assert list(tmp_path.iterdir()) == []
