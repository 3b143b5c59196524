"""Whole services that sign with a token."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.testing.certificates import Authority
from bulksigner.testing.files import pdf_file, text_file, xml_file
from bulksigner.testing.harness import Harness
from bulksigner.testing.verify import (
    Verdict,
    verify_cms_with_openssl,
    verify_pdf_with_pdfsig,
    verify_xml_with_xmlsec1,
)
from bulksigner_pkcs11.settings import DEFAULT_VARIABLE

WRONG = "98765432"
FILES = {
    "contrato.pdf": ("contrato.signed.pdf", pdf_file(pages=2)),
    "nota.xml": ("nota.signed.xml", xml_file(items=2)),
    "carta.txt": ("carta.txt.p7m", text_file()),
}


def verify(path: Path, roots: list[bytes], require_tool: Callable[..., str]) -> Verdict:
    """Ask the outside verifier of the kind of file."""
    if path.suffix == ".pdf":
        require_tool("pdfsig", "poppler-utils")
        require_tool("certutil", "libnss3-tools")
        return verify_pdf_with_pdfsig(path, roots)
    if path.suffix == ".xml":
        require_tool("xmlsec1", "xmlsec1")
        return verify_xml_with_xmlsec1(path, roots)
    require_tool("openssl", "openssl")
    return verify_cms_with_openssl(path, roots)


def command(service: Harness, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `bulksigner` on the folder of a service."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **service.environ, **variables}
    run = [sys.executable, "-m", "bulksigner", *arguments]
    return subprocess.run(run, capture_output=True, text=True, env=environment, cwd=service.folder, check=False)


def checked(service: Harness) -> dict[str, Any]:
    """Return the rows of `bulksigner check` by name."""
    done = command(service, "check", "--json")
    return {row["name"]: row for row in json.loads(done.stdout)["checks"]}


def row_of(service: Harness) -> Any:
    """Return the readiness row of the profile."""
    rows = {row.name: row for row in service.service.readiness.report().rows}
    return rows["signing-profile:default"]


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_each_format_is_signed_and_others_agree(
    make_service: Callable[..., Harness],
    token: Any,
    around: Any,
    kind: str,
    authority: Authority,
    require_tool: Callable[..., str],
) -> None:
    """Issue 5, BEY-01, BEY-30: PAdES, CAdES and XAdES by token; one login for all of them, no logout."""
    service = make_service(around.module, identity=getattr(token, kind))
    for name, (_, content) in FILES.items():
        service.drop(name, content)
    jobs = service.run_until_idle()
    assert {job.file_name: (job.status.value, job.error_message) for job in jobs} == dict.fromkeys(
        FILES, ("Completed", None)
    )
    for output, _ in FILES.values():
        verdict = verify(service.output(output), [authority.root_der], require_tool)
        assert verdict, verdict.output
    assert (around.count("C_Login"), around.count("C_Logout"), around.count("C_Initialize")) == (1, 0, 1)


def test_worker_processes_never_log_in(make_service: Callable[..., Harness], around: Any) -> None:
    """BEY-30, PERF-06: with the pool of processes the token is still one process's, and one login's."""
    service = make_service(
        around.module, engine="Processes", settings={"Pipeline:MaxConcurrency": 2, "Signing:EngineWorkers": 2}
    )
    for number in range(6):
        service.drop(f"{number}.txt", f"file {number}".encode())
    jobs = service.run_until_idle()
    assert [job.status.value for job in jobs] == ["Completed"] * 6
    assert around.count("C_Login") == 1
    assert len(around.processes()) == 1


def test_a_driver_that_crashes_costs_one_job(make_service: Callable[..., Harness], around: Any) -> None:
    """BEY-32: one job fails with `pkcs11.driver-lost`, the service goes on, and a retry signs."""
    service = make_service(around.module)
    service.drop("first.txt", b"first")
    service.run_until_idle()
    around.ask("crash-C_Sign")
    service.drop("second.txt", b"second")
    lost = service.run_until_idle()[-1]
    assert (lost.status.value, lost.error_code) == ("Failed", "pkcs11.driver-lost")
    assert lost.error_message is not None
    assert lost.error_message.startswith("pkcs11.driver-lost: ")
    row = row_of(service)
    assert (row.ok, row.gating) == (False, False)
    assert "SIGSEGV" in row.detail
    around.take_back("crash-C_Sign")
    service.drop("third.txt", b"third")
    service.retry(lost)
    jobs = service.run_until_idle()
    assert [job.status.value for job in jobs if job.id != lost.id] == ["Completed"] * 3
    assert row_of(service).ok


def test_a_token_that_is_away_fails_jobs_and_comes_back(make_service: Callable[..., Harness], token: Any) -> None:
    """OPS-114: `sign.failed` with the token's error while it is away; no restart when it is back."""
    service = make_service()
    service.drop("first.txt", b"first")
    service.run_until_idle()
    token.take_away()
    service.drop("second.txt", b"second")
    failed = service.run_until_idle()[-1]
    assert (failed.status.value, failed.error_code) == ("Failed", "sign.failed")
    assert "ObjectHandleInvalid" in (failed.error_message or "")
    token.bring_back()
    again = service.retry(failed)
    assert next(job for job in service.run_until_idle() if job.id == again.id).status.value == "Completed"


