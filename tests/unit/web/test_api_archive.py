"""The archive of signed files (API-65)."""

from __future__ import annotations

import datetime
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from falcon.testing import TestClient

from bulksigner.jobs.states import JobStatus
from bulksigner.web.archive import Archive, Entry
from bulksigner.web.outputs import OpenedOutput

Building = Callable[..., Any]
START = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)


@pytest.fixture
def signed(service: Any, new_job: Building, tmp_path: Path) -> Callable[..., str]:
    """Add a completed job; `content` None leaves its file out."""

    def act(number: int, name: str, content: bytes | None = b"signed", folder: str = ".") -> str:
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        if content is not None:
            path.write_bytes(content)
        job = new_job(
            number,
            status=JobStatus.COMPLETED,
            output_path=str(path),
            created_at=START + datetime.timedelta(seconds=number),
        )
        return str(service.add(job).id)

    return act


def unpack(client: TestClient, *ids: str) -> dict[str, bytes]:
    answer = client.simulate_get("/api/jobs/archive", query_string="&".join(f"id={one}" for one in ids))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_files_are_whole_and_stored(client: TestClient, signed: Any) -> None:
    """API-65: entries under their output names, not compressed; duplicates collapse, in any case of the id."""
    content = os.urandom(600_000)
    one, two = signed(1, "folha.signed.pdf", content), signed(2, "ç ã.signed.pdf", b"")
    assert unpack(client, one, two, one, two.upper()) == {"folha.signed.pdf": content, "ç ã.signed.pdf": b""}


def test_the_name_of_the_archive_is_a_time(client: TestClient, signed: Any) -> None:
    """API-65: `bulksigner-signed-yyyyMMdd-HHmmss.zip` in UTC."""
    answer = client.simulate_get("/api/jobs/archive", query_string=f"id={signed(1, 'a.pdf')}")
    name = answer.headers["content-disposition"].partition('filename="')[2].partition('"')[0]
    made = datetime.datetime.strptime(name, "bulksigner-signed-%Y%m%d-%H%M%S.zip").replace(tzinfo=datetime.UTC)
    assert abs(datetime.datetime.now(datetime.UTC) - made) < datetime.timedelta(minutes=1)


def test_the_newer_of_two_names_gets_its_id(client: TestClient, signed: Any) -> None:
    """API-65: before the extension, whatever the order that was asked for, and in any case of the name."""
    new, old = signed(2, "A.signed.pdf", b"new", "x"), signed(1, "a.signed.pdf", b"old", "y")
    assert unpack(client, new, old) == {f"A.signed-{new}.pdf": b"new", "a.signed.pdf": b"old"}


def test_what_is_missing_is_listed(client: TestClient, signed: Any) -> None:
    """API-65: job id and expected name in MISSING.txt; the others are sent."""
    there, gone = signed(1, "a.pdf"), signed(2, "b.pdf", None)
    assert unpack(client, there, gone) == {"a.pdf": b"signed", "MISSING.txt": f"{gone} b.pdf\r\n".encode()}


def test_when_all_are_missing_there_is_no_archive(client: TestClient, signed: Any) -> None:
    """API-65: 410 only when none exists."""
    ids = [signed(number, f"{number}.pdf", None) for number in (1, 2)]
    answer = client.simulate_get("/api/jobs/archive", query_string=f"id={ids[0]}&id={ids[1]}")
    assert (answer.status_code, answer.json["code"]) == (410, "job.output-gone")


def test_one_refusal_comes_before_any_byte(client: TestClient, signed: Any, service: Any, new_job: Building) -> None:
    """API-65: an unknown or unfinished job among finished ones is a problem document and no file stays open."""
    done, open_job = signed(1, "a.pdf"), service.add(new_job(2))
    for other, status in ((open_job.id, 409), ("0f8fad5b-d9cb-469f-a165-000000000099", 404)):
        answer = client.simulate_get("/api/jobs/archive", query_string=f"id={done}&id={other}")
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(("count", "status"), [(50, 404), (51, 400)])
def test_fifty_distinct_jobs_are_the_most(client: TestClient, count: int, status: int) -> None:
    """API-65: the 51st distinct id is refused before any is looked up."""
    ids = [f"0f8fad5b-d9cb-469f-a165-{number:012}" for number in range(count)]
    answer = client.simulate_get("/api/jobs/archive", query_string="&".join(f"id={one}" for one in [*ids, *ids]))
    assert answer.status_code == status


def test_a_file_that_is_cut_short_ends_the_archive(tmp_path: Path) -> None:
    """API-65: a read error aborts, so that half an archive does not look whole; every file is closed after it."""
    path = tmp_path / "a.pdf"
    path.write_bytes(b"x" * 10)
    output = OpenedOutput(path.open("rb"), 11, "a.pdf")
    archive = Archive([Entry("a.pdf", output)], [])
    with pytest.raises(Exception, match=r"a\.pdf was cut short"):
        b"".join(archive)
    archive.close()
    assert output.stream.closed


def test_head_opens_no_file_for_long(client: TestClient, signed: Any) -> None:
    """API-27: HEAD answers like GET without a body; a file that stayed open would warn, and a warning is an error."""
    answer = client.simulate_head("/api/jobs/archive", query_string=f"id={signed(1, 'a.pdf')}")
    assert (answer.status_code, answer.content) == (200, b"")
