"""A file is judged before it is sent as the pipeline judges it afterwards (BEY-10)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.cli.file_check import check_file
from bulksigner.contract.errors import BulkSignerError, NotAllowed, Refusal
from bulksigner.contract.signing import Format
from bulksigner.contract.validation import CheckReport, Finding, Severity, StagedFile
from bulksigner.exposure import expose
from bulksigner.jobs.states import JobStatus
from bulksigner.operations.file_check import FileReport
from bulksigner.plugin_system import roles
from bulksigner.plugin_system.registry import Provided, RegistryBuilder
from bulksigner.testing.files import pdf_file, text_file, xml_file
from bulksigner.testing.harness import Harness
from bulksigner.web.outputs import open_output

GOOD = pdf_file()
XML = xml_file()
ENCRYPTED = GOOD.replace(b"/Root", b"/Encrypt 1 0 R /Root", 1)
FILES = {
    "good.pdf": GOOD,
    "text.pdf": text_file(),
    "junk-before.pdf": b"junk\n" + GOOD,
    "cut-off.pdf": GOOD[: len(GOOD) // 2],
    "broken-table.pdf": re.sub(rb"startxref\s+\d+", b"startxref\n17", GOOD),
    "encrypted.pdf": ENCRYPTED,
    "good.xml": XML,
    "open.xml": XML[:-5],
    "doctype.xml": b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
    "empty-root.xml": b"<a/>",
    "utf16.xml": b"\0<\0a",
    "wrong-encoding.xml": b'<?xml version="1.0" encoding="UTF-16"?><a></a>',
    "anything.rem": b"\0\1\2",
    ("n" * 246) + ".pdf": GOOD,
}


@pytest.fixture
def look(harness: Harness) -> Callable[..., FileReport]:
    """Look at a file as the route does, and see that nothing of it stays."""

    def act(name: str, content: bytes, **choices: str) -> FileReport:
        given: dict[str, Any] = {"profile": None, "format": None} | choices
        try:
            return harness.service.file_check.receive(io.BytesIO(content), file_name=name, **given)
        finally:
            assert list((harness.root / "landing").iterdir()) == []

    return act


def test_the_verdict_before_is_the_verdict_of_the_job(harness: Harness, look: Callable[..., FileReport]) -> None:
    """BEY-10: what is called fit is signed, what is not fails with the code and in the words of the finding."""
    foretold = {name: look(name, content) for name, content in FILES.items()}
    assert harness.jobs() == []
    for name, content in FILES.items():
        harness.upload(name, content)
    for job in harness.run_until_idle():
        report = foretold[job.file_name]
        assert report.would_sign is (job.status is JobStatus.COMPLETED), (job, report)
        if report.would_sign:
            assert report.findings == ()
            continue
        [finding] = report.findings
        assert finding.severity is Severity.ERROR
        assert finding.text.rstrip(".") in (job.error_message or "")
        assert job.error_code in (finding.code, None)
    assert sum(report.would_sign for report in foretold.values()) == 3


def test_a_finding_says_where(look: Callable[..., FileReport]) -> None:
    """BEY-10, BEY-11, BEY-12: byte, part of the file, or line and column."""
    places = {
        "text.pdf": "byte 0",
        "encrypted.pdf": "trailer, /Encrypt",
        "doctype.xml": "1:13",
        "cut-off.pdf": f"byte {len(GOOD) // 2}",
    }
    assert {name: look(name, FILES[name]).findings[0].place for name in places} == places


def test_the_format_decides(look: Callable[..., FileReport]) -> None:
    """BEY-10: text is no PDF, and can be signed as CAdES; a format in any case of its name."""
    assert not look("text.pdf", FILES["text.pdf"]).would_sign
    assert look("text.pdf", FILES["text.pdf"], format="cades").would_sign


def test_a_name_that_is_taken_is_told(harness: Harness, look: Callable[..., FileReport]) -> None:
    """BEY-10, PIPE-48: by the job that has it, in any case; after its deletion by what lies in the output folder."""
    job = harness.upload("good.pdf", GOOD)
    assert [finding.code for finding in look("GOOD.pdf", GOOD).findings] == ["file.already-processed"]
    assert harness.run_until_idle()[0].status is JobStatus.COMPLETED
    [finding] = look("good.pdf", GOOD).findings
    assert (finding.code, job.id in finding.text) == ("file.already-processed", True)
    harness.output("other.signed.pdf").write_bytes(b"x")
    assert [finding.code for finding in look("other.pdf", GOOD).findings] == ["promote.output-exists"]


REFUSED: list[tuple[dict[str, str], str, bytes, str]] = [
    ({"profile": "missing"}, "a.pdf", GOOD, "profile.not-found"),
    ({"format": "x"}, "a.pdf", GOOD, "upload.format-unsupported"),
    ({}, "", b"", "upload.empty"),
    ({}, "", GOOD, "upload.invalid-name"),
    ({}, "a.pdf.tmp", GOOD, "upload.invalid-name"),
    ({}, "../..", GOOD, "upload.invalid-name"),
]


def test_what_cannot_be_looked_at_is_refused(look: Callable[..., FileReport]) -> None:
    """API-103: the refusals of the form, in the order of an upload."""
    for choices, name, content, code in REFUSED:
        with pytest.raises(Refusal) as refused:
            look(name, content, **choices)
        assert refused.value.code == code, (choices, name)


def test_the_state_of_the_profile_is_told(harness: Harness, look: Callable[..., FileReport]) -> None:
    """BEY-10: disabled, degraded and out of its validity are findings, all at once and before those of the file."""
    profiles = harness.service.profiles
    [opened] = profiles.all
    past = harness.service.file_check.now().replace(year=2001)
    stored = attrs.evolve(opened.stored, enabled=False)
    profiles.replace([attrs.evolve(opened, stored=stored, degraded="no key", certificate_not_after=past)])
    report = look("text.pdf", FILES["text.pdf"])
    assert [finding.code for finding in report.findings] == [
        "profile.disabled",
        "profile.degraded",
        "sign.certificate-invalid",
        "sign.failed",
    ]
    assert not report.would_sign


class Validator:
    """Warns of every file and objects to those that say so; it breaks over others."""

    name = "fake"

    def applies(self, extras: object, format: Format) -> bool:
        return True

    def check(self, file: StagedFile) -> CheckReport:
        content = file.path.read_bytes()
        if b"break" in content:
            raise RuntimeError("secret of the plugin")
        findings = [Finding("fake.odd", Severity.WARNING, "record 1", "It is odd.", "")]
        if b"object" in content:
            findings.append(Finding("fake.bad", Severity.ERROR, "record 2", "It is bad.", "Mend it."))
        return CheckReport(tuple(findings))


def test_validators_have_their_say(harness: Harness) -> None:
    """BEY-10, PIPE-75: warnings are told and stop nothing, one that breaks fails closed."""
    builder = RegistryBuilder()
    builder.add([Provided("checks", roles.FILE_VALIDATOR, "fake", Validator())])
    check = attrs.evolve(harness.service.file_check, registry=builder.build((), (), (), {}, None))

    def judge(content: bytes) -> tuple[list[str], bool]:
        report = check.receive(io.BytesIO(content), file_name="a.rem", profile=None, format=None)
        return [finding.code for finding in report.findings], report.would_sign

    assert judge(b"fine") == (["fake.odd"], True)
    assert judge(b"object") == (["fake.odd", "fake.bad"], False)
    assert judge(b"break") == (["internal"], False)


def test_the_command_says_the_same(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """OPS-250: `check-file` works beside a running service; its exit code is the verdict."""
    harness.upload("taken.pdf", GOOD)
    for name, value in harness.environ.items():
        monkeypatch.setenv(name, value)

    def run(name: str, content: bytes, *, profile: str | None = None, format: str | None = None) -> tuple[int, Any]:
        path = tmp_path / name
        path.write_bytes(content)
        capsys.readouterr()
        code = check_file(path, profile=profile, format=format, as_json=True)
        return code, json.loads(capsys.readouterr().out)

    assert run("c.pdf", GOOD, profile="DEFAULT") == (0, {"profile": "default", "wouldSign": True, "findings": []})
    code, report = run("TAKEN.pdf", GOOD)
    assert (code, [finding["code"] for finding in report["findings"]]) == (1, ["file.already-processed"])
    code, report = run("d.pdf", b"text")
    assert (code, report["findings"][0]["place"]) == (1, "byte 0")
    assert run("d.pdf", b"text", format="Cades")[0] == 0
    assert check_file(tmp_path / "d.pdf", profile=None, format=None, as_json=False) == 1
    assert (
        "  error  sign.failed at byte 0: The file is not a PDF: it does not begin with %PDF-."
        in capsys.readouterr().out
    )
    for name, choices in (("missing", {}), ("c.pdf", {"profile": "missing"}), ("c.pdf", {"format": "x"}), ("", {})):
        with pytest.raises(BulkSignerError):
            check_file(tmp_path / name, as_json=False, **({"profile": None, "format": None} | choices))


def test_a_stream_that_breaks_leaves_nothing(harness: Harness) -> None:
    """API-103: an upload that ends half way keeps no byte."""

    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _: Any) -> int:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        harness.service.file_check.receive(io.BufferedReader(Broken()), file_name="a.pdf", profile=None, format=None)
    assert list((harness.root / "landing").iterdir()) == []


def test_a_renamed_storage_root_is_no_loss(harness: Harness, tmp_path: Path) -> None:
    """API-64: where the recorded path leads nowhere, the file of that content under today's name serves."""
    harness.upload("good.pdf", GOOD)
    [job] = harness.run_until_idle()
    moved = tmp_path / "moved"
    harness.output("good.signed.pdf").parent.rename(moved)
    name = expose(harness.service).name_output(job)
    assert name == "good.signed.pdf"
    with open_output(moved, job, name).stream as stream:
        assert stream.read().startswith(GOOD)
    (moved / name).write_bytes(b"another file")
    with pytest.raises(NotAllowed):
        open_output(moved, job, name)
    moved.rename(harness.root / "output")
