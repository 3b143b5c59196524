"""A whole service whose profile encrypts: its output folder is watched, its files are opened and verified."""

from __future__ import annotations

import datetime
import importlib.util
import io
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from bulksigner.audit.accounts import Audit, Period, run_audit
from bulksigner.contract.errors import BulkSignerError, ConfigurationRefused
from bulksigner.encryption import tool
from bulksigner.encryption.envelope import MAGIC
from bulksigner.encryption.key import EnvelopeKey, read_salt
from bulksigner.files.volumes import Volume
from bulksigner.jobs import envelopes
from bulksigner.jobs.model import utc_now
from bulksigner.jobs.states import JobStatus
from bulksigner.pipeline.engine_pool import ProcessEngine
from bulksigner.retention.policy import ClassRule, Policy, RetentionClass
from bulksigner.retention.records import acknowledge
from bulksigner.retention.run import Retention
from bulksigner.testing.harness import OPERATOR, NeverIdle
from bulksigner.testing.served import ServedService
from bulksigner.testing.verify import verify_cms_with_openssl, verify_pdf_with_pdfsig

PASSWORD, SALT = "correct horse battery staple", "AAECAwQFBgcICQoLDA0ODw=="
ENCRYPTED = {
    "Encryption:Enabled": True,
    "Encryption:Password": PASSWORD,
    "Encryption:Salt": SALT,
    "Encryption:Iterations": 10_000,
    "Signing:Profiles:0:Encrypt": True,
    "Signing:Profiles:0:Policy": "B-B",
}
PROCESSES = {"Signing:Engine": "Processes", "Signing:EngineWorkers": 1, "Pipeline:MaxConcurrency": 2}
OPTIONS = ("--salt-b64", SALT, "--iterations", "10000", "--password", PASSWORD)


class Watched(FileSystemEventHandler):
    """Every name that comes up in a folder, and the first bytes of what lies there at each event."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.clear: list[str] = []
        self.ended = threading.Event()

    def on_any_event(self, event: FileSystemEvent) -> None:
        for text in filter(None, (event.src_path, event.dest_path)):
            path = Path(str(text))
            if path.name == "the-end":
                self.ended.set()
                return
            if event.is_directory:
                continue
            self.seen.append((event.event_type, path.name))
            if path.is_file() and not path.read_bytes().startswith(MAGIC):
                self.clear.append(path.name)


@pytest.fixture
def watch() -> Iterator[Callable[[Path], Watched]]:
    """Watch a folder through the system's own notices."""
    observer = Observer()
    observer.start()

    def act(folder: Path) -> Watched:
        handler = Watched()
        observer.schedule(handler, str(folder))
        return handler

    yield act
    observer.stop()
    observer.join()


