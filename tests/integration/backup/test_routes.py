"""Backups over HTTP (API-44)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from falcon.testing import TestClient

from bulksigner.backup.naming import list_backups
from bulksigner.exposure import expose
from bulksigner.testing.harness import API_KEY
from bulksigner.web.app import create_app


@pytest.fixture
def serving(make_harness: Any, tmp_path: Path) -> tuple[Any, TestClient]:
    """A service that makes backups on request, and a client of it."""
    made = make_harness(settings={"Backup:Enabled": True, "Backup:Disk:Path": str(tmp_path / "b")})
    return made, TestClient(create_app(expose(made.service)), headers={"X-API-Key": API_KEY})


def test_a_backup_is_made_and_shown(serving: Any, tmp_path: Path) -> None:
    """API-44, STA-85, STA-94: 202 with the run's id, then configuration, last success and history."""
    made, client = serving
    before = client.simulate_get("/api/backup").json
    assert before == {
        "supported": True,
        "enabled": True,
        "destination": {"kind": "Disk", "path": str(tmp_path / "b")},
        "intervalHours": None,
        "retainCount": 14,
        "running": None,
        "lastSuccessAtUtc": None,
        "nextDueAtUtc": None,
        "runs": [],
    }
    asked = client.simulate_post("/api/backup")
    assert asked.status_code == 202
    running = client.simulate_get("/api/backup").json["running"]
    assert (running["runId"], running["actor"]) == (asked.json["runId"], "operator")
    again = client.simulate_post("/api/backup")
    assert (again.status_code, again.json["code"]) == (409, "backup.already-running")
    made.service.backups.step()
    after = client.simulate_get("/api/backup").json
    [backup] = list_backups(tmp_path / "b")
    [run] = after["runs"]
    assert (run["runId"], run["result"], run["fileName"]) == (asked.json["runId"], "Succeeded", backup.name)
    assert (run["bytes"], run["reason"]) == (backup.stat().st_size, None)
    assert after["lastSuccessAtUtc"] == run["endedAtUtc"]
    idle = client.simulate_post("/api/backup/cancel")
    assert (idle.status_code, idle.json["code"]) == (409, "backup.not-running")


def test_one_under_way_can_be_cancelled(serving: Any, tmp_path: Path) -> None:
    """API-44: 202 with the id of the run that ends."""
    made, client = serving
    asked = client.simulate_post("/api/backup").json["runId"]
    answer = client.simulate_post("/api/backup/cancel")
    assert (answer.status_code, answer.json["runId"]) == (202, asked)
    made.service.backups.step()
    assert client.simulate_get("/api/backup").json["runs"][0]["result"] == "Canceled"
    assert list_backups(tmp_path / "b") == []


@pytest.mark.parametrize("database", ["off", "server"])
def test_where_there_are_none_it_is_said(make_harness: Any, request: pytest.FixtureRequest, database: str) -> None:
    """API-44: backups off, or the database is a server's: 409, and the page tells which of the two."""
    url = request.getfixturevalue("postgres_url") if database == "server" else None
    made = make_harness(database_url=url)
    client = TestClient(create_app(expose(made.service)), headers={"X-API-Key": API_KEY})
    for path in ("/api/backup", "/api/backup/cancel"):
        answer = client.simulate_post(path)
        assert (answer.status_code, answer.json["code"]) == (409, "backup.disabled")
    assert client.simulate_get("/api/backup").json == {"supported": url is None, "enabled": False}
