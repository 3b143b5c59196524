"""Profiles are held for what hits every file alike, and go on by themselves (BEY-20)."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bulksigner.cli.desk import open_desk
from bulksigner.console.profile_panel import find_alerts, list_profiles
from bulksigner.contract.settings import Secret
from bulksigner.jobs.model import utc_now
from bulksigner.profiles import holds as holds_module
from bulksigner.profiles.change import ProfileChange
from bulksigner.testing.authority_server import AuthorityServer, running_authority
from bulksigner.testing.certificates import Authority, Issued, make_authority
from bulksigner.testing.harness import Harness
from bulksigner.trust import timestamping, validation

HOLDING = {"Pipeline:HoldOnKeyTrouble": True}
PASSWORD = "outra senha, bem longa"
DAY = datetime.timedelta(days=1)
Making = Callable[..., Harness]


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe at each look, and let nothing rest."""
    monkeypatch.setattr(holds_module, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(timestamping, "_FIRST_REST", datetime.timedelta())
    monkeypatch.setattr(validation, "_REFUSAL_COUNTS", datetime.timedelta())


@pytest.fixture
def kit() -> Iterator[AuthorityServer]:
    with running_authority(make_authority("Espera")) as server:
        yield server


def wait_held(harness: Harness, count: int = 3) -> str:
    """Drop files, let everybody take turns, see that all of them wait, and return what readiness says."""
    for number in range(count):
        harness.drop(f"{number}.bin", b"content %d" % number)
    while len(harness.jobs()) < count:
        turn(harness)
    for _ in range(3):
        turn(harness)
    assert Counter(job.status.value for job in harness.jobs()) == {"Queued": count}
    row = {row.name: row for row in harness.service.readiness.report().rows}["signing-profile:default"]
    assert (row.ok, row.gating) == (False, False)
    return row.detail


def turn(harness: Harness) -> None:
    harness.service.watchers.step()
    harness.service.worker.step()
    harness.service.profile_watch.step()


def completed_once(harness: Harness, count: int = 3) -> None:
    """See that each file was signed once, and that the hold was told of once and its end once."""
    jobs = harness.run_until_idle()
    assert Counter(job.status.value for job in jobs) == {"Completed": count}
    assert len(harness.outputs()) == count
    kinds = harness.event_kinds()
    assert (kinds["ProfileHeld"], kinds["ProfileReleased"]) == (1, 1)


def move_to(harness: Harness, path: Path) -> None:
    """Give the profile another certificate, as another process does."""
    change = ProfileChange({"Certificate:Pfx:Path": str(path)}, {"Certificate:Pfx:Password": Secret(PASSWORD)})
    with open_desk(harness.environ) as desk:
        desk.editor.edit("default", change, by="operator (command line)")


@pytest.mark.parametrize(("begins", "ends"), [(-2, -1), (1, 2)])
def test_a_certificate_outside_its_validity(
    make_harness: Making, authority: Authority, leaf: Issued, tmp_path: Path, begins: int, ends: int
) -> None:
    """BEY-20, BEY-21: expired or not yet valid, no job fails; a new certificate is tried at once."""
    now = utc_now()
    over = authority.issue(not_before=now + begins * DAY, not_after=now + ends * DAY)
    harness = make_harness(issued=over, settings=HOLDING)
    assert "certificate of signing profile 'default'" in wait_held(harness)
    (hold,) = harness.service.holds._held.values()  # type: ignore[union-attr]  # it is on
    hold.probe_at = float("inf")
    move_to(harness, leaf.write_pfx(tmp_path / "new.pfx", PASSWORD))
    completed_once(harness)


def test_revocation_data_that_cannot_be_had(make_harness: Making, kit: AuthorityServer) -> None:
    """BEY-20, OPS-117: the authority's lists are away; the jobs go on when they come."""
    kit.broken.add("/list.crl")
    harness = make_harness(issued=kit.authority.issue(crl_url=kit.crl_url), settings=HOLDING)
    assert "503" in wait_held(harness)
    kit.broken.clear()
    completed_once(harness)


@pytest.mark.parametrize(("engine", "pause_seconds"), [("InProcess", 0.0), ("Processes", 5.5)])
def test_a_time_stamp_service_that_is_away(
    make_harness: Making, kit: AuthorityServer, monkeypatch: pytest.MonkeyPatch, engine: str, pause_seconds: float
) -> None:
    """BEY-20: met before the key is used, no job fails, on both engines; a worker lets the service rest 5 s."""
    monkeypatch.setattr(holds_module, "FIRST_PAUSE_SECONDS", pause_seconds)
    kit.broken.add("/tsa")
    settings = {
        **HOLDING,
        "Pipeline:MaxConcurrency": 2,
        "Signing:EngineWorkers": 1,
        "Signing:Profiles:0:Policy": "B-T",
        "Signing:Timestamps:0:Url": kit.tsa_url,
    }
    harness = make_harness(issued=kit.authority.issue(), engine=engine, settings=settings)
    assert "No time stamp could be had" in wait_held(harness)
    kit.broken.clear()
    completed_once(harness)


def test_a_stamp_that_fails_after_the_key_was_used(make_harness: Making, kit: AuthorityServer) -> None:
    """BEY-20, PIPE-69: that one job fails, as nothing signs a file twice by itself; those behind it wait."""
    settings = {**HOLDING, "Signing:Profiles:0:Policy": "B-T", "Signing:Timestamps:0:Url": kit.tsa_url}
    harness = make_harness(issued=kit.authority.issue(), settings=settings)
    harness.drop("first.bin", b"first")
    harness.run_until_idle()
    kit.broken.add("/tsa")
    for number in range(3):
        harness.drop(f"{number}.bin", b"content %d" % number)
    while len(harness.jobs()) < 4:
        turn(harness)
    for _ in range(3):
        turn(harness)
    assert Counter(job.status.value for job in harness.jobs()) == {"Completed": 1, "Failed": 1, "Queued": 2}
    kit.broken.clear()
    assert Counter(job.status.value for job in harness.run_until_idle()) == {"Completed": 3, "Failed": 1}


def test_a_key_file_that_is_gone_at_the_start(make_harness: Making, leaf: Issued, tmp_path: Path) -> None:
    """BEY-20, OPS-33: the degraded profile is held and opens by itself; the panel's alert says so."""
    path = tmp_path / "later.pfx"
    certificate = "Signing:Profiles:0:Certificate:Pfx"
    settings = {**HOLDING, f"{certificate}:Path": str(path), f"{certificate}:Password": PASSWORD}
    harness = make_harness(settings=settings)
    assert "later.pfx" in wait_held(harness)
    service = harness.service
    shown = list_profiles(service.profiles, {"inbox"}, service.holds)
    assert "its jobs wait" in find_alerts(shown, now=utc_now())[0].text
    leaf.write_pfx(path, PASSWORD)
    completed_once(harness)


def test_a_hold_outlives_a_restart_and_is_told_once(make_harness: Making, kit: AuthorityServer) -> None:
    """BEY-20, BEY-51: known from the start, so that no job uses a key to find it out again."""
    kit.broken.add("/tsa")
    settings = {**HOLDING, "Signing:Profiles:0:Policy": "B-T", "Signing:Timestamps:0:Url": kit.tsa_url}
    harness = make_harness(issued=kit.authority.issue(), settings=settings)
    wait_held(harness)
    since = harness.service.holds.find("default").since  # type: ignore[union-attr]  # it is on, and held
    harness.restart()
    hold = harness.service.holds.find("DEFAULT")  # type: ignore[union-attr]
    assert hold is not None
    assert hold.since == since
    assert harness.service.worker.step() == 0
    kit.broken.clear()
    completed_once(harness)


def test_a_hold_ends_where_holding_is_switched_off(make_harness: Making, leaf: Issued, tmp_path: Path) -> None:
    """BEY-20, CFG-202: the hold ends with its event, its jobs fail, and the next trouble is a hold of its own."""
    path = tmp_path / "later.pfx"
    certificate = "Signing:Profiles:0:Certificate:Pfx"
    harness = make_harness(settings={**HOLDING, f"{certificate}:Path": str(path), f"{certificate}:Password": PASSWORD})
    wait_held(harness)
    since = harness.service.holds.find("default").since  # type: ignore[union-attr]  # it is on, and held
    switch(harness, is_on=False)
    assert {job.error_code for job in harness.run_until_idle()} == {"profile.degraded"}
    kinds = harness.event_kinds()
    assert (kinds["ProfileHeld"], kinds["ProfileReleased"]) == (1, 1)
    switch(harness, is_on=True)
    turn(harness)
    hold = harness.service.holds.find("default")  # type: ignore[union-attr]
    assert hold is not None
    assert hold.since > since
    assert harness.event_kinds()["ProfileHeld"] == 2


def switch(harness: Harness, *, is_on: bool) -> None:
    """Begin the next life with holding on or off."""
    harness.close()
    path = harness.folder / "settings.json"
    keys = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**keys, "Pipeline:HoldOnKeyTrouble": is_on}), encoding="utf-8")


def test_without_the_setting_jobs_fail(make_harness: Making, authority: Authority) -> None:
    """BEY-20, PIPE-71: the default is as it was, and nothing is held."""
    now = utc_now()
    harness = make_harness(issued=authority.issue(not_before=now - 2 * DAY, not_after=now - DAY))
    assert harness.service.holds is None
    harness.drop("a.bin", b"content")
    assert [job.error_code for job in harness.run_until_idle()] == ["sign.certificate-invalid"]


def test_probes_come_less_often_while_the_cause_stays(
    make_harness: Making, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-20: the pause between two probes doubles up to a limit."""
    monkeypatch.setattr(holds_module, "FIRST_PAUSE_SECONDS", 10.0)
    now = utc_now()
    harness = make_harness(issued=authority.issue(not_before=now - 2 * DAY, not_after=now - DAY), settings=HOLDING)
    holds = harness.service.holds
    assert holds is not None
    pauses = []
    for _ in range(7):
        hold = holds.find("default")
        assert hold is not None
        pauses.append(hold.pause_seconds)
        holds.step()
        assert hold.pause_seconds == pauses[-1]
        hold.probe_at = 0.0
        holds.step()
    assert pauses == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