def load_script() -> ModuleType:
    path = Path(__file__).parents[3] / "tools" / "decrypt-bsenc.py"
    spec = importlib.util.spec_from_file_location("decrypt_bsenc", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("engine", [{}, PROCESSES], ids=["here", "processes"])
def test_nothing_clear_ever_lies_in_output(
    make_harness: Any,
    watch: Any,
    pdf_file: Any,
    authority: Any,
    tmp_path: Path,
    require_tool: Any,
    engine: dict[str, Any],
) -> None:
    """ENC-40, ENC-02, ENC-03: one file, an envelope from its first moment; opened, its signature verifies."""
    require_tool("pdfsig", "poppler-utils")
    require_tool("openssl", "openssl")
    harness = make_harness(settings=ENCRYPTED | engine)
    assert isinstance(harness.service.engine, ProcessEngine) == bool(engine)
    output = harness.root / "output"
    watched = watch(output)
    harness.drop("report.pdf", pdf_file(pages=2))
    harness.drop("folha.rem", b"content of a payment file")
    jobs = harness.run_until_idle()
    assert [(job.status, job.output_encrypted) for job in jobs] == [(JobStatus.COMPLETED, True)] * 2
    assert harness.outputs() == ["folha.rem.p7m.enc", "report.signed.pdf.enc"]
    assert b"bulksigner_files_encrypted_total 2.0" in harness.service.metrics.render()
    (output / "the-end").touch()
    assert watched.ended.wait(30)
    assert watched.clear == []
    assert {name for _, name in watched.seen} == {"folha.rem.p7m.enc", "report.signed.pdf.enc"}
    (output / "the-end").unlink()

    opened = tmp_path / "opened"
    assert tool.main(["--in", str(output), "--out", str(opened), *OPTIONS]) == 0
    assert verify_pdf_with_pdfsig(opened / "report.signed.pdf", [authority.root_der])
    assert verify_cms_with_openssl(opened / "folha.rem.p7m", [authority.root_der])
    script = load_script()
    key = script.derive_key(PASSWORD, read_salt(SALT), 10_000)
    for name in ("folha.rem.p7m", "report.signed.pdf"):
        found = io.BytesIO()
        script.decrypt(io.BytesIO((output / f"{name}.enc").read_bytes()), key, found.write)
        assert found.getvalue() == (opened / name).read_bytes()


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_everything_that_names_outputs_knows_envelopes(
    engine: str, make_harness: Any, pdf_file: Any, request: pytest.FixtureRequest
) -> None:
    """ENC-05, ENC-10, PIPE-101, STA-59, BEY-50: counted by key, accounted for by hash, deleted, gone by age."""
    url = None
    if engine == "postgresql":
        server = request.getfixturevalue("postgres_server")
        url = server.url_of(server.create_database())
    harness = make_harness(settings=ENCRYPTED, database_url=url)
    harness.drop("report.pdf", pdf_file(pages=1))
    harness.drop("folha.rem", b"content of a payment file")
    jobs = harness.run_until_idle()
    service = harness.service
    assert [job.output_encrypted for job in service.jobs.latest_for([job.original_path for job in jobs]).values()] == [
        True,
        True,
    ]
    value = EnvelopeKey.derive(PASSWORD, read_salt(SALT), 10_000).check_value()
    assert envelopes.envelopes_written(service.store, value) == 2
    assert envelopes.envelopes_written(service.store, "00000000") == 0
    found = run_audit(Audit(service.store, service.folders, service.roots, hashes=True), Period())
    assert found.unaccounted == ()
    assert found.outputs_present == 2
    service.operations.deletion.delete(jobs[0].id, OPERATOR, None)
    assert len(harness.outputs()) == 1
    later = utc_now() + datetime.timedelta(days=30)
    policy = Policy(True, None, 100, {RetentionClass.OUTPUT: ClassRule(10)}, "policy")
    retention = Retention(service.store, service.roots, service.folders, policy, clock=lambda: later)
    acknowledge(service.store, "policy", retention.preview("person").id, "person", later)
    retention.apply("person")
    assert harness.outputs() == []
    assert envelopes.envelopes_written(service.store, value) == 2


def test_many_envelopes_are_warned_of(
    make_harness: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, pdf_file: Any
) -> None:
    """ENC-10: at the start after the half of what a key bears, and not before."""
    harness = make_harness(settings=ENCRYPTED)
    harness.drop("report.pdf", pdf_file(pages=1))
    harness.run_until_idle()
    with caplog.at_level(logging.WARNING):
        harness.restart()
        assert "encrypted with this key" not in caplog.text
        monkeypatch.setattr(envelopes, "MANY_ENVELOPES", 0)
        harness.restart()
    assert "1 files were encrypted with this key" in caplog.text


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_key_that_is_not_that_of_the_files_so_far_is_told(
    engine: str, make_harness: Any, caplog: pytest.LogCaptureFixture, pdf_file: Any, request: pytest.FixtureRequest
) -> None:
    """ENC-35: a password typed wrong opens no file later; the start that first has it says so, and no other does."""
    url = None
    if engine == "postgresql":
        server = request.getfixturevalue("postgres_server")
        url = server.url_of(server.create_database())
    harness = make_harness(settings=ENCRYPTED, database_url=url)
    with caplog.at_level(logging.WARNING):
        harness.drop("report.pdf", pdf_file(pages=1))
        harness.run_until_idle()
        harness.restart()
        assert "is new" not in caplog.text
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                type(harness), "environ", harness.environ | {"BULK_SIGNER_ENCRYPTION_PASSWORD": "another password"}
            )
            harness.restart()
            assert "not those of the 1 files encrypted so far" in caplog.text
            caplog.clear()
            harness.drop("folha.rem", b"content of a payment file")
            harness.run_until_idle()
            harness.restart()
        harness.restart()
        assert "is new" not in caplog.text


def test_the_key_is_in_no_file_and_no_process_list(make_harness: Any, pdf_file: Any) -> None:
    """ENC-19, ENC-06, SEC-46: neither key nor password in what the service writes, nor in how it starts workers."""
    password = "a password of the variable only"
    harness = make_harness(settings=ENCRYPTED | PROCESSES | {"Encryption:Password": None})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(harness), "environ", harness.environ | {"BULK_SIGNER_ENCRYPTION_PASSWORD": password})
        harness.drop("report.pdf", pdf_file(pages=1))
        harness.run_until_idle()
    key = bytes(EnvelopeKey.derive(password, read_salt(SALT), 10_000).reveal())
    looked_for = [password.encode(), key, key.hex().encode(), key[:16]]
    written = [path for path in harness.folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".enc" for path in written)
    workers = [channel._process.pid for channel in harness.service.engine._workers]
    assert workers
    described = [Path(f"/proc/{pid}/{part}") for pid in workers for part in ("cmdline", "environ")]
    found = [path for path in (*written, *described) for text in looked_for if text in path.read_bytes()]
    assert found == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs a file system of processes")
