"""Births and claims: one active job a path, oldest first, each job once."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable

import pytest

from bulksigner.contract.errors import RaceLost
from bulksigner.jobs.listing import history
from bulksigner.jobs.model import Birth, Changed, Job, Owner, utc_now
from bulksigner.jobs.queue import Enqueued, Outcome, Queue
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import Store
from bulksigner.records.errors import UniqueViolation
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import JobRow, PipelineStateRow
from bulksigner.testing.rows import new_birth

ROUNDS = pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.soak)])
NewJob = Callable[..., Job]
BirthMaker = Callable[..., Birth]


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Run the acts in threads that start together; an exception is the act's result."""
    results: list[object] = [None] * len(acts)
    gate = threading.Barrier(len(acts))

    def run(index: int, act: Callable[[], object]) -> None:
        gate.wait()
        try:
            results[index] = act()
        except Exception as error:  # noqa: BLE001  # the test looks at what each act raised
            results[index] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_one_file_is_one_job(queue: Queue, jobs: Jobs, birth: BirthMaker) -> None:
    """PIPE-02: a second birth of an active path, however spelled, answers AlreadyActive with the job that has it."""
    first, again, spelled = queue.enqueue([birth(), birth(), birth(original_path="/in/./report.pdf")])
    assert first.outcome is Outcome.ENQUEUED
    assert first.job is not None
    assert first.changed is not None
    assert first.changed.wakes
    assert [again.outcome, spelled.outcome] == [Outcome.ALREADY_ACTIVE] * 2
    assert again.job == spelled.job == jobs.active_for("/in/report.pdf") == first.job
    assert queue.wake.take()


def test_births_beside_a_refused_one_are_told_apart(queue: Queue, jobs: Jobs, store: Store, birth: BirthMaker) -> None:
    """PIPE-02: where one of a batch is refused, all that the others carry survives the look at who was born."""
    queue.enqueue([birth()])
    given = [
        birth("a\u0301.pdf", metadata={"b": "\u00e7", "a": "\U0001f600"}, sidecar_sha256="0" * 64),
        birth(),
        birth("\u00e1.pdf", input_folder=None),
        birth(
            "c.pdf", event="metadata_invalid", error_code="job.metadata-invalid", error_message="no", path_released=True
        ),
    ]
    answers = queue.enqueue(given)
    assert [answer.outcome for answer in answers] == [
        Outcome.ENQUEUED,
        Outcome.ALREADY_ACTIVE,
        Outcome.ENQUEUED,
        Outcome.ENQUEUED,
    ]
    born = [answer.job for answer in (answers[0], *answers[2:]) if answer.job is not None]
    assert [len(history(store, job.id)) for job in born] == [1, 1, 1]
    assert [jobs.counts()[status] for status in (JobStatus.QUEUED, JobStatus.FAILED)] == [3, 1]


def test_a_path_is_free_again_after_the_end(queue: Queue, jobs: Jobs, birth: BirthMaker, new_job: NewJob) -> None:
    """PIPE-02, PIPE-31: only active jobs hold a path; the most recent job of it is the new one (PIPE-44)."""
    old = jobs.transition(new_job(), "cancel", by=Actor.OPERATOR, message="x").job
    assert jobs.latest_for(["/in/report.pdf", "/in/none.pdf"]) == {"/in/report.pdf": old}
    new = new_job()
    assert jobs.latest_for(["/in/report.pdf"]) == {"/in/report.pdf": new}


def test_the_latest_jobs_of_any_number_of_paths(jobs: Jobs, new_job: NewJob) -> None:
    """PIPE-44, PERF-08: whatever spelling a path is asked for in."""
    made = {f"/in/{number}.pdf": new_job(original_path=f"/in/{number}.pdf") for number in range(0, 100, 7)}
    assert jobs.latest_for([f"/in/{number}.pdf" for number in range(100)]) == made
    assert jobs.latest_for(["/in/./7.pdf"]) == {"/in/./7.pdf": made["/in/7.pdf"]}
    assert jobs.latest_for([]) == {}


def test_a_terminal_job_cannot_come_back_beside_a_new_one(jobs: Jobs, store: Store, new_job: NewJob) -> None:
    """PIPE-02, DEP-35: the database itself refuses a second active job, as UniqueViolation on both engines."""
    old = jobs.transition(new_job(), "cancel", by=Actor.OPERATOR, message="x").job
    new_job()
    revive = Prepared(JobRow.update({JobRow.status: "Queued", JobRow.completed_at: None}).where(JobRow.id == old.id))
    with pytest.raises(UniqueViolation):
        store.write(lambda: store.execute(revive))
    assert jobs.get(old.id) == old


