"""Clean-up over HTTP, the commands, and a service without a policy (STA-74, STA-102, API-37, API-102)."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from falcon.testing import TestClient

from bulksigner import panels
from bulksigner.cli import main
from bulksigner.exposure import expose
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import EventRow
from bulksigner.retention.records import last_run, release_lease, take_lease
from bulksigner.testing.harness import API_KEY
from bulksigner.web.app import create_app

Capture = pytest.CaptureFixture[str]
POLICY = {"Retention:Enabled": True, "Retention:Mode": "Enforce", "Retention:Orphans:KeepDays": 30}


def client_of(made: Any) -> TestClient:
    return TestClient(create_app(expose(made.service)), headers={"X-API-Key": API_KEY})


def add_orphan(made: Any) -> Path:
    path: Path = made.service.roots.error / "orphan"
    path.mkdir()
    os.utime(path, (1_600_000_000, 1_600_000_000))
    return path


@pytest.fixture
def made(make_harness: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A service with a policy; commands find its settings."""
    service = make_harness(settings=POLICY)
    for name, value in service.environ.items():
        monkeypatch.setenv(name, value)
    return service


def test_without_a_policy_nothing_is_removed_and_nothing_is_there(make_harness: Any) -> None:
    """STA-102, STA-104, API-37: the answer says so and is all there is: no thread, no folder, no row, no event."""
    made = make_harness()
    orphan = add_orphan(made)
    before = sorted(str(path) for path in made.root.rglob("*"))
    for body in (None, b"", b'{"dryRun": false}'):
        answer = client_of(made).simulate_post("/api/cleanup", body=body)
        assert (answer.status_code, answer.json) == (
            200,
            {"message": "No retention policy is configured; nothing was removed."},
        )
    assert orphan.exists()
    assert sorted(str(path) for path in made.root.rglob("*")) == before
    assert made.service.retention is None
    assert last_run(made.service.store) is None


def test_clean_up_over_http(made: Any) -> None:
    """STA-74, API-102: a preview until acknowledged, 409 for more, counts by class, 409 while another runs."""
    orphan, client, store = add_orphan(made), client_of(made), made.service.store
    first = client.simulate_post("/api/cleanup").json
    assert (first["enabled"], first["dryRun"], first["acknowledged"]) == (True, True, False)
    assert first["classes"] == [
        {"class": "Orphans", "matched": 1, "removed": 1, "moved": 0, "kept": 0, "failed": 0, "bytes": 0}
    ]
    refused = client.simulate_post("/api/cleanup", json={"dryRun": False})
    assert (refused.status_code, refused.json["code"]) == (409, "retention.not-acknowledged")
    assert orphan.exists()
    assert main(["retention", "acknowledge", "--preview", first["runId"], "--by", "Ana"]) == 0
    assert take_lease(store, "another", made.service.retention._retention.clock())
    busy = client.simulate_post("/api/cleanup")
    assert (busy.status_code, busy.json["code"]) == (409, "retention.already-running")
    release_lease(store, "another")
    assert client.simulate_post("/api/cleanup", json={"dryRun": True}).json["dryRun"] is True
    assert orphan.exists()
    done = client.simulate_post("/api/cleanup").json
    assert (done["dryRun"], done["acknowledged"], done["classes"][0]["removed"]) == (False, True, 1)
    assert not orphan.exists()
    assert len(list((made.root / "retention").iterdir())) == 1


@pytest.mark.parametrize(
    ("body", "query"),
    [
        (b"{", ""),
        (b"[]", ""),
        (b'{"dryRun": "no"}', ""),
        (b'{"dryRun": 0}', ""),
        (b'{"dryrun": true}', ""),
        (b"", "dryRun=true"),
        (b'{"dryRun": true}', "x=1"),
    ],
)
def test_a_wish_that_cannot_be_read_is_refused(made: Any, body: bytes, query: str) -> None:
    """API-37: it is never taken for leave to remove, wherever it stands and however it is spelled."""
    answer = client_of(made).simulate_post("/api/cleanup", body=body, query_string=query)
    assert (answer.status_code, answer.json["code"]) == (400, "request.invalid")
    assert last_run(made.service.store) is None


