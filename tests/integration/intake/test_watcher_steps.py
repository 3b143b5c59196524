"""Watchers stepped by hand, with a clock of the test's own."""

from __future__ import annotations

import errno
import logging
import os
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import TemporaryFailure
from bulksigner.intake.claim import FolderClaim
from bulksigner.intake.offers import Offer, Outcome, OutcomeKind
from bulksigner.intake.watcher import WatcherState
from bulksigner.jobs.states import JobStatus
from bulksigner.records.errors import StoreFailed
from bulksigner.settings.model import WatchedFolderSettings

ONE_SAMPLE = WatchedFolderSettings(
    stability_poll_interval_ms=50, stability_required_samples=1, stability_timeout_seconds=5, poll_interval_seconds=None
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watcher(desk: Any, clock: Clock, polled: Any) -> Any:
    return desk.watcher(settings=ONE_SAMPLE, notices=polled(), clock=clock)


def test_the_breaker_opens_at_exactly_ten(desk: Any, watcher: Any, clock: Clock) -> None:
    """PIPE-47, PIPE-113: nine errors in a row are survived, ten end the watch and nothing else."""
    desk.drop("a.pdf")
    desk.ledger.fails = 100
    for number in range(1, 11):
        clock.now += 100
        watcher.step()
        assert watcher.status.consecutive_errors == number
        assert (watcher.status.state is WatcherState.STOPPED) == (number == 10)
    assert "the database is away" in watcher.status.last_error


def test_a_full_disk_never_opens_the_breaker(desk: Any, watcher: Any, clock: Clock) -> None:
    """BEY-22, PIPE-47: however long it lasts, the file is taken once there is space; another error still counts."""
    desk.drop("a.pdf")
    desk.ledger.fails = 30
    desk.ledger.error = StoreFailed("could not commit; nothing was recorded: database or disk is full.")
    for _ in range(30):
        clock.now += 100
        watcher.step()
        assert watcher.status.state is WatcherState.RUNNING
    assert "disk is full" in watcher.status.last_error
    clock.now += 100
    watcher.step()
    assert desk.ledger.names() == ["a.pdf"]
    assert watcher.status.consecutive_errors == 0


@pytest.mark.parametrize("most", [1, 3])
def test_the_breaker_opens_where_the_setting_says(desk: Any, clock: Clock, polled: Any, most: int) -> None:
    """CFG-131, PIPE-47: at exactly that number, not before."""
    settings = attrs.evolve(ONE_SAMPLE, max_consecutive_failures=most)
    watcher = desk.watcher(settings=settings, notices=polled(), clock=clock)
    desk.drop("a.pdf")
    desk.ledger.fails = 100
    states = []
    for _ in range(most):
        clock.now += 100
        watcher.step()
        states.append(watcher.status.state)
    assert states == [WatcherState.RUNNING] * (most - 1) + [WatcherState.STOPPED]


QUIET = {
    "Ignored": lambda desk: desk.ledger.end(desk.path("q.pdf"), JobStatus.FAILED),
    "ProfileDisabled": lambda desk: setattr(desk.profiles.default.stored, "enabled", False),
    "Unassigned": lambda desk: desk.profiles.bindings.clear(),
    "AlreadyProcessed": lambda desk: desk.ledger.end(desk.path("q.pdf")),
    "MetadataInvalid": lambda desk: [desk.ledger.end(desk.path("q.pdf")), desk.drop("q.pdf.meta.json", b"no")],
    "PathTooLong": lambda desk: setattr(desk.folder, "path_of", lambda _: "x" * 851),
    "Vanished": lambda desk: [desk.ledger.end(desk.path("q.pdf")), (desk.root / "q.pdf").unlink()],
    "Error": lambda desk: [desk.ledger.end(desk.path("q.pdf")), desk.folder.hold("q.pdf")],
}


@pytest.mark.parametrize("kind", QUIET)
def test_what_is_no_fault_of_the_folder_neither_counts_nor_resets(
    strict_desk: Any, clock: Clock, polled: Any, kind: str
) -> None:
    """PIPE-47, PIPE-49, PIPE-113: nine errors stay nine whatever else happens in between; the next one is the tenth."""
    desk = strict_desk
    desk.drop("q.pdf")
    desk.service.offer(offers(desk))
    watcher = desk.watcher(settings=ONE_SAMPLE, notices=polled(), clock=clock)
    failed = Outcome(OutcomeKind.ERROR, "the database is away")
    for _ in range(9):
        assert watcher._count([failed])
    batch = offers(desk)
    QUIET[kind](desk)
    outcomes = desk.service.offer(batch)
    assert [outcome.kind.value for outcome in outcomes] == [kind]
    assert not watcher._count(outcomes)
    assert (watcher.status.consecutive_errors, watcher.status.state) == (9, WatcherState.INITIALIZING)
    assert watcher._count([failed, *outcomes])
    assert watcher.status.state is WatcherState.STOPPED


def test_a_stopped_watcher_ends_its_thread(desk: Any, wait_until: Any) -> None:
    """PIPE-47: no self-revival; nobody is left who could look, whatever news comes."""
    desk.ledger.fails = 1000
    settings = attrs.evolve(ONE_SAMPLE, stability_poll_interval_ms=1)
    watcher = desk.run(desk.watcher(settings=settings))
    desk.drop("a.pdf")
    wait_until(lambda: watcher.status.state is WatcherState.STOPPED)
    watcher._thread.join(10)
    assert not watcher._thread.is_alive()
    desk.ledger.fails = 0
    listings = desk.folder.listings
    watcher.offer_again("a.pdf")
    watcher.look_again()
    watcher.stop()
    assert (desk.ledger.names(), desk.folder.listings) == ([], listings)


@pytest.mark.parametrize("good", ["Enqueued", "AlreadyActive"])
def test_success_resets_the_count(desk: Any, watcher: Any, clock: Clock, good: str) -> None:
    """PIPE-47, PIPE-113: also when the path was active already."""
    desk.drop("a.pdf")
    desk.ledger.fails = 9
    for _ in range(9):
        clock.now += 100
        watcher.step()
    assert watcher.status.consecutive_errors == 9
    if good == "AlreadyActive":
        desk.service.offer(offers(desk))
    clock.now += 100
    watcher.step()
    assert watcher.status.consecutive_errors == 0
    assert desk.ledger.names() == ["a.pdf"]


def test_a_large_drop_while_the_database_is_away_is_one_error(desk: Any, watcher: Any, clock: Clock) -> None:
    """PIPE-47: a batch is one attempt, and no file of it is lost."""
    for number in range(1200):
        desk.drop(f"{number}.pdf")
    desk.ledger.fails = 1
    delay = watcher.step()
    assert watcher.status.consecutive_errors == 1
    assert delay is not None
    assert delay > 0
    clock.now += delay
    watcher.step()
    assert len(desk.ledger.names()) == 1200


def test_waiting_files_cost_no_query(desk: Any, watcher: Any, clock: Clock) -> None:
    """PIPE-44: files whose last job failed are asked about once, not at each look."""
    for number in range(20):
        desk.drop(f"{number}.pdf")
    watcher.step()
    for number in range(20):
        desk.ledger.end(desk.path(f"{number}.pdf"), JobStatus.FAILED)
        watcher.job_ended(f"{number}.pdf")
    watcher.step()
    before = desk.ledger.queries
    for _ in range(10):
        clock.now += 100
        assert watcher.step() is None or desk.ledger.queries == before
    assert desk.ledger.queries == before
    assert len(desk.ledger.names()) == 20


def test_an_active_path_is_asked_again_without_news(desk: Any, watcher: Any, clock: Clock) -> None:
    """PIPE-45: a new arrival whose job's end nobody told is found by the clock alone."""
    desk.drop("a.pdf", b"one")
    watcher.step()
    (desk.root / "a.pdf").unlink()
    desk.drop("a.pdf", b"two")
    delay = watcher.step()
    desk.ledger.end(desk.path("a.pdf"))
    clock.now += delay
    watcher.step()
    assert desk.ledger.names() == ["a.pdf", "a.pdf"]


def test_a_job_that_ends_while_it_is_asked_about_is_not_missed(desk: Any, watcher: Any, clock: Clock) -> None:
    """PIPE-44: the query still says active, the end comes before the answer is kept."""
    desk.drop("a.pdf", b"one")
    watcher.step()
    (desk.root / "a.pdf").unlink()
    desk.drop("a.pdf", b"two")

    def end_now() -> None:
        desk.ledger.on_query = lambda: None
        desk.ledger.end(desk.path("a.pdf"))
        watcher.job_ended("a.pdf")

    desk.ledger.on_query = end_now
    watcher.step()
    assert desk.ledger.names() == ["a.pdf"]
    watcher.step()
    assert desk.ledger.names() == ["a.pdf", "a.pdf"]


def test_a_listing_older_than_the_removal_makes_no_job(desk: Any, watcher: Any, clock: Clock) -> None:
    """PIPE-44: the file was listed, then signed and removed: its memory is no new arrival."""
    desk.drop("a.pdf")
    watcher.step()
    listing = list(desk.folder.entries())
    (desk.root / "a.pdf").unlink()
    desk.ledger.end(desk.path("a.pdf"))
    watcher.job_ended("a.pdf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(desk.folder, "entries", lambda: listing)
        delay = watcher.step()
    assert delay is not None
    clock.now += delay
    watcher.step()
    assert desk.ledger.names() == ["a.pdf"]


def test_a_file_that_timed_out_is_taken_once_it_stands_still(
    desk: Any, clock: Clock, polled: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-43, OPS-103: a warning, and no event is needed afterwards."""
    settings = attrs.evolve(ONE_SAMPLE, stability_required_samples=2)
    watcher = desk.watcher(settings=settings, notices=polled(), clock=clock)
    with caplog.at_level(logging.WARNING):
        for size in range(6):
            (desk.root / "a.pdf").write_bytes(b"x" * size)
            watcher.step()
            clock.now += 1
    assert "did not stand still for 5 seconds" in caplog.text
    for _ in range(3):
        delay = watcher.step()
        if delay is None:
            break
        clock.now += delay
    assert desk.ledger.names() == ["a.pdf"]


def test_a_profile_disabled_in_between_loses_no_file(desk: Any, watcher: Any, clock: Clock) -> None:
    """PIPE-39: between look and offer; the file is offered once the profile is back."""
    desk.drop("a.pdf")
    real = desk.service.offer

    def offer(batch: Any) -> Any:
        desk.profiles.default.stored.enabled = False
        return real(batch)

    desk.service.offer = offer
    assert watcher.step() is not None
    desk.service.offer = real
    watcher.step()
    desk.profiles.default.stored.enabled = True
    clock.now += 5
    watcher.step()
    watcher.stop()
    assert desk.ledger.names() == ["a.pdf"]


def test_a_failing_listing_does_not_count(desk: Any, watcher: Any) -> None:
    """PIPE-47: it is shown, and cleared by the next good one."""

    def fail() -> Any:
        raise TemporaryFailure("the share is away")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(desk.folder, "entries", fail)
        for _ in range(20):
            assert watcher.step() == 1.0
    assert watcher.status.last_error == "the share is away"
    assert watcher.status.consecutive_errors == 0
    watcher.step()
    assert watcher.status.last_error == ""


def test_a_folder_that_cannot_be_watched_is_listed(
    desk: Any, clock: Clock, polled: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-40, BEY-41: where the system has no watch left to give, said once."""

    class Exhausted(polled):  # type: ignore[misc]
        is_watching = False

        def open(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    desk.folder.listings = 0
    watcher = desk.watcher(settings=ONE_SAMPLE, notices=Exhausted(), clock=clock)
    watcher._opened = attrs.evolve(watcher._opened, has_events=True)
    assert [watcher.step(), watcher.step()] == [30.0, 30.0]
    assert caplog.text.count("reports no changes: Too many open files") == 1
    assert watcher.status.watch_fault == "Too many open files"


def offers(desk: Any) -> Any:
    return [Offer(desk.opened, entry) for entry in desk.folder.entries()]


def test_a_file_that_is_open_for_writing_waits(desk: Any, clock: Clock, caplog: Any) -> None:
    """PIPE-43: a writer may pause for longer than the looks; the timeout bounds the wait, and closing ends it."""
    watcher = desk.watcher(settings=ONE_SAMPLE, clock=clock)
    with (desk.root / "a.pdf").open("wb") as writer:
        writer.write(b"the first half")
        writer.flush()
        if not desk.folder.is_being_written("a.pdf"):
            pytest.skip("the system does not tell who writes a file")
        for _ in range(6):
            watcher.step()
            clock.now += 1
        assert desk.ledger.names() == []
        assert "is still open for writing" in caplog.text
    clock.now += 5
    watcher.step()
    assert desk.ledger.names() == ["a.pdf"]


def test_nothing_is_taken_from_a_folder_that_keeps_its_files(
    desk: Any, watcher: Any, clock: Clock, caplog: Any, monkeypatch: Any
) -> None:
    """PIPE-93: what cannot be removed could be signed twice; one warning, and the files wait."""
    desk.drop("a.pdf")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        for _ in range(3):
            assert watcher.step() == 2.0
            clock.now += 2
    assert desk.ledger.names() == []
    assert "is not writable for this account" in watcher.status.last_error
    assert len(caplog.records) == 1
    watcher.step()
    assert (desk.ledger.names(), watcher.status.last_error) == (["a.pdf"], "")


def test_nothing_is_taken_from_a_folder_of_another_service(desk: Any, clock: Clock, polled: Any) -> None:
    """PIPE-02: also when the folder came after the start, when nobody could be refused any more."""
    desk.drop("a.pdf")
    other, ours = FolderClaim(desk.root), FolderClaim(desk.root)
    assert other.find_fault() is None
    desk.opened = attrs.evolve(desk.opened, claim=ours)
    watcher = desk.watcher(settings=ONE_SAMPLE, notices=polled(), clock=clock)
    watcher.step()
    assert desk.ledger.names() == []
    assert "another service takes the files" in watcher.status.last_error
    other.release()
    watcher.step()
    assert desk.ledger.names() == ["a.pdf"]
    ours.release()
