"""Edits from another process reach a running service: keys, folders, states (CFG-85, PIPE-39, PIPE-59, PIPE-71)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner.cli.desk import open_desk
from bulksigner.contract.errors import BulkSignerError, NotAllowed
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check as check_signature
from bulksigner.formats.model import Expectation
from bulksigner.intake.watcher import WatcherState
from bulksigner.jobs.states import JobStatus
from bulksigner.pipeline.tasks import SignTask
from bulksigner.profiles.change import ProfileChange
from bulksigner.records.engines import EngineKind
from bulksigner.testing.certificates import Authority, Issued
from bulksigner.testing.harness import Harness

PASSWORD, OTHER_PASSWORD = "senha de teste", "outra senha, bem longa"
PATIENCE_SECONDS = 30


@pytest.fixture
def save() -> Callable[..., None]:
    """Save a change as another process does: with a database connection, and a seal, of its own."""

    def act(harness: Harness, name: str, change: ProfileChange) -> None:
        with open_desk(harness.environ) as desk:
            desk.editor.edit(name, change, by="operator (command line)")

    return act


@pytest.fixture(scope="module")
def other(authority: Authority) -> Issued:
    """A second certificate."""
    return authority.issue()


def moved_to(path: Path, password: str = OTHER_PASSWORD) -> ProfileChange:
    return ProfileChange({"Certificate:Pfx:Path": str(path)}, {"Certificate:Pfx:Password": Secret(password)})


def signer_of(harness: Harness, name: str, content: bytes, *candidates: Issued) -> Issued:
    """Return whose certificate a signed file checks out against."""
    for issued in candidates:
        expectation = Expectation(
            Format.CADES, issued.certificate_der, Measured(len(content), hashlib.sha256(content).digest())
        )
        try:
            with harness.output(name).open("rb") as artifact:
                check_signature(artifact, expectation, pem=False)
        except BulkSignerError:
            continue
        return issued
    raise AssertionError(f"{name} is signed by none of the candidates")


def rows(harness: Harness) -> dict[str, Any]:
    return {row.name: row for row in harness.service.readiness.report().rows}


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
def test_a_changed_certificate_signs_without_a_restart(
    engine: str, make_harness: Any, leaf: Issued, other: Issued, save: Any, tmp_path: Path
) -> None:
    """CFG-85, PERF-06: jobs before the edit have the former certificate, jobs after it the new one, verified."""
    harness = make_harness(engine=engine, settings={"Pipeline:MaxConcurrency": 2, "Signing:EngineWorkers": 2})
    harness.drop("first.rem", b"first")
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED]
    save(harness, "default", moved_to(other.write_pfx(tmp_path / "other.pfx", OTHER_PASSWORD)))
    harness.drop("second.rem", b"second")
    jobs = harness.run_until_idle()
    assert [job.status for job in jobs] == [JobStatus.COMPLETED] * 2, [job.error_message for job in jobs]
    assert signer_of(harness, "first.rem.p7m", b"first", leaf, other) is leaf
    assert signer_of(harness, "second.rem.p7m", b"second", leaf, other) is other
    assert str(tmp_path / "other.pfx") in rows(harness)["signing-profile:default"].detail


def test_a_job_under_way_ends_with_the_key_it_began_with(
    make_harness: Any, leaf: Issued, other: Issued, save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-37, PIPE-79: an edit between two steps neither fails the job nor swaps its certificate."""
    harness = make_harness()
    service = harness.service
    before = service.profiles.get("default")
    edited: list[bool] = []

    def edit(_: object) -> None:
        edited.append(True)
        save(harness, "default", moved_to(other.write_pfx(tmp_path / "other.pfx", OTHER_PASSWORD)))
        assert service.profile_watch.step()

    harness.before_task(SignTask, edit)
    harness.drop("first.rem", b"first")
    (job,) = harness.run_until_idle()
    assert edited
    assert job.status is JobStatus.COMPLETED, job.error_message
    assert signer_of(harness, "first.rem.p7m", b"first", leaf, other) is leaf
    assert before is not None
    assert service.profiles.get("default").key is not before.key


