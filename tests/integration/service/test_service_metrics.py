"""`GET /api/metrics` of a whole service: what its acts count, and what a restart leaves (API-94)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bulksigner.exposure import expose
from bulksigner.observability.metrics import CONTENT_TYPE
from bulksigner.pipeline.tasks import SignTask
from bulksigner.testing.harness import API_KEY, OPERATOR, Harness
from bulksigner.testing.postgres import PostgresServer
from bulksigner.web.app import create_app


def client_of(harness: Harness, key: str | None = API_KEY) -> falcon.testing.TestClient:
    headers = {} if key is None else {"X-API-Key": key}
    return falcon.testing.TestClient(create_app(expose(harness.service)), headers=headers)


def scrape(harness: Harness) -> dict[str, float]:
    """Return every sample but those of buckets, by name and labels."""
    vars(harness.service.metrics)["_gauges"]._seen = None
    answer = client_of(harness).simulate_get("/api/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, CONTENT_TYPE)
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name.removeprefix('bulksigner_')}{{{labels}}}"] = sample.value
    return found


@pytest.fixture(params=["Sqlite", "PostgreSql"])
def metered(request: pytest.FixtureRequest, make_harness: Callable[..., Harness]) -> Iterator[Harness]:
    """A service on each engine with a profile that does not check what it signs."""
    settings = {"Signing:Profiles:0:Verify": False}
    if request.param == "Sqlite":
        yield make_harness(settings=settings)
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as url:
        harness = make_harness(database_url=url, settings=settings)
        yield harness
        harness.close()


def test_what_jobs_do_is_counted(metered: Harness, pdf_file: Callable[..., bytes]) -> None:
    """API-94, API-95, STA-13: enqueued by folder, ends, cancellations, skipped checks and durations."""
    fresh = scrape(metered)
    assert fresh["jobs_completed_total{}"] == fresh["jobs_failed_total{}"] == fresh["jobs_canceled_total{}"] == 0
    assert not [key for key in fresh if key.startswith("jobs_enqueued_total")]
    metered.drop("a.pdf", pdf_file())
    metered.upload("b.pdf", pdf_file())
    metered.upload("broken.pdf", b"no pdf", format="Pades")
    metered.run_until_idle()
    waiting = metered.upload("c.pdf", pdf_file())
    metered.service.operations.operator.cancel(waiting.id, OPERATOR, None)
    metered.service.operations.pausing.pause(OPERATOR, "year end")
    metered.service.operations.pausing.pause(OPERATOR, "again")
    found = scrape(metered)
    assert {key: found[key] for key in found if key.startswith("jobs_")} == {
        "jobs_enqueued_total{folder=inbox}": 1,
        "jobs_enqueued_total{folder=(upload)}": 3,
        "jobs_completed_total{}": 2,
        "jobs_failed_total{}": 1,
        "jobs_canceled_total{}": 1,
        "jobs_verify_skipped_total{profile=default}": 2,
        "jobs_in_flight{}": 0,
    }
    assert (found["pipeline_pause_total{}"], found["pipeline_resume_total{}"], found["pipeline_paused{}"]) == (1, 0, 1)
    assert found["signing_duration_seconds_count{format=Pades}"] == 2
    assert 0 < found["signing_duration_seconds_sum{format=Pades}"] < 60
    assert found["database_size_bytes{}"] > 10_000
    free = found[f"storage_free_bytes{{root={metered.root}}}"]
    assert free == pytest.approx(shutil.disk_usage(metered.root).free, rel=0.2)
    not_after = metered.service.profiles.all[0].certificate_not_after
    assert not_after is not None
    assert found["certificate_not_after_seconds{profile=default}"] == not_after.timestamp()


def test_a_restart_keeps_gauges_and_begins_counters(metered: Harness, pdf_file: Callable[..., bytes]) -> None:
    """API-94: counters are of the process; the pause and the figures of the database are not."""
    metered.drop("a.pdf", pdf_file())
    metered.run_until_idle()
    metered.service.operations.pausing.pause(OPERATOR, None)
    metered.restart()
    found = scrape(metered)
    assert (found["pipeline_paused{}"], found["pipeline_pause_total{}"], found["jobs_completed_total{}"]) == (1, 0, 0)


def test_jobs_under_way_and_what_the_sweep_fails(
    make_harness: Callable[..., Harness], pdf_file: Callable[..., bytes]
) -> None:
    """API-94: in flight is what the database says; an interrupted job counts where it was failed."""
    harness = make_harness()
    seen: list[float] = []
    harness.drop("a.pdf", pdf_file())
    harness.before_task(SignTask, lambda _: seen.append(scrape(harness)["jobs_in_flight{}"]))
    harness.run_until_idle()
    assert seen == [1]
    job = harness.upload("b.pdf", pdf_file())
    service = harness.service
    service.store.carry_out(service.queue.claiming(1, service.owner, [job.id]))
    harness.restart()
    found = scrape(harness)
    assert (found["jobs_in_flight{}"], found["jobs_failed_total{}"]) == (0, 1)


def test_an_input_that_was_rewritten_is_counted(
    make_harness: Callable[..., Harness], pdf_file: Callable[..., bytes]
) -> None:
    """API-94: an input left in place."""
    harness = make_harness()
    path = harness.drop("a.pdf", pdf_file())
    harness.before_task(SignTask, lambda _: path.write_bytes(pdf_file() + b"\n% corrected\n"))
    job_ended = threading.Event()
    harness.service.profile_watch.step()
    while not job_ended.is_set():
        harness.service.watchers.step()
        if harness.service.worker.step():
            job_ended.set()
    assert scrape(harness)["inputs_diverged_total{profile=default}"] == 1


def test_backups_and_retention(make_harness: Callable[..., Harness], tmp_path: Path) -> None:
    """STA-79, STA-94, STA-98: runs, sizes and times; the times outlive the process."""
    settings: dict[str, Any] = {
        "Backup:Enabled": True,
        "Backup:Disk:Path": str(tmp_path / "copies"),
        "Retention:Enabled": True,
        "Retention:Output:KeepDays": 400,
    }
    harness = make_harness(settings=settings)
    fresh = scrape(harness)
    assert not [key for key in fresh if key.startswith(("backup_last", "backup_runs", "retention"))]
    assert fresh["backup_prune_failures_total{}"] == 0
    service = harness.service
    assert service.backups is not None
    assert service.retention is not None
    service.backups.ask("operator")
    service.backups.step()
    service.retention.clean_up("operator", None)
    found = scrape(harness)
    assert (found["backup_runs_total{result=Succeeded}"], found["backup_duration_seconds_count{}"]) == (1, 1)
    harness.restart()
    later = scrape(harness)
    for key in (
        "backup_last_size_bytes{}",
        "backup_last_success_timestamp_seconds{}",
        "retention_last_run_timestamp_seconds{mode=DryRun}",
    ):
        assert later[key] == found[key] > 10_000


@pytest.mark.parametrize(
    ("settings", "path", "status"),
    [
        ({}, "/api/metrics", 401),
        ({"Metrics:RequireApiKey": False}, "/api/metrics", 200),
        ({}, "/api/ready", 200),
        ({"Readiness:RequireApiKey": True}, "/api/ready", 401),
        ({"Readiness:RequireApiKey": True}, "/api/health", 200),
        ({"Metrics:RequireApiKey": False}, "/api/ready/details", 401),
    ],
)
def test_who_may_ask(make_harness: Callable[..., Harness], settings: dict[str, object], path: str, status: int) -> None:
    """CFG-152, CFG-153, API-47 to API-49: settings open metrics and close readiness; details always need the key."""
    harness = make_harness(settings=settings)
    assert client_of(harness, key=None).simulate_get(path).status_code == status
    assert client_of(harness).simulate_get(path).status_code == 200