def test_the_way_by_commands(made: Any, capsys: Capture) -> None:
    """STA-70 to STA-73: preview, acknowledge, run, status; each says what comes next."""
    orphan = add_orphan(made)
    capsys.readouterr()
    assert main(["retention", "run"]) == 1
    assert "bulksigner retention preview" in capsys.readouterr().err
    assert main(["retention", "preview", "--list"]) == 0
    shown = capsys.readouterr().out
    assert f"GOES  Orphans   {orphan}" in shown
    assert "1 old enough, 1 removed" in shown
    preview = last_run(made.service.store)
    assert preview is not None
    assert f"bulksigner retention acknowledge --preview {preview.id}" in shown
    for wrong in ([], ["--preview", "another"]):
        assert main(["retention", "acknowledge", *wrong]) == 1
    capsys.readouterr()
    assert main(["retention", "acknowledge", "--preview", preview.id, "--by", "Ana"]) == 0
    assert "Acknowledged by Ana: Orphans>30d." in capsys.readouterr().out
    assert main(["retention", "run", "--by", "Ana"]) == 0
    assert "1 item(s) were let go" in capsys.readouterr().out
    assert not orphan.exists()
    assert main(["retention", "status"]) == 0
    shown = capsys.readouterr().out
    assert "enforcing Orphans>30d (acknowledged 20" in shown
    assert "by Ana" in shown
    prepared = Prepared(EventRow.select(EventRow.facts).where(EventRow.event_type == "RetentionApplied"))
    store = made.service.store
    [row] = store.read(lambda: store.execute(prepared).rows)
    facts = json.loads(row[0])
    assert (facts["actor"], facts["classes"]["Orphans"]["removed"]) == ("Ana", 1)
    assert facts["manifest"].endswith(".jsonl")


def test_without_a_policy_the_commands_say_so(
    make_harness: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """STA-104: exit 1 and the key."""
    for name, value in make_harness().environ.items():
        monkeypatch.setenv(name, value)
    assert main(["retention", "preview"]) == 1
    assert "Retention:Enabled" in capsys.readouterr().err


def test_the_panel_and_the_log_tell_of_the_policy(made: Any, capsys: Capture, caplog: pytest.LogCaptureFixture) -> None:
    """STA-80, OPS-31: the row, and a warning while removal waits for a person."""
    panels.show(made.service, ["http://127.0.0.1:1"])
    assert "retention         = preview only (Orphans>30d; not acknowledged)" in capsys.readouterr().out
    assert any("not acknowledged" in record.message for record in caplog.records if record.levelname == "WARNING")


def test_a_service_runs_its_policy_by_itself(make_harness: Any) -> None:
    """STA-106: with an interval and never run before, a preview is made at the start; a stop ends the thread."""
    made = make_harness(settings=POLICY | {"Retention:IntervalHours": 24})
    add_orphan(made)
    made.service.start()

    deadline = time.monotonic() + 20
    while (run := last_run(made.service.store)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (run.actor, run.is_preview, run.tallies["Orphans"]["matched"]) == ("Schedule", True, 1)
    made.close()


def test_old_jobs_go_from_a_whole_service(make_harness: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """STA-62, STA-66, STA-68: by command, with the folders of the settings; a failed file that waits keeps its job."""
    made = make_harness(
        settings={"Retention:Enabled": True, "Retention:Mode": "Enforce", "Retention:Jobs:KeepDays": 90}
    )
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    made.drop("folha.rem", b"signed")
    made.drop("broken.pdf", b"no PDF")
    done, failed = sorted(made.run_until_idle(), key=lambda job: job.file_name == "broken.pdf")
    made.output("folha.rem.p7m").unlink()
    with Path(failed.original_path).open("rb") as waiting:
        assert waiting.read() == b"no PDF"
    store, old = made.service.store, "2020-01-01T00:00:00.000000Z"
    for column in ("created_at", "completed_at"):
        store.write(lambda column=column: store.database.execute_sql(f"UPDATE job SET {column} = '{old}'"))
    shutil.rmtree(made.service.roots.error / failed.id)
    capsys.readouterr()
    assert main(["retention", "preview", "--list"]) == 0
    shown = capsys.readouterr().out
    assert f"GOES  Jobs      folha.rem {done.id}" in shown
    assert f"KEPT  Jobs      broken.pdf {failed.id}  (its input is still there)" in shown
    preview = last_run(store)
    assert preview is not None
    assert main(["retention", "acknowledge", "--preview", preview.id, "--by", "Ana"]) == 0
    answer = client_of(made).simulate_post("/api/cleanup").json
    assert answer["classes"] == [
        {"class": "Jobs", "matched": 2, "removed": 1, "moved": 0, "kept": 1, "failed": 0, "bytes": 0}
    ]
    assert [job.id for job in made.jobs()] == [failed.id]
    assert made.service.figures.read().total.count == 1
    made.drop("folha.rem", b"again")
    made.run_until_idle()
    refused = {job.file_name: job.error_code for job in made.jobs()}
    assert refused["folha.rem"] == "file.already-processed"
