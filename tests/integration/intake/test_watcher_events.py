"""Watchers in their own thread, over real folders and the events of the kernel."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any

import attrs

from bulksigner.intake.names import mint_landing_name
from bulksigner.intake.watcher import WatcherState
from bulksigner.jobs.states import JobStatus
from bulksigner.settings.model import WatchedFolderSettings

SLOW = WatchedFolderSettings(stability_poll_interval_ms=300, poll_interval_seconds=None)


def settle(desk: Any) -> None:
    """Give the watcher the time of a few looks."""
    time.sleep(0.3)


def test_a_drop_of_a_thousand_is_taken_once(desk: Any) -> None:
    """PIPE-113, PIPE-43, PIPE-45: every file, each once, in few transactions, at the speed of the scan."""
    desk.run(desk.watcher())
    names = [f"f{number:04}.pdf" for number in range(1000)]
    for name in names:
        desk.drop(name)
    desk.wait_for(names)
    assert len(desk.announced) == 1000
    assert len(desk.ledger.batches) < 200


def test_a_file_that_comes_after_a_look_waits_for_no_second_interval(desk: Any, wait_until: Any) -> None:
    """PERF-10, PIPE-43: its samples begin soon, and a stream of such files makes few looks."""
    settings = attrs.evolve(SLOW, stability_poll_interval_ms=1500, stability_required_samples=2)
    watcher = desk.run(desk.watcher(settings=settings))
    wait_until(lambda: watcher.status.state is WatcherState.RUNNING)
    desk.drop("first.pdf")
    wait_until(lambda: watcher.status.candidate_count == 1)
    began, listings = time.monotonic(), desk.folder.listings
    names = [f"f{number}.pdf" for number in range(60)]
    for name in names:
        desk.drop(name)
        time.sleep(0.005)
    desk.wait_for(["first.pdf", *names])
    elapsed = time.monotonic() - began
    assert 1.5 <= elapsed < 2.7
    assert desk.folder.listings - listings <= elapsed / 0.05


def test_a_file_that_is_due_waits_for_no_slow_listing(desk: Any, wait_until: Any, monkeypatch: Any) -> None:
    """PERF-10: events wait for longer the longer a look takes, the end of a window does not."""
    listed, entries = [], desk.folder.entries

    def slowly() -> Any:
        listed.append(time.monotonic())
        time.sleep(0.04)
        return entries()

    desk.drop("a.pdf")
    monkeypatch.setattr(desk.folder, "entries", slowly)
    settings = attrs.evolve(SLOW, stability_poll_interval_ms=1500, stability_required_samples=2)
    watcher = desk.run(desk.watcher(settings=settings))
    wait_until(lambda: watcher.status.candidate_count == 1)
    desk.drop("b.pdf")
    desk.wait_for(["a.pdf"])
    assert len(listed) == 3
    assert listed[1] - listed[0] >= 1
    assert listed[2] - listed[1] < 0.9


def test_files_that_were_there_before_are_taken(desk: Any) -> None:
    """PIPE-40: start-up enumeration."""
    desk.drop("a.pdf")
    desk.run(desk.watcher())
    desk.wait_for(["a.pdf"])


def test_a_rename_into_place_is_taken(desk: Any) -> None:
    """PIPE-113, OPS-103: written under an ignored name, then renamed; the ignored name is never offered."""
    desk.run(desk.watcher())
    part = desk.root / "a.pdf.part"
    part.write_bytes(b"x")
    settle(desk)
    assert desk.ledger.names() == []
    part.rename(desk.root / "a.pdf")
    desk.wait_for(["a.pdf"])


def test_a_slow_writer_is_waited_for(desk: Any) -> None:
    """PIPE-113, PIPE-43: nothing is taken while the file grows."""
    desk.run(desk.watcher(settings=SLOW))
    with (desk.root / "a.pdf").open("wb", buffering=0) as out:
        for _ in range(20):
            out.write(b"x" * 100)
            time.sleep(0.03)
            assert desk.ledger.names() == []
    desk.wait_for(["a.pdf"])


def test_a_file_that_comes_before_the_job_ends_is_taken_after(desk: Any) -> None:
    """PIPE-44, PIPE-45: seen while the path was active, it needs no further event once the job completed."""
    watcher = desk.run(desk.watcher())
    desk.drop("a.pdf", b"one")
    desk.wait_for(["a.pdf"])
    (desk.root / "a.pdf").unlink()
    desk.drop("a.pdf", b"two")
    settle(desk)
    assert desk.ledger.names() == ["a.pdf"]
    desk.ledger.end(desk.path("a.pdf"))
    watcher.job_ended("a.pdf")
    desk.wait_for(["a.pdf", "a.pdf"])


def test_a_file_replaced_while_active_is_handed_back(desk: Any) -> None:
    """PIPE-94: the diverged input is taken as its own job, though size and time never changed."""
    watcher = desk.run(desk.watcher())
    desk.drop("a.pdf", b"one")
    desk.wait_for(["a.pdf"])
    desk.ledger.end(desk.path("a.pdf"))
    watcher.offer_again("a.pdf")
    desk.wait_for(["a.pdf", "a.pdf"])


def test_the_same_name_size_and_time_is_a_new_arrival(desk: Any) -> None:
    """PIPE-44: dropped again after completion, without any word from the job's side."""
    desk.run(desk.watcher())
    for round_number in (1, 2, 3):
        path = desk.root / ".a"
        path.write_bytes(b"same")
        os.utime(path, ns=(5_000_000_000, 5_000_000_000))
        path.rename(desk.root / "a.pdf")
        desk.wait_for(["a.pdf"] * round_number)
        (desk.root / "a.pdf").unlink()
        desk.ledger.end(desk.path("a.pdf"))