def test_a_long_path_leaves_no_row(queue: Queue, jobs: Jobs, birth: BirthMaker) -> None:
    """PIPE-03: 850 characters are taken, 851 are refused, and the rest of the batch goes on."""
    longest = "/" + "é" * 849
    taken, refused = queue.enqueue([birth(original_path=longest), birth(original_path=longest + "x")])
    assert (taken.outcome, refused.outcome, refused.job) == (Outcome.ENQUEUED, Outcome.PATH_TOO_LONG, None)
    assert sum(jobs.counts().values()) == 1


def test_a_taken_id_is_a_programming_error(queue: Queue, birth: BirthMaker, new_job: NewJob) -> None:
    """PIPE-01: an id given twice is not mistaken for an active path."""
    job = new_job()
    with pytest.raises(RuntimeError, match="its id is taken"):
        queue.enqueue([birth("other.pdf", id=job.id)])


def test_claims_go_oldest_first(queue: Queue, store: Store, new_job: NewJob, owner: Owner) -> None:
    """PIPE-65, PIPE-08: order of queuedAt, then id; owner and history are set."""
    jobs = [new_job(f"{number}.pdf") for number in range(5)]
    claimed = queue.claim(3, owner) + queue.claim(5, owner)
    assert [changed.job.id for changed in claimed] == [job.id for job in jobs]
    first = claimed[0]
    assert (first.job.status, first.job.owner_identity, first.job.owner_incarnation) == (
        JobStatus.PROCESSING,
        owner.identity,
        owner.incarnation,
    )
    assert (first.change.before, first.change.after, first.change.event) == ("Queued", "Processing", "claim")
    assert history(store, first.job.id)[-1].message == "Processing started"
    assert queue.claim(1, owner) == []


def test_a_claim_of_chosen_jobs_takes_no_other(queue: Queue, store: Store, new_job: NewJob, owner: Owner) -> None:
    """PIPE-129, PIPE-66: at most so many of them, oldest first; one that is queued no more is passed over."""
    jobs = [new_job(f"{number}.pdf") for number in range(5)]
    chosen = [jobs[4].id, jobs[2].id, jobs[1].id]

    def claim(limit: int) -> list[str]:
        changed = store.carry_out(queue.claiming(limit, owner, chosen))
        return [change.job.id for change in changed]

    assert claim(2) == [jobs[1].id, jobs[2].id]
    assert claim(3) == [jobs[4].id]
    assert claim(3) == []
    assert queue.waiting(0, 1) == [(jobs[0].id, jobs[0].original_path)]
    assert queue.waiting(1, 5) == [(jobs[3].id, jobs[3].original_path)]


def test_jobs_of_one_batch_are_claimed_in_the_order_they_came_in(queue: Queue, owner: Owner) -> None:
    """PIPE-65: they were queued at the same moment, and lie beside each other in the tables (PERF-08)."""
    names = [f"{number:02}.pdf" for number in reversed(range(20))]
    queue.enqueue([new_birth(name) for name in names])
    claimed = [changed.job for changed in queue.claim(20, owner)]
    assert [job.file_name for job in claimed] == names
    assert [job.id for job in claimed] == sorted(job.id for job in claimed)


def test_a_claim_that_heeds_the_pause_takes_nothing_during_one(
    queue: Queue, store: Store, new_job: NewJob, owner: Owner
) -> None:
    """CLU-55, CLU-56: nor without the row that says whether there is one."""
    job = new_job("a.pdf")

    def set_paused(is_paused: bool) -> None:
        statement = Prepared(PipelineStateRow.update(paused=is_paused))
        store.write(lambda: store.execute(statement))

    def claim() -> list[str]:
        return [changed.job.id for changed in store.carry_out(queue.claiming(5, owner, heeds_pause=True))]

    set_paused(True)
    assert claim() == []
    set_paused(False)
    assert claim() == [job.id]
    new_job("b.pdf")
    without = Prepared(PipelineStateRow.delete())
    store.write(lambda: store.execute(without))
    assert claim() == []


