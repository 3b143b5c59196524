"""A name stays taken when its job is removed by age, at every door of a whole service (STA-68, PIPE-48 to PIPE-53)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from bulksigner.cli import main
from bulksigner.contract.errors import NotAllowed
from bulksigner.exposure import expose
from bulksigner.jobs.model import Job
from bulksigner.jobs.pruning import prune
from bulksigner.jobs.states import JobStatus
from bulksigner.testing.harness import API_KEY
from bulksigner.web.app import create_app


@pytest.fixture
def gone(harness: Any, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job that signed `folha.rem` and went; commands find the settings of the service."""
    for name, value in harness.environ.items():
        monkeypatch.setenv(name, value)
    harness.drop("folha.rem", b"first")
    [job] = harness.run_until_idle()
    Path(job.output_path).unlink()
    prune(harness.service.store, [job], holds_names=True, around=lambda remove: remove())
    assert harness.jobs() == []
    return job  # type: ignore[no-any-return]


def client(harness: Any) -> falcon.testing.TestClient:
    return falcon.testing.TestClient(create_app(expose(harness.service)), headers={"X-API-Key": API_KEY})


def test_a_folder_and_a_rescan_refuse_the_name(harness: Any, gone: Job) -> None:
    """PIPE-07, PIPE-48, PIPE-50: born failed, the bytes in error/, and no retry brings it past the rule."""
    harness.drop("FOLHA.rem", b"sent again")
    [refused] = harness.run_until_idle()
    assert (refused.status, refused.error_code) == (JobStatus.FAILED, "file.already-processed")
    assert (harness.service.roots.error / refused.id / "FOLHA.rem").read_bytes() == b"sent again"
    assert f"job {gone.id} (Completed, since removed by age)" in harness.history(refused)[0].message
    answer = client(harness).simulate_post(f"/api/jobs/{refused.id}/retry")
    assert (answer.status_code, answer.json["code"]) == (409, "file.already-processed")
    harness.drop("folha.REM", b"once more")
    answer = client(harness).simulate_post("/api/rescan")
    assert answer.json["totals"]["alreadyProcessed"] == 1


def test_an_upload_is_refused_and_told_the_way_out(harness: Any, gone: Job) -> None:
    """PIPE-48: 409, nothing stored; the job cannot be deleted any more, so the answer names the command."""
    with pytest.raises(NotAllowed) as refused:
        harness.upload("Folha.rem", b"bytes")
    assert refused.value.code == "file.already-processed"
    assert gone.id in refused.value.message
    assert "bulksigner names release 'Folha.rem'" in refused.value.message
    assert harness.jobs() == []


def test_a_released_name_is_signed_again(harness: Any, gone: Job, capsys: pytest.CaptureFixture[str]) -> None:
    """STA-68: with the command, beside the running service; then the next file of the name is a file like any other."""
    assert main(["names", "release", "FOLHA.REM", "--by", "Ana"]) == 0
    assert f"job {gone.id} held it" in capsys.readouterr().out
    harness.drop("folha.rem", b"second")
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED
    assert main(["names", "release", "folha.rem"]) == 1
    assert f"bulksigner jobs delete {job.id}" in capsys.readouterr().err
    assert main(["names", "release", "never-seen.rem"]) == 1
    assert "Nobody holds the name" in capsys.readouterr().err


def test_clear_jobs_frees_the_names(harness: Any, gone: Job) -> None:
    """PIPE-103, STA-68: nothing is left that was signed, so nothing is held."""
    assert client(harness).simulate_delete("/api/jobs").status_code == 200
    harness.drop("folha.rem", b"second")
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED]
    assert gone.id not in {job.id for job in harness.jobs()}