def test_a_failed_path_waits_for_a_person(desk: Any) -> None:
    """PIPE-44: whatever the content or date now is, across restarts of the watcher."""
    watcher = desk.run(desk.watcher())
    desk.drop("a.pdf", b"one")
    desk.wait_for(["a.pdf"])
    desk.ledger.end(desk.path("a.pdf"), JobStatus.FAILED)
    watcher.job_ended("a.pdf")
    desk.drop("a.pdf", b"another")
    desk.run(desk.watcher())
    settle(desk)
    assert desk.ledger.names() == ["a.pdf"]


def test_a_released_path_is_taken_again(desk: Any) -> None:
    """PIPE-44, PIPE-113: exempt is a path whose input the product itself removed."""
    desk.run(desk.watcher())
    desk.drop("a.pdf", b"one")
    desk.wait_for(["a.pdf"])
    (desk.root / "a.pdf").unlink()
    desk.ledger.end(desk.path("a.pdf"), JobStatus.CANCELED, path_released=True)
    desk.drop("a.pdf", b"corrected")
    desk.wait_for(["a.pdf", "a.pdf"])


def test_a_file_that_was_born_failed_is_taken_when_it_is_sent_again(strict_desk: Any) -> None:
    """PIPE-44, PIPE-52, PIPE-113: moved away at its birth, by the name of a job that was deleted since."""
    desk = strict_desk
    desk.run(desk.watcher())
    desk.drop("a.pdf")
    desk.wait_for(["a.pdf"])
    (desk.root / "a.pdf").unlink()
    desk.ledger.end(desk.path("a.pdf"))
    for count in (2, 3):
        desk.drop("a.pdf", b"again")
        desk.wait_for(["a.pdf"] * count)
        assert desk.ledger.rows[-1].status is JobStatus.FAILED
    desk.ledger.rows.pop(0)
    desk.drop("a.pdf", b"again")
    desk.wait_for(["a.pdf"] * 3)
    assert desk.ledger.rows[-1].status is JobStatus.QUEUED