def test_the_former_key_is_closed_once_nothing_uses_it(
    make_harness: Any, other: Issued, save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CFG-85: not while a job may still sign with it, and not only at the end of the service."""
    harness = make_harness()
    service = harness.service
    held = service.profiles.get("default")
    closed: list[bool] = []
    key = held.key
    monkeypatch.setattr(type(key), "close", lambda one: closed.append(one is key))
    save(harness, "default", moved_to(other.write_pfx(tmp_path / "other.pfx", OTHER_PASSWORD)))
    service.profile_watch.step()
    assert closed == []
    reference = held.key_reference
    assert reference is not None
    assert reference.profile in service.engine._keys
    del held
    assert closed == [True]
    assert reference.profile not in service.engine._keys


def test_a_degraded_profile_heals_when_it_is_mended(make_harness: Any, save: Any, tmp_path: Path, leaf: Issued) -> None:
    """OPS-33, OPS-116, API-86, PIPE-71: red and refusing until the save that names the right file."""
    harness = make_harness(settings={"Signing:Profiles:0:Certificate:Pfx:Path": str(tmp_path / "nowhere.pfx")})
    harness.drop("first.rem", b"first")
    (job,) = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "profile.degraded")
    assert not rows(harness)["signing-profile:default"].ok
    save(harness, "default", moved_to(leaf.write_pfx(tmp_path / "there.pfx", OTHER_PASSWORD)))
    harness.run_until_idle()
    assert rows(harness)["signing-profile:default"].ok
    again = harness.retry(job)
    assert {one.id: one.status for one in harness.run_until_idle()}[again.id] is JobStatus.COMPLETED


def test_a_changed_certificate_that_does_not_open_leaves_the_former_in_force(
    make_harness: Any, leaf: Issued, other: Issued, save: Any, tmp_path: Path
) -> None:
    """CFG-85, API-86: jobs go on under the one in force, the row says why, and the next save mends it."""
    harness = make_harness()
    harness.run_until_idle()
    save(harness, "default", ProfileChange({"Certificate:Pfx:Path": str(tmp_path / "nowhere.pfx"), "Verify": "false"}))
    harness.drop("first.rem", b"first")
    (job,) = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED
    assert signer_of(harness, "first.rem.p7m", b"first", leaf, other) is leaf
    row = rows(harness)["signing-profile:default"]
    assert (row.ok, row.gating) == (False, False)
    assert "nowhere.pfx" in row.detail
    assert "Jobs are signed with the one in force" in row.detail
    profile = harness.service.profiles.get("default")
    assert not profile.stored.verify
    save(harness, "default", ProfileChange({"Verify": "true"}))
    harness.service.profile_watch.step()
    assert harness.service.profiles.get("default").pending == profile.pending
    save(harness, "default", moved_to(other.write_pfx(tmp_path / "other.pfx", OTHER_PASSWORD)))
    harness.drop("second.rem", b"second")
    harness.run_until_idle()
    assert signer_of(harness, "second.rem.p7m", b"second", leaf, other) is other
    assert rows(harness)["signing-profile:default"].ok


def test_a_file_replaced_in_its_place_is_opened_on_demand(
    make_harness: Any, leaf: Issued, other: Issued, save: Any
) -> None:
    """OPS-228: nothing notices the file itself; the save that asks for it does."""
    harness = make_harness()
    harness.run_until_idle()
    other.write_pfx(harness.folder / "certificate.pfx", PASSWORD)
    harness.drop("first.rem", b"first")
    harness.run_until_idle()
    assert signer_of(harness, "first.rem.p7m", b"first", leaf, other) is leaf
    save(harness, "default", ProfileChange(reopens=True))
    harness.drop("second.rem", b"second")
    harness.run_until_idle()
    assert signer_of(harness, "second.rem.p7m", b"second", leaf, other) is other


def test_a_disabled_profile_takes_nothing_new_while_its_queue_runs(make_harness: Any) -> None:
    """PIPE-39, PIPE-37: queued jobs run, uploads are refused until it is enabled."""
    harness = make_harness()
    harness.run_until_idle()
    with open_desk(harness.environ) as desk:
        change = ProfileChange(
            {"Format": "Cades", "Certificate:Pfx:Path": str(harness.folder / "certificate.pfx")},
            {"Certificate:Pfx:Password": Secret(PASSWORD)},
        )
        desk.editor.create("slips", change, by="operator")
        harness.service.profile_watch.step()
        queued = harness.upload("queued.rem", b"queued", profile="slips")
        desk.editor.edit("slips", ProfileChange({"Enabled": "false"}), by="operator")
        harness.service.profile_watch.step()
        with pytest.raises(NotAllowed) as caught:
            harness.upload("late.rem", b"late", profile="slips")
        assert caught.value.code == "profile.disabled"
        assert [(job.id, job.status) for job in harness.run_until_idle()] == [(queued.id, JobStatus.COMPLETED)]
        desk.editor.edit("slips", ProfileChange({"Enabled": "true"}), by="operator")
    harness.service.profile_watch.step()
    harness.upload("late.rem", b"late", profile="slips")
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED] * 2


@pytest.mark.parametrize("kind", list(EngineKind), ids=lambda kind: kind.value)
def test_a_folder_is_let_go_of_and_given_back(
    kind: EngineKind, make_harness: Any, save: Any, request: pytest.FixtureRequest
) -> None:
    """PIPE-56, PIPE-59, PIPE-60: files wait while it belongs to nobody, and are taken without a rescan afterwards."""
    url = request.getfixturevalue("postgres_url") if kind is EngineKind.POSTGRESQL else None
    harness = make_harness(database_url=url)
    service = harness.service
    save(harness, "default", ProfileChange(folder=None))
    harness.drop("first.rem", b"first")
    assert harness.run_until_idle() == []
    assert harness.input_folder().joinpath("first.rem").exists()
    assert rows(harness)["input-folder:inbox"].detail.startswith("no profile chose this folder")
    save(harness, "default", ProfileChange(folder="inbox"))
    (job,) = harness.run_until_idle()
    assert (job.status, job.profile_name, job.input_folder) == (JobStatus.COMPLETED, "default", "inbox")
    assert service.profiles.bound("inbox").name == "default"


@pytest.mark.parametrize("kind", list(EngineKind), ids=lambda kind: kind.value)
def test_a_folder_moves_to_another_profile_with_jobs_queued(
    kind: EngineKind,
    make_harness: Any,
    save: Any,
    leaf: Issued,
    other: Issued,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """PIPE-37, PIPE-59: queued jobs keep their profile, later files have the new one, each is signed once."""
    harness = make_harness(
        database_url=request.getfixturevalue("postgres_url") if kind is EngineKind.POSTGRESQL else None,
        settings={
            "Signing:Profiles:1:Name": "slips",
            "Signing:Profiles:1:Format": "Cades",
            "Signing:Profiles:1:Certificate:Source": "Pfx",
            "Signing:Profiles:1:Certificate:Pfx:Path": str(other.write_pfx(tmp_path / "other.pfx", OTHER_PASSWORD)),
            "Signing:Profiles:1:Certificate:Pfx:Password": OTHER_PASSWORD,
        },
    )
    service = harness.service
    harness.drop("queued.rem", b"queued")
    service.watchers.step()
    assert [(job.status, job.profile_name) for job in harness.jobs()] == [(JobStatus.QUEUED, "default")]
    save(harness, "default", ProfileChange(folder=None))
    assert service.profile_watch.step()
    harness.drop("between.rem", b"between")
    for _ in range(3):
        service.watchers.step()
    assert len(harness.jobs()) == 1
    save(harness, "slips", ProfileChange(folder="inbox"))
    assert service.profile_watch.step()
    harness.drop("later.rem", b"later")
    jobs = harness.run_until_idle()
    assert sorted((job.file_name, job.profile_name, job.status) for job in jobs) == [
        ("between.rem", "slips", JobStatus.COMPLETED),
        ("later.rem", "slips", JobStatus.COMPLETED),
        ("queued.rem", "default", JobStatus.COMPLETED),
    ]
    signers = {name: leaf if name == "queued" else other for name in ("queued", "between", "later")}
    for name, issued in signers.items():
        assert signer_of(harness, f"{name}.rem.p7m", name.encode(), leaf, other) is issued
    assert list(harness.input_folder().iterdir()) == []


def test_a_running_service_rebinds_its_watcher(make_harness: Any, save: Any) -> None:
    """PIPE-59: threads and all, both ways, without a file event."""
    harness = make_harness(settings={"Pipeline:PollIntervalSeconds": 1})
    service = harness.service
    save(harness, "default", ProfileChange(folder=None))
    service.profile_watch.step()
    harness.drop("first.rem", b"first")
    service.start()
    save(harness, "default", ProfileChange(folder="inbox"))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not harness.output("first.rem.p7m").exists():
        assert time.monotonic() < deadline, harness.jobs()
        time.sleep(0.05)
    save(harness, "default", ProfileChange(folder=None))
    while service.watchers.statuses()[0].state is not WatcherState.UNASSIGNED:
        assert time.monotonic() < deadline, service.watchers.statuses()
        time.sleep(0.05)


def test_a_binding_to_a_folder_that_is_gone_is_told(make_harness: Any, save: Any) -> None:
    """PIPE-61, API-88: red and not gating, the profile serves uploads, and unbinding takes the row away."""
    harness = make_harness()
    harness.service  # noqa: B018 - the first start imports the binding
    harness.close()
    again = make_harness(
        settings={
            "Storage:Inputs:0:Name": "other",
            "Storage:Root": str(harness.root),
            "ConnectionStrings:Default": str(harness.root / "db" / "bulksigner.db"),
        }
    )
    row = rows(again)["profile-input-folder:default"]
    assert (row.ok, row.gating) == (False, False)
    assert "'inbox'" in row.detail
    assert again.service.readiness.report().ready
    again.upload("first.rem", b"first")
    assert [job.status for job in again.run_until_idle()] == [JobStatus.COMPLETED]
    save(again, "default", ProfileChange(folder=None))
    again.run_until_idle()
    assert "profile-input-folder:default" not in rows(again)


def test_a_new_profile_signs_at_once(make_harness: Any) -> None:
    """DSH-109, CFG-85: created, opened and used without a restart."""
    harness = make_harness()
    harness.run_until_idle()
    change = ProfileChange(
        {"Format": "Cades", "SaveAsPem": "true", "Certificate:Pfx:Path": str(harness.folder / "certificate.pfx")},
        {"Certificate:Pfx:Password": Secret(PASSWORD)},
    )
    with open_desk(harness.environ) as desk:
        desk.editor.create("slips", change, by="operator")
    harness.service.profile_watch.step()
    harness.upload("first.rem", b"first", profile="slips")
    (job,) = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED
    assert harness.outputs() == ["first.rem.pem"]
