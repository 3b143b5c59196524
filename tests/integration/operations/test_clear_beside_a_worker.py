"""Clear Jobs while a worker goes on: no signed file is left without its job (PIPE-103, PIPE-104)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from bulksigner.contract.errors import RaceLost
from bulksigner.files.work import open_place
from bulksigner.jobs import removal as removal_module
from bulksigner.jobs.model import Job, Owner, utc_now
from bulksigner.jobs.states import Actor
from bulksigner.operations.people import Person
from bulksigner.records.event_log import EventFilter, event_page
from bulksigner.records.events import Event

OPERATOR = Person("operator", "ApiKey")
ROUNDS = pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.soak)])


@pytest.fixture
def before_item(desk: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Job, Callable[[], None]], None]:
    """Have an act done once, right before the files of a job are swept: after its page was read."""

    def arrange(job: Job, act: Callable[[], None]) -> None:
        leftovers = type(desk.operations.clearing._leftovers)
        locate = leftovers.locate_input
        acts = [act]

        def located(self: Any, given: Job) -> Any:
            if given.id == job.id and acts:
                acts.pop()()
            return locate(self, given)

        monkeypatch.setattr(leftovers, "locate_input", located)

    return arrange


def outputs(desk: Any) -> list[str]:
    return sorted(path.name for path in desk.roots.output.iterdir())


def assert_empty(desk: Any) -> None:
    left = [path for root in (desk.roots.processing, desk.roots.error, desk.roots.output) for path in root.iterdir()]
    assert left == []
    assert desk.job_count == 0


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_job_delivered_after_its_page_was_read(desk: Any, before_item: Any, is_staged: bool) -> None:
    """PIPE-104: the copy of the sweep knows no output; the row has one by then, and it goes."""
    job = desk.claimed() if is_staged else desk.queued()
    before_item(job, lambda: desk.deliver(job if is_staged else desk.claim()))
    cleared = desk.operations.clearing.clear(OPERATOR)
    assert (cleared.jobs, cleared.files, cleared.items_failed) == (1, 1, 0)
    assert_empty(desk)


def test_a_job_delivered_between_its_sweep_and_the_rows(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-104: the transaction itself finds that the row has changed, and its files are swept once more."""
    job = desk.claimed()
    removal = type(desk.operations.clearing._removal)
    remove_all, calls = removal.remove_all, []

    def remove_later(self: Any, *arguments: Any) -> Any:
        if not calls:
            # As a worker that has opened its staged copy: its folder is made again behind the sweep.
            open_place(desk.roots.job_folder(job.id) / job.file_name).write_bytes(b"content")
            desk.deliver(job)
            assert outputs(desk) == ["folha.rem.p7m"]
        calls.append(1)
        return remove_all(self, *arguments)

    monkeypatch.setattr(removal, "remove_all", remove_later)
    cleared = desk.operations.clearing.clear(OPERATOR)
    assert len(calls) == 2
    assert (cleared.jobs, cleared.files) == (1, 2)
    assert_empty(desk)


def test_a_new_arrival_at_the_path_of_a_job_that_ended_meanwhile_stays(desk: Any, before_item: Any) -> None:
    """PIPE-104: the job took its own input; what was dropped after it is no input of any swept job."""
    job = desk.claimed()
    other = desk.queued("other.rem")

    def end_and_drop() -> None:
        desk.deliver(job)
        desk.drop(job.file_name, b"next month")

    before_item(other, end_and_drop)
    # The staged copy of the job is gone by the time the other is swept, so it is made again.
    sweep = desk.operations.clearing._sweep_job

    def keep_staged(given: Job, swept: Any) -> None:
        sweep(given, swept)
        if given.id == job.id and not outputs(desk) and desk.read(job).output_path is None:
            open_place(desk.roots.job_folder(job.id) / job.file_name).write_bytes(b"content")

    desk.operations.clearing._sweep_job = keep_staged
    desk.operations.clearing.clear(OPERATOR)
    assert [path.name for path in desk.inbox.iterdir()] == [job.file_name]
    assert_empty(desk)


