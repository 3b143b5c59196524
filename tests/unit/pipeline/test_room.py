"""A work root without room: nothing is claimed, nothing fails, and it goes on by itself."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import Any

import pytest

from bulksigner.files.work import WorkRoots
from bulksigner.jobs.states import JobStatus
from bulksigner.observability.logs import facts
from bulksigner.pipeline.room import AMPLE_BYTES, MINIMUM_FREE_BYTES, Room

MIB = 1 << 20


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A volume whose size and free space a test sets, in bytes."""
    sizes = {"free": 10 * MINIMUM_FREE_BYTES, "total": 100 * MINIMUM_FREE_BYTES}
    monkeypatch.setattr(WorkRoots, "free_bytes", lambda _: sizes["free"])
    monkeypatch.setattr(WorkRoots, "total_bytes", lambda _: sizes["total"])
    return sizes


def room_of(rig: Any) -> Room:
    return Room(rig.roots, lambda: rig.queue.next_paths(2))


def test_a_full_disk_costs_no_job(rig: Any, volume: dict[str, int], caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-129, BEY-22: jobs stay Queued, one Warning for each episode, and work goes on when there is space."""
    caplog.set_level(logging.INFO)
    jobs = [rig.drop(f"{number}.rem") for number in range(3)]
    worker = rig.worker(slots=3, find_shortage=room_of(rig).why_not)
    volume["free"] = MINIMUM_FREE_BYTES - 1
    assert [worker.step() for _ in range(3)] == [0, 0, 0]
    assert {rig.job(job).status for job in jobs} == {JobStatus.QUEUED}
    [warning] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert f"{rig.roots.root} has 256.0 MiB free and 256.0 MiB are the least" in warning.getMessage()
    volume["free"] = MINIMUM_FREE_BYTES
    assert worker.step() == 3
    assert {rig.job(job).status for job in jobs} == {JobStatus.COMPLETED}
    volume["free"] = 0
    worker.step()
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 2


def test_a_file_needs_three_times_its_size(rig: Any, volume: dict[str, int]) -> None:
    """PIPE-129: with less, its job waits, and the reason names the file."""
    rig.drop("small.rem")
    large = rig.drop("large.rem")
    with Path(large.original_path).open("wb") as file:
        file.truncate(200 * MIB)
    volume["free"] = 600 * MIB - 1
    reason = room_of(rig).why_not()
    assert str(reason).startswith(f"{large.original_path} has 200.0 MiB")
    volume["free"] = 600 * MIB
    assert room_of(rig).why_not() is None
    assert room_of(rig).look() == (True, "600.0 MiB free")


def test_sizes_are_looked_at_only_when_space_is_scarce(rig: Any, volume: dict[str, int]) -> None:
    """PERF-08: a claim on a roomy volume asks the database nothing more."""
    volume["free"] = AMPLE_BYTES
    room = Room(rig.roots, lambda: pytest.fail("the queue was asked"))
    assert room.why_not() is None


def test_a_small_volume_keeps_a_part_free(rig: Any, volume: dict[str, int]) -> None:
    """BEY-22: the minimum does not rule out a volume that is smaller than it."""
    volume |= {"free": 2 * MIB, "total": 16 * MIB}
    assert room_of(rig).why_not() is None
    volume["free"] -= 1
    assert not room_of(rig).look()[0]


def test_a_step_that_meets_a_full_disk_says_what_to_do(rig: Any, caplog: pytest.LogCaptureFixture) -> None:
    """BEY-22, BEY-60: the job's text names the root to free, also when only a worker's words arrive."""

    def fail(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for error in (fail, lambda _: (_ for _ in ()).throw(RuntimeError("[Errno 28] No space left on device"))):
        rig.engine.act = error
        job = rig.run(f"{id(error)}.rem")
        assert job.status is JobStatus.FAILED
        assert job.error_message.endswith(f"Free space below {rig.roots.root}, then retry the job.")
        assert facts(job_id=job.id, file_name=job.file_name, profile="default", code="sign.failed") in [
            {"facts": getattr(record, "facts", None)} for record in caplog.records
        ]
