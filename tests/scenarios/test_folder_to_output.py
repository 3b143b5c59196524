"""Stories of one service: files dropped or sent, collected, refused, retried; starts and stops."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bulksigner.testing.certificates import Authority
from bulksigner.testing.files import cnab240_file, pdf_file, text_file, xml_file
from bulksigner.testing.served import ServedService
from bulksigner.testing.verify import (
    Verdict,
    verify_cms_with_openssl,
    verify_pdf_with_pyhanko,
    verify_xml_with_xmlsec1,
)

LIMIT_SECONDS = 30.0
ENDED = ("Completed", "Failed")
DOCTYPE = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'


def wait_for(service: ServedService, count: int) -> list[dict[str, Any]]:
    """Wait until so many jobs have ended, and return all jobs, newest first."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        jobs = service.jobs()
        if len(jobs) >= count and all(job["status"] in ENDED for job in jobs):
            return jobs
        assert time.monotonic() < deadline, f"{jobs}\n{service.last_lines()}"
        time.sleep(0.05)


def drop(service: ServedService, name: str, content: bytes) -> Path:
    path = service.root / "inbox" / name
    path.write_bytes(content)
    return path


def verify_everywhere(path: Path, roots: list[bytes], require_tool: Callable[..., str]) -> list[Verdict]:
    """Ask the outside verifiers that know the kind of file."""
    if path.suffix == ".pdf":
        # The default is the national policy, whose PDF signatures poppler does not judge (ICP-10).
        return [verify_pdf_with_pyhanko(path, roots)]
    if path.suffix == ".xml":
        require_tool("xmlsec1", "xmlsec1")
        return [verify_xml_with_xmlsec1(path, roots)]
    require_tool("openssl", "openssl")
    return [verify_cms_with_openssl(path, roots)]


FILES = {
    "contrato.pdf": ("contrato.signed.pdf", pdf_file(pages=2)),
    "nota.xml": ("nota.signed.xml", xml_file(items=2)),
    "pagamentos.rem": ("pagamentos.rem.p7m", cnab240_file(payments=3)),
    "declaração.txt": ("declaração.txt.p7m", text_file()),
}


def test_each_format_from_the_folder_to_the_output(
    serve: Callable[..., ServedService], authority: Authority, require_tool: Callable[..., str]
) -> None:
    """BEY-01: what is dropped leaves signed, verified by the tools of others, and the input is gone."""
    service = serve()
    inputs = [drop(service, name, content) for name, (_, content) in FILES.items()]
    jobs = wait_for(service, len(FILES))
    assert {job["fileName"]: job["status"] for job in jobs} == dict.fromkeys(FILES, "Completed")
    assert not any(path.exists() for path in inputs)
    assert {path.name for path in service.output.iterdir()} == {name for name, _ in FILES.values()}
    for path in service.output.iterdir():
        for verdict in verify_everywhere(path, [authority.root_der], require_tool):
            assert verdict, verdict.output


def test_each_format_over_http(
    serve: Callable[..., ServedService],
    authority: Authority,
    require_tool: Callable[..., str],
    tmp_path: Path,
) -> None:
    """API-55, PIPE-54: what is sent is downloaded signed under the name the client gave it."""
    service = serve()
    with service.client() as client:
        for name, (_, content) in FILES.items():
            sent = client.post("/api/files", files={"file": (name, content)})
            assert sent.status_code == 202, sent.text
        for job in wait_for(service, len(FILES)):
            answer = client.get(f"/api/jobs/{job['id']}/output")
            assert answer.status_code == 200, answer.text
            path = tmp_path / FILES[job["fileName"]][0]
            path.write_bytes(answer.content)
            for verdict in verify_everywhere(path, [authority.root_der], require_tool):
                assert verdict, verdict.output
    assert not list((service.root / "inbox").iterdir())


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("no.pdf", b"this is no PDF at all", {}),
        ("entities.xml", DOCTYPE, {}),
        ("contract.pdf", pdf_file(pages=1), {"Signing:Profiles:0:Format": "Xades"}),
    ],
    ids=["not a PDF", "XML with a DOCTYPE", "a profile of another format"],
)
def test_what_cannot_be_signed_fails_and_waits_for_a_person(
    serve: Callable[..., ServedService], name: str, content: bytes, settings: Mapping[str, object]
) -> None:
    """PIPE-86, PIPE-44, PIPE-99: kept under error/, left in place, not taken again after a restart, only by retry."""
    service = serve(settings)
    path = drop(service, name, content)
    [job] = wait_for(service, 1)
    assert (job["status"], job["errorCode"]) == ("Failed", "sign.failed"), job
    assert [kept.name for kept in (service.data / "error" / job["id"]).iterdir()] == [name]
    assert path.read_bytes() == content
    assert service.stop() == 0
    service.start()
    time.sleep(1.0)
    assert [again["id"] for again in service.jobs()] == [job["id"]]
    with service.client() as client:
        assert client.post(f"/api/jobs/{job['id']}/retry").status_code == 200
    newest, oldest = wait_for(service, 2)
    assert (newest["source"], newest["parentJobId"], oldest["id"]) == ("Retry", job["id"], job["id"])
    assert newest["status"] == "Failed"
    assert not list(service.output.iterdir())
    assert not list((service.data / "processing").iterdir())


