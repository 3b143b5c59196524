"""PDF files that are restricted by their owners, through a whole service (BEY-11, CFG-201)."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner.boot import lay_foundation
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


def test_a_start_warns_of_it(make: Callable[..., Harness]) -> None:
    """CFG-201: the choice is told at every start."""
    for settings, told in (({}, 0), ({"Pdf:IgnoreOwnerRestrictions": True}, 1)):
        harness = make(**settings)
        warnings = lay_foundation(harness.environ, harness.folder).settings.warnings
        assert sum("Pdf:IgnoreOwnerRestrictions" in line for line in warnings) == told
