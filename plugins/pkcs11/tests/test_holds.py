"""A profile whose token is away, or refuses its PIN, is held: no job fails, and all are signed later (BEY-20)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from bulksigner.testing.harness import OPERATOR, Harness
from bulksigner_pkcs11.settings import DEFAULT_VARIABLE

HOLDING = {"Pipeline:HoldOnKeyTrouble": True}
NEW_PIN = "567890"
FILES = 50


def turn(service: Harness, times: int = 3, *, probes: bool = True) -> None:
    """Let everybody take turns, without waiting for an end; what is held is probed at each."""
    for _ in range(times):
        service.service.watchers.step()
        service.service.worker.step()
        if probes:
            service.probe_holds()
        service.service.profile_watch.step()


def statuses(service: Harness) -> Counter[str]:
    return Counter(job.status.value for job in service.jobs())


def drop_and_turn(service: Harness, count: int = FILES, before: int = 0, *, probes: bool = True) -> None:
    """Drop files and go on until each has a job, and a little longer."""
    for number in range(count):
        service.drop(f"{number}.txt", f"file {number}".encode())
    while sum(statuses(service).values()) < count + before:
        turn(service, times=1, probes=probes)
    turn(service, probes=probes)


def completed_once(service: Harness, count: int) -> None:
    """See that each file has one job and one output, and that none failed."""
    service.probe_holds()
    jobs = service.run_until_idle()
    assert Counter(job.status.value for job in jobs) == {"Completed": count}
    assert len({job.file_name for job in jobs}) == count
    assert len(service.outputs()) == count


def test_a_token_that_is_away_while_files_wait(make_service: Callable[..., Harness], token: Any, around: Any) -> None:
    """BEY-20, BEY-51: 50 files wait Queued, none fails; with the token back each is signed exactly once."""
    service = make_service(around.module, settings=HOLDING)
    service.drop("first.txt", b"first")
    service.run_until_idle()
    token.take_away()
    drop_and_turn(service, before=1)
    assert statuses(service) == {"Queued": FILES, "Completed": 1}
    row = {row.name: row for row in service.service.readiness.report().rows}["signing-profile:default"]
    assert (row.ok, row.gating) == (False, False)
    assert "held since" in row.detail
    assert not list((service.root / "processing").iterdir())
    given_back = [entry for job in service.jobs() for entry in service.history(job) if "Given back" in entry.message]
    assert len(given_back) == 1
    token.bring_back()
    completed_once(service, FILES + 1)
    kinds = service.event_kinds()
    assert (kinds["ProfileHeld"], kinds["ProfileReleased"]) == (1, 1)


def test_a_token_that_is_away_at_the_start(make_service: Callable[..., Harness], token: Any) -> None:
    """BEY-20, OPS-113: the degraded profile is held from the start, and opens by itself when the token comes."""
    token.take_away()
    service = make_service(settings=HOLDING)
    drop_and_turn(service, 3)
    assert statuses(service) == {"Queued": 3}
    token.bring_back()
    completed_once(service, 3)


def test_a_restart_while_held_tells_nothing_twice(make_service: Callable[..., Harness], token: Any) -> None:
    """BEY-20: the jobs stay Queued over the restart; one event each."""
    service = make_service(settings=HOLDING)
    service.drop("first.txt", b"first")
    service.run_until_idle()
    token.take_away()
    drop_and_turn(service, 3, before=1)
    service.restart()
    turn(service)
    assert statuses(service) == {"Queued": 3, "Completed": 1}
    token.bring_back()
    completed_once(service, 4)
    kinds = service.event_kinds()
    assert (kinds["ProfileHeld"], kinds["ProfileReleased"]) == (1, 1)


def test_a_pin_that_was_changed_outside_is_tried_once(
    make_service: Callable[..., Harness], token: Any, around: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-20, BEY-31: one login try however often it is probed; the new value of the variable goes on."""
    service = make_service(around.module, settings=HOLDING)
    service.drop("first.txt", b"first")
    service.run_until_idle()
    token.change_pin(NEW_PIN)
    service.restart()
    drop_and_turn(service, 3, before=1)
    turn(service, times=5)
    assert statuses(service) == {"Queued": 3, "Completed": 1}
    assert around.count("C_Login") == 2
    monkeypatch.setenv(DEFAULT_VARIABLE, NEW_PIN)
    completed_once(service, 4)
    assert around.count("C_Login") == 3


def test_a_call_in_which_the_key_may_have_been_used_fails_one_job(
    make_service: Callable[..., Harness], around: Any
) -> None:
    """BEY-20, BEY-32, PIPE-69: nothing signs twice by itself; the files behind it wait and are signed."""
    service = make_service(around.module, settings=HOLDING)
    service.drop("first.txt", b"first")
    service.run_until_idle()
    around.ask("crash-C_Sign")
    drop_and_turn(service, 5, before=1, probes=False)
    assert statuses(service) == {"Failed": 1, "Queued": 4, "Completed": 1}
    around.take_back("crash-C_Sign")
    service.probe_holds()
    assert Counter(job.status.value for job in service.run_until_idle()) == {"Failed": 1, "Completed": 5}


def test_other_profiles_go_on_and_a_queued_job_can_be_canceled(
    make_service: Callable[..., Harness], token: Any
) -> None:
    """BEY-20: what waits behind a held profile is signed; cancel and pause work as ever."""
    other = "Signing:Profiles:1"
    password = "uma senha a mais"
    settings = {
        **HOLDING,
        f"{other}:Name": "other",
        f"{other}:Format": "Cades",
        f"{other}:Policy": "B-B",
        f"{other}:Certificate:Source": "Pfx",
        f"{other}:Certificate:Pfx:Path": str(token.rsa.write_pfx(token.folder.parent / "other.pfx", password)),
        f"{other}:Certificate:Pfx:Password": password,
    }
    token.take_away()
    service = make_service(settings=settings)
    drop_and_turn(service, 2)
    service.upload("other.txt", b"other", profile="other")
    turn(service)
    assert statuses(service) == {"Queued": 2, "Completed": 1}
    waiting = next(job for job in service.jobs() if job.status.value == "Queued")
    operations = service.service.operations
    operations.operator.cancel(waiting.id, OPERATOR)
    operations.pausing.pause(OPERATOR)
    token.bring_back()
    turn(service)
    assert statuses(service) == {"Queued": 1, "Canceled": 1, "Completed": 1}
    operations.pausing.resume(OPERATOR)
    service.probe_holds()
    assert Counter(job.status.value for job in service.run_until_idle()) == {"Canceled": 1, "Completed": 2}
