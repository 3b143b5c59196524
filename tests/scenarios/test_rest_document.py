"""A real service against its own OpenAPI document: a generated client, and a fuzzer that knows nothing else."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
import urllib.parse
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.openapi_client import Answer, GeneratedClient, form

from bulksigner.testing.postgres import PostgresServer
from bulksigner.testing.served import API_KEY, ServedService

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)


@pytest.fixture
def service(serve: Callable[..., ServedService], tmp_path: Path) -> ServedService:
    """A service with backups and a retention policy, so that every route has something to do."""
    (tmp_path / "backups").mkdir()
    return serve({"Backup:Enabled": "true", "Backup:Disk:Path": tmp_path / "backups", "Retention:Events:Days": 400})


@pytest.fixture
def generated(service: ServedService) -> Iterator[GeneratedClient]:
    """A client made of the document that the service serves."""
    with service.client() as http:

        def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
            given = http.request(method, target, headers=dict(headers), content=body)
            return Answer(given.status_code, given.headers, given.content)

        document = json.loads(http.get("/openapi/v1.json").raise_for_status().content)
        yield GeneratedClient(document, send)


def wait_completed(generated: GeneratedClient, job_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        job: dict[str, Any] = generated.call("getJobsId", id=job_id).json
        if job["status"] in ("Completed", "Failed"):
            return job
        assert time.monotonic() < deadline, job
        time.sleep(0.05)


def test_every_operation_succeeds_as_documented(
    generated: GeneratedClient, pdf_file: Callable[..., bytes], service: ServedService
) -> None:
    """API-92: each operation has a success here whose status, type, headers and members are those of the document."""
    called: set[str] = set()

    def call(operation: str, **given: Any) -> Answer:
        called.add(operation)
        answer = generated.call(operation, **given)
        assert answer.status < 400, (operation, answer.content)
        return answer

    content = pdf_file()
    checked = call("postFilesCheck", body=form(content)).json
    assert checked == {"profile": "default", "wouldSign": True, "findings": []}
    [finding] = call("postFilesCheck", body=form(b"text", name="a.pdf")).json["findings"]
    assert (finding["code"], finding["place"]) == ("sign.failed", "byte 0")
    job = call("postFiles", body=form(content, before={"metadata": '{"batch": "17"}'})).json["jobId"]
    assert wait_completed(generated, job)["status"] == "Completed"
    (service.root / "c.pdf").write_bytes(content)
    ran = service.run("check-file", "c.pdf")
    assert (ran.returncode, ran.stdout) == (0, "c.pdf would be signed under the profile 'default'.\n"), ran.stderr
    broken = call("postFiles", body=form(b"%PDF-1.4 nothing more", name="b.pdf")).json["jobId"]
    assert wait_completed(generated, broken)["status"] == "Failed"
    for operation in ("getHealth", "getReady", "getReadyDetails", "getEvents", "getEventsTypes", "getBackup"):
        call(operation)
    for operation in ("getProfiles", "getOpenapiV1Json", "getOpenapiJson", "getReference", "getScalarV1"):
        call(operation)
    for operation in ("getStaticReferenceCss", "getStaticSignInCss", "getFolders", "getMetrics", "getWhoami"):
        call(operation)
    call("getAuthEntraLogin")
    call("getProfilesName", name="DEFAULT")
    assert call("getJobs", query=[("fileName", "A.PDF"), ("from", "2000-01-01")]).json["totalCount"] == 1
    call("getJobsId", id=job)
    signed = call("getJobsIdOutput", id=job).content
    assert signed.startswith(content)
    with zipfile.ZipFile(io.BytesIO(call("getJobsArchive", query=[("id", job)]).content)) as archive:
        assert archive.read("a.signed.pdf") == signed
    assert call("getJobsExport").content.startswith(b"PK")
    call("postPipelinePause", body=b'{"reason": "test"}')
    again = call("postJobsIdRetry", id=broken).json["newJobId"]
    assert call("postJobsIdCancel", id=again).json["status"] == "Canceled"
    call("getPipelineState")
    call("postPipelineResume")
    call("postRescan", query=[("folder", "inbox")])
    call("postCleanup", body=b'{"dryRun": true}')
    token = re.search(r'name="csrfToken" value="([^"]+)"', call("getLogin").content.decode())
    assert token is not None
    form_header = {"Content-Type": "application/x-www-form-urlencoded"}
    call("postCulture", query=[("culture", "pt-BR")], headers={"X-CSRF-Token": token[1]})
    fields = urllib.parse.urlencode({"csrfToken": token[1], "ApiKey": API_KEY}).encode()
    call("postAuthLogin", headers=form_header, body=fields)
    own = re.search(r'name="csrfToken" value="([^"]+)"', call("getAccessDenied").content.decode())
    assert own is not None
    call("postAuthLogout", headers=form_header, body=urllib.parse.urlencode({"csrfToken": own[1]}).encode())
    call("postBackup")
    # It may have ended before it could be cancelled; then that is what is answered, as documented.
    generated.call("postBackupCancel")
    called.add("postBackupCancel")
    call("deleteJobs")
    assert called == set(generated.operations)
    assert list((service.data / "landing").iterdir()) == []


def fuzz(service: ServedService, folder: Path, *options: str) -> None:
    document = folder / "openapi.json"
    document.write_bytes(
        httpx.get(f"{service.url}/openapi/v1.json", headers={"X-API-Key": API_KEY}).raise_for_status().content
    )
    command = [
        sys.executable, "-W", "ignore", "-m", "schemathesis.cli", "run", str(document),
        "--url", service.url, "--header", f"X-API-Key: {API_KEY}", "--checks", ",".join(CHECKS),
        "--continue-on-failure", "--suppress-health-check", "all", "--warnings", "off", "--no-color",
        "--generation-database", "none", "--max-redirects", "0",
    ]  # fmt: skip
    done = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "No issues found" in done.stdout, done.stdout[-2000:]
    with service.client() as client:
        assert client.get("/api/health").json() == {"status": "healthy"}
    assert "Traceback" not in service.log.read_text(encoding="utf-8", errors="replace")


def test_a_fuzzer_finds_no_undocumented_answer(service: ServedService, tmp_path: Path) -> None:
    """API-92, SEC-70: requests made from the document, right and wrong ones: no 500, nothing the document lacks."""
    fuzz(service, tmp_path, "--phases", "examples,coverage", "--max-examples", "10", "--seed", "1")


@pytest.mark.soak
def test_a_fuzzer_finds_nothing_on_a_server_database(
    serve: Callable[..., ServedService], postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """API-92, DEP-41: PostgreSQL takes no text that SQLite takes without a word; none of it becomes a 500."""
    with postgres_server.database() as url:
        service = serve({"ConnectionStrings:Default": url, "Database:Provider": "PostgreSql"})
        fuzz(service, tmp_path, "--phases", "examples,coverage,fuzzing", "--max-examples", "100")
        service.stop()


@pytest.mark.soak
def test_a_fuzzer_finds_nothing_in_a_long_run(service: ServedService, tmp_path: Path) -> None:
    """API-92, SEC-70: the same at length, with chains of calls."""
    fuzz(service, tmp_path, "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "300")
