"""A whole service stepped by hand, as tests of plugins and of the pipeline use it."""

from __future__ import annotations

import pytest

from bulksigner.contract.settings import Secret
from bulksigner.jobs.states import JobStatus
from bulksigner.testing.harness import Harness, NeverIdle


def test_what_is_dropped_and_sent_comes_out_signed(harness, pdf_file, xml_file):
    """Design, section 9: drop, run until idle, look."""
    path = harness.drop("contract.pdf", pdf_file())
    sent = harness.upload("invoice.xml", xml_file())
    jobs = harness.run_until_idle()
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}
    assert sent.id in {job.id for job in jobs}
    assert harness.outputs() == ["contract.signed.pdf", "invoice.signed.xml"]
    assert not path.exists()
    assert [line.message for line in harness.history(sent)][-1] == "Completed: invoice.signed.xml"


def test_a_restart_keeps_what_is_recorded(harness, pdf_file):
    """CLU-09: a new life on the same folder finds nothing to settle."""
    harness.drop("contract.pdf", pdf_file())
    before = harness.run_until_idle()
    harness.restart()
    assert harness.run_until_idle() == before
    assert harness.service.swept.interrupted == ()


def test_a_failed_job_is_retried(harness, pdf_file):
    """PIPE-99: as an operator would, after the input was mended."""
    harness.drop("contract.pdf", b"no PDF")
    [failed] = harness.run_until_idle()
    assert failed.status is JobStatus.FAILED
    harness.drop("contract.pdf", pdf_file())
    retried = harness.retry(failed)
    assert {job.id: job.status for job in harness.run_until_idle()}[retried.id] is JobStatus.COMPLETED


def test_any_setting_can_be_overridden(make_harness, pdf_file):
    """A second folder with a profile of its own, and what that profile does; None takes a key away."""
    first = "Signing:Profiles:0:Certificate:Pfx"
    harness = make_harness()
    keys = harness.keys
    settings = {
        "Storage:Inputs:0:Profile": None,
        "Storage:Inputs:1:Name": "second",
        "Storage:Inputs:1:Path": str(harness.folder / "second"),
        "Storage:Inputs:1:Profile": "unverified",
        "Signing:Profiles:1:Name": "unverified",
        "Signing:Profiles:1:Format": "Pades",
        "Signing:Profiles:1:Verify": False,
        "Signing:Profiles:1:Certificate:Pfx:Path": keys[f"{first}:Path"],
        "Signing:Profiles:1:Certificate:Pfx:Password": keys[f"{first}:Password"],
    }
    harness = make_harness(settings=settings)
    harness.drop("contract.pdf", pdf_file(), folder="second")
    [job] = harness.run_until_idle()
    assert job.profile_name == "unverified"
    assert "Verification skipped" in [line.message for line in harness.history(job)]


def test_work_that_does_not_end_is_named(make_harness, pdf_file):
    """A test that hangs says what it waits for."""
    harness = make_harness(settings={"WatchedFolder:StabilityRequiredSamples": 100})
    harness.drop("contract.pdf", pdf_file())
    with pytest.raises(NeverIdle, match="1 files not stable, 0 jobs not ended"):
        harness.run_until_idle(timeout_seconds=0.2)


def test_a_service_runs_on_a_server_database(make_harness, postgres_server, pdf_file):
    """DEP-41: the same harness, the other engine."""
    with postgres_server.database() as url:
        harness: Harness = make_harness(database_url=url)
        harness.drop("contract.pdf", pdf_file())
        [job] = harness.run_until_idle()
        assert job.status is JobStatus.COMPLETED
        assert isinstance(harness.service.foundation.settings.core.database_location, Secret)
        harness.close()


def test_signing_may_run_in_worker_processes(make_harness, pdf_file):
    """PERF-06: chosen by one argument."""
    harness = make_harness(engine="Processes", settings={"Signing:EngineWorkers": 1})
    harness.drop("contract.pdf", pdf_file())
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED
    assert "worker processes" in harness.service.engine.label