def test_jobs_in_flight_are_those_a_worker_has(queue: Queue, jobs: Jobs, new_job: NewJob, owner: Owner) -> None:
    """CLU-05: Processing and Verifying, oldest first; neither queued nor finished ones."""
    for number in range(4):
        new_job(f"{number}.pdf")
    first, second, third = (changed.job for changed in queue.claim(3, owner))
    signed = jobs.transition(first, "sign", by=Actor.WORKER, message="Signed").job
    jobs.transition(third, "fail", by=Actor.WORKER, message="x")
    assert jobs.in_flight() == [signed, second]


def test_no_job_is_claimed_twice(queue: Queue, birth: BirthMaker) -> None:
    """PIPE-66, DEP-21, DEP-22: six workers share 300 jobs."""
    queue.enqueue([birth(f"{number}.pdf") for number in range(300)])

    def work(name: str) -> Callable[[], list[str]]:
        def run() -> list[str]:
            mine: list[str] = []
            while taken := queue.claim(4, Owner(name, "1")):
                mine += [changed.job.id for changed in taken]
            return mine

        return run

    shares = at_once(*(work(f"worker-{number}") for number in range(6)))
    ids = [job_id for share in shares if isinstance(share, list) for job_id in share]
    assert len(ids) == 300
    assert len(set(ids)) == 300


@ROUNDS
def test_two_enqueues_of_one_path(queue: Queue, birth: BirthMaker, store: Store, rounds: int) -> None:
    """PIPE-110: exactly one of two births at once wins, the other records nothing."""
    for number in range(rounds):
        name = f"{number}.pdf"
        answers = at_once(*[lambda name=name: queue.enqueue([birth(name)])[0]] * 2)
        assert sorted(answer.outcome.value for answer in answers if isinstance(answer, Enqueued)) == [
            "AlreadyActive",
            "Enqueued",
        ]
    with store.reading():
        assert store.database.execute_sql("SELECT COUNT(*) FROM job_history").fetchone() == (rounds,)


def test_a_birth_sees_its_parent_as_it_was_read(
    queue: Queue, jobs: Jobs, birth: BirthMaker, new_job: NewJob, owner: Owner
) -> None:
    """PIPE-99, PIPE-110: of a parent that changed since there is no child; a birth that is refused leaves it alone."""
    new_job("a.pdf")
    [taken] = queue.claim(1, owner)
    parent = jobs.transition(taken.job, "fail", by=Actor.WORKER, message="no").job
    child = birth("a.pdf", parent_job_id=parent.id, parent_row_version=parent.row_version)
    blocking = new_job("a.pdf")
    [answer] = queue.enqueue([child])
    assert answer.outcome is Outcome.ALREADY_ACTIVE
    assert jobs.get(parent.id) == parent
    jobs.transition(blocking, "cancel", by=Actor.OPERATOR, message="x")
    jobs.record(parent, message="Deletion begun by operator.")
    with pytest.raises(RaceLost):
        queue.enqueue([child])
    assert jobs.active_for("/in/a.pdf") is None


def test_two_batches_in_opposite_order(queue: Queue, birth: BirthMaker) -> None:
    """PIPE-110: batches with the same paths do not wait for each other for ever."""
    names = [f"{number}.pdf" for number in range(40)]
    answers = at_once(
        lambda: queue.enqueue([birth(name) for name in names]),
        lambda: queue.enqueue([birth(name) for name in reversed(names)]),
    )
    outcomes = [entry.outcome for answer in answers if isinstance(answer, list) for entry in answer]
    assert outcomes.count(Outcome.ENQUEUED) == outcomes.count(Outcome.ALREADY_ACTIVE) == 40


@ROUNDS
@pytest.mark.parametrize(("event", "actor"), [("cancel", Actor.OPERATOR), ("veto", Actor.APPROVER)])
def test_an_end_against_a_claim(
    queue: Queue, jobs: Jobs, store: Store, new_job: NewJob, owner: Owner, event: str, actor: Actor, rounds: int
) -> None:
    """PIPE-110: a job is either ended, by an operator or a rejection, or claimed; its history tells one story."""
    for number in range(rounds):
        job = new_job(f"{number}.pdf")
        ended, claimed = at_once(
            lambda job=job: jobs.transition(job, event, by=actor, message="No."),
            lambda: queue.claim(1, owner),
        )
        if isinstance(ended, Changed):
            assert claimed == []
            assert ended.job.status is JobStatus.CANCELED
        else:
            assert isinstance(ended, RaceLost)
            assert isinstance(claimed, list)
            assert [one.job.id for one in claimed] == [job.id]
        told = "No." if isinstance(ended, Changed) else "Processing started"
        assert [line.message for line in history(store, job.id)][1:] == [told]