def test_the_password_does_not_travel_to_the_workers(tmp_path: Path, leaf: Any) -> None:
    """ENC-19, SEC-46: `serve` takes it out of the environment that every process it starts would inherit."""
    leaf.write_pfx(tmp_path / "certificate.pfx", "")
    settings = {
        "Signing:Certificate:Source": "Pfx",
        "Signing:Certificate:Pfx:Path": str(tmp_path / "certificate.pfx"),
        "Signing:Engine": "Processes",
        "Pipeline:MaxConcurrency": 2,
        "Encryption:Enabled": True,
        "Encryption:PasswordEnvVar": "A_VARIABLE",
        "Encryption:Salt": SALT,
        "Encryption:Iterations": 10_000,
    }
    service = ServedService(tmp_path / "root", settings, {"A_VARIABLE": PASSWORD})
    service.start()
    try:
        assert service.process is not None
        pid = service.process.pid
        started = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        assert started
        found = [Path(f"/proc/{child}/environ").read_bytes() for child in started]
        assert not [text for text in found if PASSWORD.encode() in text]
    finally:
        service.stop()


def test_a_file_waits_for_room_for_its_envelope_too(
    make_harness: Any, monkeypatch: pytest.MonkeyPatch, pdf_file: Any
) -> None:
    """PIPE-129, BEY-22: as PEM and encrypted a file takes nearly four times its size; no signature is lost to that."""
    content = pdf_file(pages=1)
    free = 4 * len(content) - 1
    monkeypatch.setattr(Volume, "free_bytes", lambda _: free)
    harness = make_harness(settings=ENCRYPTED | {"Storage:MinimumFreeBytes": 0})
    harness.drop("report.pdf", content)
    with pytest.raises(NeverIdle):
        harness.run_until_idle(timeout_seconds=1)
    assert harness.jobs()[0].status is JobStatus.QUEUED
    free += 1
    assert harness.run_until_idle()[0].status is JobStatus.COMPLETED


def test_the_key_is_overwritten_at_the_end(make_harness: Any) -> None:
    """ENC-19: after a stop that drained, nothing of it is left in the object that held it."""
    harness = make_harness(settings=ENCRYPTED)
    key = harness.service.engine._envelope_key
    assert key.reveal() != bytes(32)
    harness.close()
    with pytest.raises(BulkSignerError, match="stopping"):
        key.reveal()


def test_refusals_come_before_anything_is_made(make_harness: Any) -> None:
    """ENC-20, CFG-12: all at once."""
    harness = make_harness(settings=ENCRYPTED | {"Encryption:Password": "", "Encryption:Salt": "x"})
    with pytest.raises(ConfigurationRefused) as refused:
        _ = harness.service
    assert [failure.key for failure in refused.value.failures] == ["Encryption:Password", "Encryption:Salt"]
    assert not harness.root.exists()


def test_a_profile_that_encrypts_never_signs_while_encryption_is_off(make_harness: Any, pdf_file: Any) -> None:
    """CFG-91, CFG-115, ENC-20: a lost setting stops the profile; its files are not delivered in clear."""
    harness = make_harness(settings=ENCRYPTED)
    _ = harness.service
    harness.close()
    settings = harness.folder / "settings.json"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(
        re.sub(r'"Encryption:Enabled": true', '"Encryption:Enabled": false', text).replace(
            '"Signing:Profiles:0:Encrypt": true', '"Signing:Profiles:0:Encrypt": false'
        ),
        encoding="utf-8",
    )
    harness.drop("report.pdf", pdf_file(pages=1))
    [job] = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "profile.degraded")
    assert "Encryption:Enabled is false" in (job.error_message or "") + harness.service.profiles.get("default").degraded
    assert harness.outputs() == []


def test_the_single_certificate_encrypts_where_encryption_is_on(make_harness: Any, tmp_path: Path) -> None:
    """CFG-83: the profile that is made of `Signing:Certificate` takes the switch of the service."""
    none = dict.fromkeys(
        f"Signing:Profiles:0:{key}"
        for key in (
            "Name",
            "Encrypt",
            "Policy",
            "Certificate:Source",
            "Certificate:Pfx:Path",
            "Certificate:Pfx:Password",
        )
    )
    path = str(tmp_path / "service-0" / "certificate.pfx")
    single = {"Signing:Certificate:Source": "Pfx", "Signing:Certificate:Pfx:Path": path}
    harness = make_harness(settings=ENCRYPTED | none | single, password="")
    assert harness.service.profiles.get("default").stored.encrypt
