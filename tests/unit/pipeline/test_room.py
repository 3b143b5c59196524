"""A work root without room: nothing is claimed, nothing fails, and it goes on by itself."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from bulksigner.files.volumes import Volume
from bulksigner.jobs.model import Job
from bulksigner.jobs.states import JobStatus
from bulksigner.observability.logs import facts
from bulksigner.pipeline.room import AMPLE_BYTES, Room

MIB = 1 << 20
GIB = 1 << 30
LEAST = 256 * MIB


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The size and the free space of every volume, in bytes, as a test sets them."""
    sizes = {"free": 10 * LEAST, "total": 100 * LEAST}
    monkeypatch.setattr(Volume, "free_bytes", lambda _: sizes["free"])
    monkeypatch.setattr(Volume, "total_bytes", lambda _: sizes["total"])
    return sizes


def room_of(rig: Any, least: int = LEAST) -> Room:
    return Room([Volume(rig.roots.root)], least, rig.queue.waiting)


def drop(rig: Any, name: str, size: int) -> Job:
    """Enqueue a file of some size that takes no space."""
    job: Job = rig.drop(name)
    with Path(job.original_path).open("r+b") as file:
        file.truncate(size)
    return job


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_full_disk_costs_no_job(rig: Any, sizes: dict[str, int], caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-129, BEY-22: jobs stay Queued, one Warning for each episode, and work goes on when there is space."""
    caplog.set_level(logging.INFO)
    jobs = [rig.drop(f"{number}.rem") for number in range(3)]
    worker = rig.worker(slots=3, choose=room_of(rig).choose)
    sizes["free"] = LEAST - 1
    assert [worker.step() for _ in range(3)] == [0, 0, 0]
    assert {rig.job(job).status for job in jobs} == {JobStatus.QUEUED}
    [warning] = warnings(caplog)
    assert f"{rig.roots.root} has 256.0 MiB free and Storage:MinimumFreeBytes asks for 256.0 MiB" in warning
    sizes["free"] = LEAST
    assert worker.step() == 3
    assert {rig.job(job).status for job in jobs} == {JobStatus.COMPLETED}
    sizes["free"] = 0
    worker.step()
    assert len(warnings(caplog)) == 2


def test_a_file_without_room_waits_alone(rig: Any, sizes: dict[str, int], caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-129: three times its size is needed; smaller files behind it go on, the Warning and the row name it."""
    large = drop(rig, "large.rem", 200 * MIB)
    small = [rig.drop(f"{number}.rem") for number in range(3)]
    room = room_of(rig)
    worker = rig.worker(slots=2, choose=room.choose)
    sizes["free"] = 600 * MIB - 1
    assert [worker.step() for _ in range(3)] == [2, 1, 0]
    assert {rig.job(job).status for job in small} == {JobStatus.COMPLETED}
    assert rig.job(large).status is JobStatus.QUEUED
    [warning] = warnings(caplog)
    assert f"{large.original_path} has 200.0 MiB" in warning
    is_green, detail = room.look(Volume(rig.roots.root))
    assert (is_green, str(large.original_path) in detail) == (False, True)
    sizes |= {"free": 2 * GIB, "total": 4 * GIB}
    assert room.choose(1) == [large.id]
    assert room.look(Volume(rig.roots.root)) == (True, "2048.0 MiB of 4096.0 MiB free")


def test_files_without_room_however_many_stop_none(rig: Any, sizes: dict[str, int]) -> None:
    """PIPE-129: what waits is looked through to its end, page by page."""
    paths = [rig.folder_path / f"{number}.rem" for number in range(410)]
    for path in paths[:-1]:
        path.touch()
        os.truncate(path, GIB)
    waiting = [(str(number), str(path)) for number, path in enumerate(paths)]
    room = Room([Volume(rig.roots.root)], 0, lambda offset, limit: waiting[offset : offset + limit])
    assert room.choose(4) == ["409"]


def test_one_claim_takes_what_fits_together(rig: Any, sizes: dict[str, int], caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-129: files that fit one by one and not beside each other are taken in turn, and no one is warned."""
    jobs = [drop(rig, f"{number}.rem", 100 * MIB) for number in range(3)]
    sizes["free"] = 600 * MIB
    assert room_of(rig).choose(3) == [job.id for job in jobs[:2]]
    assert warnings(caplog) == []


def test_sizes_are_looked_at_only_when_space_is_scarce(rig: Any, sizes: dict[str, int]) -> None:
    """PERF-08: a claim on a roomy volume asks the database nothing more."""
    sizes["free"] = AMPLE_BYTES
    room = Room([Volume(rig.roots.root)], LEAST, lambda _, __: pytest.fail("the queue was asked"))
    assert room.choose(1) is None


def test_the_least_is_the_operators(rig: Any, sizes: dict[str, int]) -> None:
    """CFG-203: down to nothing; every volume in use counts, and the row of each says only what is its own."""
    job = rig.drop()
    sizes["free"] = 100 * MIB
    assert room_of(rig, 0).choose(1) == [job.id]
    assert room_of(rig, 100 * MIB).choose(1) == [job.id]
    assert room_of(rig, 100 * MIB + 1).choose(1) == ()


def test_every_volume_in_use_needs_space(rig: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEY-22: a database on a full volume of its own keeps jobs waiting; only that volume's row is red."""
    other = tmp_path / "db"
    free = {rig.roots.root: 4 * GIB, other: LEAST - 1}
    monkeypatch.setattr(Volume, "free_bytes", lambda volume: free[volume.folder])
    monkeypatch.setattr(Volume, "total_bytes", lambda _: 8 * GIB)
    room = Room([Volume(rig.roots.root), Volume(other)], LEAST, rig.queue.waiting)
    rig.drop()
    assert room.choose(1) == ()
    assert [room.look(Volume(folder))[0] for folder in free] == [True, False]


@pytest.mark.parametrize(
    ("free", "total", "is_green"),
    [(GIB, 2 * GIB, True), (GIB - 1, 2 * GIB, False), (5 * GIB, 100 * GIB, True), (5 * GIB - 1, 100 * GIB, False)],
)
def test_the_row_of_a_volume(rig: Any, sizes: dict[str, int], free: int, total: int, is_green: bool) -> None:
    """API-100, OPS-189: red below 5 % or 1 GiB, long before jobs wait."""
    sizes |= {"free": free, "total": total}
    ok, detail = room_of(rig).look(Volume(rig.roots.root))
    assert (ok, "nearly full" in detail) == (is_green, not is_green)


def test_a_step_that_meets_a_full_disk_says_what_to_do(rig: Any, caplog: pytest.LogCaptureFixture) -> None:
    """BEY-22, BEY-60: the job's text names the root to free, also when only a worker's words arrive."""

    def fail(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    texts = ("[Errno 28] No space left on device", "could not commit; nothing was recorded: database or disk is full.")
    for error in (fail, *(lambda _, text=text: (_ for _ in ()).throw(RuntimeError(text)) for text in texts)):
        rig.engine.act = error
        job = rig.run(f"{id(error)}.rem")
        assert job.status is JobStatus.FAILED
        assert job.error_message.endswith(f"Free space below {rig.roots.root}, then retry the job.")
        assert facts(job_id=job.id, file_name=job.file_name, profile="default", code="sign.failed") in [
            {"facts": getattr(record, "facts", None)} for record in caplog.records
        ]