def test_a_retry_signs_once_the_cause_is_mended(serve: Callable[..., ServedService]) -> None:
    """PIPE-99: the input was mended in place; the retry takes it as it is now."""
    service = serve()
    path = drop(service, "contract.pdf", b"%PDF-1.7 cut short")
    [failed] = wait_for(service, 1)
    path.write_bytes(pdf_file(pages=1))
    with service.client() as client:
        assert client.post(f"/api/jobs/{failed['id']}/retry").status_code == 200
    newest, _ = wait_for(service, 2)
    assert newest["status"] == "Completed", newest
    assert [output.name for output in service.output.iterdir()] == ["contract.signed.pdf"]


def test_a_taken_output_name_is_never_overwritten(serve: Callable[..., ServedService]) -> None:
    """PIPE-82: the job fails, the file of that name and the input stay as they are."""
    service = serve()
    earlier = service.output / "contract.signed.pdf"
    earlier.write_bytes(b"the output of last week")
    path = drop(service, "contract.pdf", pdf_file(pages=1))
    [job] = wait_for(service, 1)
    assert (job["status"], job["errorCode"]) == ("Failed", "promote.output-exists")
    assert earlier.read_bytes() == b"the output of last week"
    assert path.exists()


def test_a_stop_drains_and_the_next_start_goes_on(serve: Callable[..., ServedService]) -> None:
    """CLU-04, OPS-21, OPS-24: jobs under way end, the others wait queued; nothing is left for recovery."""
    service = serve()
    for number in range(60):
        drop(service, f"{number}.txt", text_file(size_bytes=20_000, seed=number))
    deadline = time.monotonic() + LIMIT_SECONDS
    while not list(service.output.iterdir()):
        assert time.monotonic() < deadline, service.last_lines()
        time.sleep(0.01)
    assert service.stop() == 0
    assert not list((service.data / "processing").iterdir())
    assert "Service stopped" in service.last_lines()
    service.start()
    jobs = wait_for(service, 60)
    assert {job["status"] for job in jobs} == {"Completed"}
    assert len(list(service.output.iterdir())) == 60


def run_to_its_end(service: ServedService) -> tuple[int, str]:
    """Start a service that refuses, and return its exit code and what it printed."""
    service.start(wait=False)
    process: subprocess.Popen[bytes] = service.process  # type: ignore[assignment]  # it was just started
    code = process.wait(LIMIT_SECONDS)
    return code, service.last_lines()


def test_a_second_service_on_the_same_data_is_refused(serve: Callable[..., ServedService]) -> None:
    """OPS-23, OPS-60: exit 75, naming the process that has the folder; the first one is not disturbed."""
    first = serve()
    second = ServedService(first.root, first.settings)
    code, printed = run_to_its_end(second)
    assert code == 75
    assert f"process {first.process.pid}" in printed  # type: ignore[union-attr]  # it runs
    first.wait_ready()


def test_an_address_in_use_is_refused(serve: Callable[..., ServedService], tmp_path: Path) -> None:
    """OPS-58: exit 71, naming the address and the variable; nothing is left locked."""
    first = serve()
    moved = {key: value for key, value in first.settings.items() if key != "Storage:Inputs:0:Path"}
    second = ServedService(
        tmp_path / "other", {**moved, "Storage:Inputs:0:Path": tmp_path / "other" / "inbox"}, port=first.port
    )
    (tmp_path / "other" / "inbox").mkdir(parents=True)
    code, printed = run_to_its_end(second)
    assert code == 71
    assert f"127.0.0.1:{first.port}" in printed
    assert "BULK_SIGNER_URLS" in printed


def test_bad_settings_are_refused_all_at_once(serve: Callable[..., ServedService]) -> None:
    """CFG-12, OPS-30: exit 78, each wrong key named with its variable, nothing created."""
    service = serve({"Auth:ApiKey": "short", "Pipeline:MaxConcurrency": 0, "Hosting:Threads": "many"}, start=False)
    code, printed = run_to_its_end(service)
    assert code == 78
    for variable in ("Auth__ApiKey", "Pipeline__MaxConcurrency", "Hosting__Threads"):
        assert variable in printed
    assert not service.data.exists()