def test_a_token_that_comes_after_the_start_is_opened_at_a_save(
    make_service: Callable[..., Harness], token: Any
) -> None:
    """OPS-113, CFG-85: the profile is degraded until then, and heals without a restart."""
    token.take_away()
    service = make_service()
    profile = service.service.profiles.get("default")
    assert profile is not None
    assert "no token is there" in (profile.degraded or "")
    token.bring_back()
    saved = command(service, "profiles", "set", "default", "--reopen")
    assert saved.returncode == 0, saved.stderr
    service.drop("first.txt", b"first")
    assert service.run_until_idle()[-1].status.value == "Completed"


def test_a_refused_pin_is_remembered_in_the_operational_store(
    make_service: Callable[..., Harness], around: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-31, OPS-113: across restarts, by `check` and `profiles test` too; neither rows nor words hold the PIN."""
    monkeypatch.setenv(DEFAULT_VARIABLE, WRONG)
    service = make_service(around.module)
    for _ in range(2):
        profile = service.service.profiles.get("default")
        assert profile is not None
        assert profile.degraded is not None
        assert DEFAULT_VARIABLE in profile.degraded
        service.restart()
    assert "not tried again" in checked(service)["signing-profile:default"]["detail"]
    tested = command(service, "profiles", "test", "default")
    assert tested.returncode == 1
    assert "not tried again" in tested.stdout
    assert around.count("C_Login") == 1
    service.close()
    with sqlite3.connect(service.root / "db" / "bulksigner.db") as database:
        [(plugin, note)] = database.execute("SELECT plugin, value FROM plugin_note").fetchall()
    database.close()
    assert plugin == "pkcs11"
    assert WRONG not in note
    monkeypatch.setenv(DEFAULT_VARIABLE, "1234")
    service.drop("first.txt", b"first")
    assert service.run_until_idle()[-1].status.value == "Completed"


def test_check_opens_the_key_and_signs_nothing_else(make_service: Callable[..., Harness], around: Any) -> None:
    """OPS-203: before the first start too; the row names library and thumbprint."""
    service = make_service(around.module)
    row = checked(service)["signing-profile:default"]
    assert row["ok"], row["detail"]
    assert f"module={around.module}" in row["detail"]
    assert around.count("C_Login") == 1


def test_a_pin_in_the_settings_refuses_the_start(make_service: Callable[..., Harness]) -> None:
    """CFG-76, SEC-43: whoever writes a PIN down is told where it belongs; the value is not shown."""
    service = make_service(settings={"Signing:Profiles:0:Certificate:Pkcs11:Pin": WRONG})
    with pytest.raises(ConfigurationRefused) as refused:
        service.restart()
    assert "Certificate:Pkcs11:Pin" in refused.value.message
    assert "PinEnvVar" in refused.value.message
    assert WRONG not in refused.value.message


def test_a_pin_cannot_be_stored_with_a_profile(make_service: Callable[..., Harness]) -> None:
    """CFG-76: the same at a save, in whichever way it is given."""
    service = make_service()
    assert service.service
    service.close()
    key = "Certificate:Pkcs11:Pin"
    for arguments in ([f"{key}={WRONG}"], ["--secret-env", f"{key}=GIVEN"]):
        saved = command(service, "profiles", "set", "default", *arguments, GIVEN=WRONG)
        assert saved.returncode != 0
        assert key in saved.stdout + saved.stderr
        assert WRONG not in saved.stdout + saved.stderr
    assert WRONG.encode() not in (service.root / "db" / "bulksigner.db").read_bytes()


def test_the_settings_of_the_plugin_are_no_reserved_names_any_more(make_service: Callable[..., Harness]) -> None:
    """CFG-204, CFG-80: the limit of a call binds and is bounded; more than one job at a time is warned of."""
    service = make_service(settings={"Pkcs11:CallTimeoutSeconds": 45, "Pipeline:MaxConcurrency": 2})
    warnings = service.service.foundation.settings.warnings
    assert any("Pipeline:MaxConcurrency is 2" in line and "Pkcs11" in line for line in warnings)
    path = service.folder / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "Pkcs11:CallTimeoutSeconds": 601}))
    with pytest.raises(ConfigurationRefused, match="1 to 600"):
        service.restart()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ModulePath", "lib/token.so", "absolute path"),
        ("Thumbprint", "12:34", "40 hexadecimal digits"),
        ("PinEnvVar", "12 34", "name of an environment variable"),
    ],
)
def test_keys_of_the_block_are_checked(make_service: Callable[..., Harness], key: str, value: str, words: str) -> None:
    """CFG-73 to CFG-75: each has its rule, told at the start."""
    service = make_service(settings={f"Signing:Profiles:0:Certificate:Pkcs11:{key}": value})
    with pytest.raises(ConfigurationRefused, match=words):
        service.restart()