def test_a_folder_removed_and_restored_goes_on(desk: Any, wait_until: Any) -> None:
    """PIPE-113, PIPE-41, PIPE-47: the error is shown, the next good listing clears it, the watch is taken up again."""
    watcher = desk.run(desk.watcher())
    wait_until(lambda: watcher.status.state is WatcherState.RUNNING)
    shutil.rmtree(desk.root)
    wait_until(lambda: "cannot be listed" in watcher.status.last_error)
    desk.root.mkdir()
    desk.drop("a.pdf")
    desk.wait_for(["a.pdf"])
    assert watcher.status.last_error == ""
    assert watcher.status.state is WatcherState.RUNNING
    desk.drop("b.pdf")
    desk.wait_for(["a.pdf", "b.pdf"])


def test_a_folder_replaced_by_another_is_watched(desk: Any) -> None:
    """PIPE-41: the watch belongs to the path, not to what was there first."""
    desk.run(desk.watcher())
    desk.drop("a.pdf")
    desk.wait_for(["a.pdf"])
    desk.root.rename(desk.root.with_name("away"))
    desk.root.mkdir()
    desk.drop("b.pdf")
    desk.wait_for(["a.pdf", "b.pdf"])


def test_an_idle_watcher_does_nothing(desk: Any, wait_until: Any) -> None:
    """PIPE-40: no look without a reason; own reads, ignored names and landing copies are none."""
    desk.drop("failed.pdf")
    desk.run(desk.watcher())
    desk.wait_for(["failed.pdf"])
    settle(desk)
    before, spent = desk.folder.listings, time.process_time()
    (desk.root / "failed.pdf").read_bytes()
    (desk.root / "x.tmp").write_bytes(b"x")
    (desk.root / mint_landing_name("x.pdf")).write_bytes(b"x")
    time.sleep(1)
    assert desk.folder.listings == before
    assert time.process_time() - spent < 0.1


def test_landing_copies_are_never_candidates(desk: Any) -> None:
    """PIPE-54: not at start, not by event, with or without a job."""
    desk.drop(mint_landing_name("x.pdf"))
    desk.run(desk.watcher())
    desk.drop(mint_landing_name("y.pdf"))
    desk.drop("a.pdf")
    desk.wait_for(["a.pdf"])
    settle(desk)
    assert desk.ledger.names() == ["a.pdf"]


def test_a_folder_bound_later_is_picked_up(desk: Any, wait_until: Any) -> None:
    """PIPE-59, PIPE-60: unassigned it is left alone; bound, what lies there is taken without a rescan."""
    binding = desk.profiles.bindings.pop("in")
    watcher = desk.run(desk.watcher())
    desk.drop("a.pdf")
    wait_until(lambda: watcher.status.state is WatcherState.UNASSIGNED)
    settle(desk)
    assert desk.folder.listings == 0
    desk.profiles.bindings["in"] = binding
    desk.wait_for(["a.pdf"])


def test_files_of_a_disabled_profile_wait(desk: Any) -> None:
    """PIPE-39: and are taken once it is enabled, without another event."""
    desk.profiles.default.stored.enabled = False
    desk.run(desk.watcher())
    desk.drop("a.pdf")
    settle(desk)
    assert desk.ledger.names() == []
    desk.profiles.default.stored.enabled = True
    desk.wait_for(["a.pdf"])


def test_without_events_polling_finds_the_same(desk: Any, polled: Any) -> None:
    """PIPE-40, PIPE-113: correct with events off."""
    watcher = desk.run(desk.watcher(notices=polled(), poll_interval_seconds=0.05))
    names = [f"f{number}.pdf" for number in range(50)]
    for name in names:
        desk.drop(name)
    desk.wait_for(names)
    (desk.root / "f0.pdf").unlink()
    desk.drop("f0.pdf", b"new")
    settle(desk)
    desk.ledger.end(desk.path("f0.pdf"))
    watcher.job_ended("f0.pdf")
    desk.wait_for([*names, "f0.pdf"])