def test_an_output_of_a_job_that_was_born_and_delivered_meanwhile_is_named(
    desk: Any, before_item: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-104: it loses its row and nothing else, since the output may be all that is left of the file."""
    late: list[Job] = []
    before_item(desk.failed("old.rem"), lambda: late.append(desk.completed("new.rem")))
    cleared = desk.operations.clearing.clear(OPERATOR)
    assert (cleared.jobs, cleared.files, cleared.items_failed) == (2, 1, 0)
    assert outputs(desk) == ["new.rem.p7m"]
    assert desk.job_count == 0
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == [
        f"Clearing jobs left output {late[0].output_path}: its job was born meanwhile and has gone with the others"
    ]


def test_many_jobs_that_go_on_are_all_seen(desk: Any) -> None:
    """PIPE-104: the comparison in the transaction goes over every unfinished job, in pages of its own."""
    jobs = [desk.queued(f"{number:04}.rem") for number in range(removal_module.PAGE_SIZE + 3)]
    seen = {job.id: job.row_version for job in jobs}
    desk.queue.claim(1, Owner("here", "this-life"))
    removal = desk.operations.clearing._removal
    assert [job.id for job in removal.moved_on(seen)] == [jobs[0].id]
    with pytest.raises(removal_module.MovedOn):
        removal.remove_all(utc_now(), lambda _: Event("JobsCleared", "cleared"), (), seen)
    assert desk.job_count == len(jobs)
    assert desk.events() == []
    last = {**seen, jobs[0].id: desk.read(jobs[0]).row_version}
    desk.operations.operator.cancel(jobs[-1].id, OPERATOR)
    with pytest.raises(removal_module.MovedOn):
        removal.remove_all(utc_now(), lambda _: Event("JobsCleared", "cleared"), (), last)
    assert desk.job_count == len(jobs)


def test_an_event_of_a_worker_during_the_sweep_stays(desk: Any, before_item: Any) -> None:
    """PIPE-103: what is recorded after the start of the clear is kept beside its own event."""
    desk.operations.pausing.pause(OPERATOR)
    job = desk.claimed()

    def diverge() -> None:
        desk.jobs.record(job, operational_event=Event("InputDiverged", "The input was left in place."))

    before_item(job, diverge)
    cleared = desk.operations.clearing.clear(OPERATOR)
    assert cleared.events == 1
    kept = event_page(desk.store, EventFilter()).items
    assert sorted(event.event_type for event in kept) == ["InputDiverged", "JobsCleared"]


@ROUNDS
def test_a_clear_beside_a_worker_that_does_not_stop(desk: Any, rounds: int) -> None:
    """PIPE-104: whatever moment each job is at, its row goes and with it every file it makes."""
    unexpected: list[BaseException] = []
    for number in range(rounds):
        names = [f"{number}-{each}.rem" for each in range(6)]
        for name in names:
            desk.queued(name)
        is_over, has_begun = threading.Event(), threading.Event()

        def work(is_over: threading.Event = is_over, has_begun: threading.Event = has_begun) -> None:
            while not is_over.is_set():
                taken = desk.queue.claim(1, Owner("here", "this-life"))
                has_begun.set()
                for changed in taken:
                    _take_to_an_end(desk, changed.job, unexpected)

        worker = threading.Thread(target=work)
        worker.start()
        assert has_begun.wait(10)
        cleared = desk.operations.clearing.clear(OPERATOR)
        is_over.set()
        worker.join(30)
        assert unexpected == []
        assert cleared.jobs == len(names)
        assert desk.job_count == 0
        assert outputs(desk) == []


def _take_to_an_end(desk: Any, job: Job, unexpected: list[BaseException]) -> None:
    """Do with real files and rows, in the order of the plan, what a worker does; a lost race ends it."""
    try:
        try:
            staged = open_place(desk.roots.job_folder(job.id) / job.file_name)
            next(iter(desk.folders)).folder.copy_to(job.file_name, staged)
            job = desk.jobs.record(job, sign_call_started_at=job.created_at)
            desk.promoted(desk.signed(job))
        except OSError:
            desk.roots.fail_job_folder(job.id)
            latest = desk.read(job)
            if latest is not None:
                desk.jobs.transition(latest, "fail", by=Actor.WORKER, message="staged copy is gone")
    except RaceLost:
        return
    except BaseException as error:  # noqa: BLE001 - told by the test
        unexpected.append(error)