@pytest.mark.parametrize(("first", "second"), [("release", "expire"), ("veto", "release"), ("cancel", "expire")])
def test_two_ends_of_a_wait(queue: Queue, jobs: Jobs, new_job: NewJob, owner: Owner, first: str, second: str) -> None:
    """PIPE-110: of two who end the wait of a parked job, exactly one does."""
    actors = {"release": Actor.APPROVER, "veto": Actor.APPROVER, "expire": Actor.CLOCK, "cancel": Actor.OPERATOR}
    for number in range(10):
        new_job(f"{number}.pdf")
        [claimed] = queue.claim(1, owner)
        parked = jobs.transition(claimed.job, "park", by=Actor.WORKER, message="parked").job
        assert parked.owner_identity is None
        results = at_once(
            *(
                lambda event=event, parked=parked: jobs.transition(parked, event, by=actors[event], message=event)
                for event in (first, second)
            )
        )
        [winner] = [result for result in results if isinstance(result, Changed)]
        assert sum(isinstance(result, RaceLost) for result in results) == 1
        assert jobs.get(parked.id) == winner.job
        if winner.job.status is JobStatus.QUEUED:
            queue.claim(1, owner)


def claimed_names(queue: Queue, owner: Owner, limit: int = 10) -> list[str]:
    return [changed.job.file_name for changed in queue.claim(limit, owner)]


def test_jobs_of_held_profiles_are_passed_over(queue: Queue, birth: BirthMaker, owner: Owner) -> None:
    """BEY-20, PIPE-64: in the same statement, oldest of the others first; a release makes them next again."""

    def add(name: str, profile: str) -> None:
        queue.enqueue([birth(file_name=name, original_path=f"/in/{name}", profile_name=profile)])

    for number in range(3):
        add(f"held-{number}", "token")
        add(f"free-{number}", "default")
    queue.hold({"token"})
    assert claimed_names(queue, owner, limit=2) == ["free-0", "free-1"]
    assert [path for _, path in queue.waiting(0, 10)] == ["/in/free-2"]
    assert claimed_names(queue, owner) == ["free-2"]
    assert claimed_names(queue, owner) == []
    add("free-3", "default")
    assert claimed_names(queue, owner) == ["free-3"]
    queue.hold({"token", "default", "another", "a fourth", "a fifth"})
    add("free-4", "default")
    assert claimed_names(queue, owner) == []
    assert queue.waiting(0, 10) == []
    queue.hold(())
    assert queue.wake.take()
    assert claimed_names(queue, owner) == ["held-0", "held-1", "held-2", "free-4"]


def test_a_claim_of_chosen_jobs_passes_held_profiles_over_too(queue: Queue, birth: BirthMaker, owner: Owner) -> None:
    """BEY-20, PIPE-129: a profile that was held since the choice keeps its jobs."""
    made = queue.enqueue(
        [birth(original_path=f"/in/{profile}", profile_name=profile) for profile in ("token", "default")]
    )
    chosen = [one.job.id for one in made if one.job is not None]
    queue.hold({"token"})
    claimed = queue._store.carry_out(queue.claiming(2, owner, chosen))
    assert [changed.job.profile_name for changed in claimed] == ["default"]


def test_a_claim_does_not_read_a_long_row_of_held_jobs_each_time(
    queue: Queue, birth: BirthMaker, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-20, PERF-08: once passed over they cost nothing more, and a clock that was set back loses no job."""
    long_ago = utc_now() - datetime.timedelta(days=1)
    with monkeypatch.context() as patch:
        patch.setattr(queue, "_clock", lambda: long_ago)
        queue.enqueue([birth(original_path=f"/in/{number}", profile_name="token") for number in range(50)])
    queue.hold({"token"})
    assert queue.claim(4, owner) == []
    assert queue._held is not None
    assert queue._held.since > long_ago + datetime.timedelta(hours=23)
    with monkeypatch.context() as patch:
        patch.setattr(queue, "_clock", lambda: long_ago)
        queue.enqueue([birth(original_path="/in/other", profile_name="default")])
    assert queue.claim(4, owner) == []
    queue._held.look_all_at = 0.0
    assert [changed.job.original_path for changed in queue.claim(4, owner)] == ["/in/other"]
