"""PDF files that are restricted or broken, through a whole service (BEY-11, CFG-200, CFG-201)."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner.boot import lay_foundation
from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.jobs.states import JobStatus
from bulksigner.testing.harness import Harness, prepare
from bulksigner.testing.pdf_corpus import RESTRICTING, protect
from bulksigner.testing.pdf_sample import PdfSample


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Make a service with further settings."""
    made: list[Harness] = []

    def run(**settings: object) -> Harness:
        made.append(Harness(prepare(tmp_path / str(len(made)), settings=settings)))
        return made[-1]

    yield run
    for harness in made:
        harness.close()


def test_restrictions_are_ignored_by_choice_alone(make: Callable[..., Harness]) -> None:
    """BEY-10, BEY-11, CFG-201: what is foretold of a file is what becomes of it, with the setting and without."""
    content = protect(PdfSample().build(), "aes-128", permissions=RESTRICTING)
    for settings, status in (({}, JobStatus.FAILED), ({"Pdf:IgnoreOwnerRestrictions": True}, JobStatus.COMPLETED)):
        harness = make(**settings)
        look = harness.service.file_check.receive
        report = look(io.BytesIO(content), file_name="restricted.pdf", profile=None, format=None)
        assert report.would_sign is (status is JobStatus.COMPLETED)
        harness.upload("restricted.pdf", content)
        [job] = harness.run_until_idle()
        assert job.status is status, job.error_message
        if status is JobStatus.FAILED:
            assert job.error_code == "sign.failed"
            assert "restricted by its owner" in (job.error_message or "")


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
def test_a_password_of_the_profile_opens(engine: str, make: Callable[..., Harness], tmp_path: Path) -> None:
    """BEY-10, BEY-11, SEC-51: a protected file is signed, checked and foretold; no password is in any row or line."""
    secret = "uma senha comprida"
    settings = {"Signing:Profiles:0:Pdf:Passwords:0": "curta", "Signing:Profiles:0:Pdf:Passwords:1": secret}
    harness = make(**settings, **{"Signing:Engine": engine, "Signing:EngineWorkers": 1})
    known = protect(PdfSample().build(), "aes-256", user=secret)
    unknown = protect(PdfSample().build(), "aes-128", user="outra senha")
    look = harness.service.file_check.receive
    report = look(io.BytesIO(known), file_name="known.pdf", profile=None, format=None)
    assert report.would_sign
    told = [finding.text for finding in report.findings if finding.code == "pdf.encrypted"]
    assert told == [
        "The PDF is encrypted, and opens with a password of the profile; the signed file will be encrypted alike."
    ]
    harness.upload("known.pdf", known)
    harness.upload("unknown.pdf", unknown)
    jobs = {job.file_name: job for job in harness.run_until_idle()}
    assert jobs["known.pdf"].status is JobStatus.COMPLETED, jobs["known.pdf"].error_message
    assert jobs["unknown.pdf"].status is JobStatus.FAILED
    assert "none of the profile's (2)" in (jobs["unknown.pdf"].error_message or "")
    harness.close()
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "settings.json"]
    assert any(path.suffix == ".db" for path in kept)
    assert [path.name for path in kept if secret.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
def test_signatures_are_shown(engine: str, make: Callable[..., Harness]) -> None:
    """Issue 5: a profile's appearance is on every PDF that it signs, in workers too; other formats go on as ever."""
    harness = make(
        **{"Signing:Profiles:0:Appearance:Enabled": True, "Signing:Profiles:0:Appearance:Text": "Visto {name}"},
        **{"Signing:Engine": engine, "Signing:EngineWorkers": 1},
    )
    content = PdfSample().build()
    harness.upload("shown.pdf", content)
    harness.upload("plain.txt", b"text")
    jobs = {job.file_name: job for job in harness.run_until_idle()}
    assert {job.status for job in jobs.values()} == {JobStatus.COMPLETED}, jobs
    signed = Path(str(jobs["shown.pdf"].output_path)).read_bytes()
    assert signed.startswith(content)
    assert signed.count(b"/WinAnsiEncoding") == content.count(b"/WinAnsiEncoding") + 1


def test_a_font_that_is_not_there_is_refused_at_the_import(make: Callable[..., Harness], tmp_path: Path) -> None:
    """Issue 5: at the import it is refused with key and file."""
    harness = make(
        **{
            "Signing:Profiles:0:Appearance:Enabled": True,
            "Signing:Profiles:0:Appearance:FontPath": str(tmp_path / "lost.ttf"),
        }
    )
    with pytest.raises(ConfigurationRefused, match=r"Appearance:FontPath, .*lost\.ttf"):
        _ = harness.service


def test_a_start_warns_of_it(make: Callable[..., Harness]) -> None:
    """CFG-201: the choice is told at every start."""
    for settings, told in (({}, 0), ({"Pdf:IgnoreOwnerRestrictions": True}, 1)):
        harness = make(**settings)
        warnings = lay_foundation(harness.environ, harness.folder).settings.warnings
        assert sum("Pdf:IgnoreOwnerRestrictions" in line for line in warnings) == told


def test_repair_is_a_choice_and_is_recorded(make: Callable[..., Harness]) -> None:
    """BEY-10, BEY-11, CFG-200: refused by default; by choice signed, with a line of the job's history."""
    content = b"junk\n" + PdfSample().build()
    for settings, status in (({}, JobStatus.FAILED), ({"Pdf:RepairUnsigned": True}, JobStatus.COMPLETED)):
        harness = make(**settings)
        look = harness.service.file_check.receive
        report = look(io.BytesIO(content), file_name="junk.pdf", profile=None, format=None)
        assert report.would_sign is (status is JobStatus.COMPLETED)
        harness.upload("junk.pdf", content)
        harness.upload("sound.pdf", PdfSample().build())
        jobs = {job.file_name: job for job in harness.run_until_idle()}
        assert jobs["junk.pdf"].status is status, jobs["junk.pdf"].error_message
        told = {name: [line.message for line in harness.history(job) if "repaired" in (line.message or "")]
                for name, job in jobs.items()}  # fmt: skip
        assert told["sound.pdf"] == []
        if status is JobStatus.COMPLETED:
            assert told["junk.pdf"] == ["The PDF was repaired: 5 bytes before its header were left out"]


def test_nothing_is_repaired_that_is_not_checked(make: Callable[..., Harness]) -> None:
    """CFG-200: a profile that skips the check would leave no trace of a repair, so it repairs nothing."""
    harness = make(**{"Pdf:RepairUnsigned": True, "Signing:Profiles:0:Verify": False})
    harness.upload("junk.pdf", b"junk\n" + PdfSample().build())
    [job] = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "sign.failed")
