"""The breaker of one watched folder in a service that runs: its neighbours, its end, and the way back (PIPE-47)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bulksigner.exposure import expose
from bulksigner.intake.watcher import FolderWatcher, WatcherState
from bulksigner.jobs.model import Birth
from bulksigner.jobs.states import JobStatus
from bulksigner.records.errors import StoreFailed

SECOND = {
    "Storage:Inputs:1:Name": "second",
    "Signing:Profiles:1:Name": "slips",
    "Signing:Profiles:1:Format": "Cades",
    "Signing:Profiles:1:Certificate:Source": "Pfx",
    "Signing:Profiles:1:Certificate:Pfx:Password": "senha de teste",
    "Storage:Inputs:1:Profile": "slips",
    "WatchedFolder:MaxConsecutiveFailures": 2,
}


def wait_for(look: Callable[[], bool], says: Callable[[], object], limit_seconds: float = 30.0) -> None:
    deadline = time.monotonic() + limit_seconds
    while not look():
        assert time.monotonic() < deadline, says()
        time.sleep(0.01)


@pytest.fixture
def harness(make_harness: Any, leaf: Any, tmp_path: Any) -> Any:
    """A service with two folders, each bound to a profile of its own; two failures in a row stop a watcher."""
    pfx = leaf.write_pfx(tmp_path / "slips.pfx", "senha de teste")
    keys = {"Storage:Inputs:1:Path": str(tmp_path / "second"), "Signing:Profiles:1:Certificate:Pfx:Path": str(pfx)}
    return make_harness(settings=SECOND | keys)


def test_one_folder_stops_the_other_goes_on_and_a_restart_brings_it_back(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-47, API-72: shown as stopped with its error; it does not revive once the cause is mended.

    The neighbour never notices, and the next start signs the file.
    """
    service = harness.service
    enqueue, is_broken = service.queue.enqueue, [True]

    def fail_for_inbox(births: Sequence[Birth]) -> Any:
        if is_broken[0] and any(birth.input_folder == "inbox" for birth in births):
            raise StoreFailed("no answer")
        return enqueue(births)

    monkeypatch.setattr(service.queue, "enqueue", fail_for_inbox)
    monkeypatch.setattr(FolderWatcher, "_backoff_seconds", lambda _: 0.0)
    service.start()
    waiting = harness.drop("waiting.rem", b"waiting")
    statuses = service.watchers.statuses
    wait_for(lambda: statuses()[0].state is WatcherState.STOPPED, statuses)
    stopped, second = expose(service).list_folders()
    assert (stopped.status, second.status) == ("Stopped", "Running")
    assert stopped.last_error is not None
    assert "no answer" in stopped.last_error
    thread = service.watchers._watchers["inbox"]._thread
    thread.join(30)
    assert not thread.is_alive()

    harness.drop("other.rem", b"other", folder="second")
    wait_for(harness.output("other.rem.p7m").exists, harness.jobs)
    assert [status.state for status in statuses()] == [WatcherState.STOPPED, WatcherState.RUNNING]

    is_broken[0] = False
    service.watchers.look_again()
    harness.drop("another.rem", b"another")
    harness.drop("third.rem", b"third", folder="second")
    wait_for(harness.output("third.rem.p7m").exists, harness.jobs)
    assert [status.state for status in statuses()] == [WatcherState.STOPPED, WatcherState.RUNNING]
    assert not service.readiness.report().ready
    assert waiting.exists()
    assert {job.input_folder for job in harness.jobs()} == {"second"}

    harness.restart()
    harness.service.start()
    wait_for(lambda: len(harness.outputs()) == 4, harness.jobs)
    wait_for(lambda: harness.service.jobs.counts()[JobStatus.COMPLETED] == 4, harness.jobs)
    assert harness.service.readiness.report().ready
    assert not waiting.exists()
