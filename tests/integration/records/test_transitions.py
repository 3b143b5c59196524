"""The store moves jobs along the table, all of it or nothing (PIPE-04)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bulksigner.contract.errors import NotAllowed, RaceLost
from bulksigner.jobs.listing import history
from bulksigner.jobs.model import Birth, Job, Owner, utc_now
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import BIRTHS, TERMINAL, TRANSITIONS, Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import Store
from bulksigner.records.events import Event

NewJob = Callable[..., Job]


def ways() -> dict[JobStatus, list[str]]:
    """Return, for each status, the events that lead a new job there."""
    found: dict[JobStatus, list[str]] = {BIRTHS["enqueue"]: []}
    while len(found) < len(JobStatus):
        for row in TRANSITIONS:
            for source in row.sources:
                if source in found and row.target not in found:
                    found[row.target] = [*found[source], row.event]
    return found


def walk(jobs: Jobs, job: Job, events: list[str]) -> Job:
    """Move a job along `events`."""
    for event in events:
        row = next(row for row in TRANSITIONS if row.event == event and job.status in row.sources)
        job = jobs.transition(job, event, by=min(row.actors, key=lambda actor: actor.value), message=event).job
    return job


def test_every_pair_of_states(jobs: Jobs, store: Store, new_job: NewJob) -> None:
    """PIPE-109: each event from each status by each actor does what the table says, or raises and changes nothing."""
    allowed = {(source, row.event, actor) for row in TRANSITIONS for source in row.sources for actor in row.actors}
    targets = {row.event: row.target for row in TRANSITIONS}
    number = 0
    for status, events in ways().items():
        job = walk(jobs, new_job(f"{status.value}.pdf"), events)
        for event, target in targets.items():
            for actor in Actor:
                if (status, event, actor) in allowed:
                    number += 1
                    fresh = walk(jobs, new_job(f"{number}.pdf"), events)
                    moved = jobs.transition(fresh, event, by=actor, message="moved").job
                    assert (moved.status, jobs.get(fresh.id)) == (target, moved)
                    # What the partial indexes go by.
                    assert (moved.completed_at is not None, moved.queued_at is not None) == (target in TERMINAL, True)
                else:
                    with pytest.raises(NotAllowed):
                        jobs.transition(job, event, by=actor, message="refused")
        assert jobs.get(job.id) == job
    assert number == len(allowed)
    with store.reading():
        rows = store.database.execute_sql("SELECT status, COUNT(*) FROM job GROUP BY status").fetchall()
    assert jobs.counts() == {JobStatus(status): count for status, count in rows}


def test_a_transition_records_history_event_and_columns_together(jobs: Jobs, store: Store, new_job: NewJob) -> None:
    """PIPE-04, SEC-72, SEC-73: one transaction holds the status, its columns, the history row and the event."""
    job = new_job()
    event = Event("SomethingHappened", "It did.", {"job": job.id})
    changed = jobs.transition(
        job, "cancel", by=Actor.OPERATOR, message="Operator canceled.", operational_event=event, error_message="x"
    )
    assert [entry.message for entry in history(store, job.id)] == [
        "Queued from watched folder in",
        "Operator canceled.",
    ]
    with store.reading():
        assert store.database.execute_sql("SELECT event_type, facts FROM operational_event").fetchall() == [
            ("SomethingHappened", f'{{"job": "{job.id}"}}')
        ]
    assert changed.job == jobs.get(job.id)
    assert changed.job.error_message == "x"
    assert changed.job.completed_at == changed.job.updated_at == changed.change.at
    assert (changed.change.before, changed.change.after, changed.wakes) == ("Queued", "Canceled", False)


def test_the_loser_of_a_race_records_nothing(jobs: Jobs, store: Store, new_job: NewJob) -> None:
    """PIPE-04, DEP-23: a job read before another's write cannot be moved; neither history nor event remains."""
    stale = new_job()
    current = jobs.record(stale, message="noted")
    with pytest.raises(RaceLost):
        jobs.transition(stale, "cancel", by=Actor.OPERATOR, message="lost", operational_event=Event("E", "lost"))
    with pytest.raises(RaceLost):
        jobs.record(stale, message="lost too", output_path="x")
    assert jobs.get(stale.id) == current
    assert [entry.message for entry in history(store, stale.id)][1:] == ["noted"]
    with store.reading():
        assert store.database.execute_sql("SELECT COUNT(*) FROM operational_event").fetchone() == (0,)


def test_only_the_owner_moves_an_owned_job(
    jobs: Jobs, queue: Queue, store: Store, new_job: NewJob, owner: Owner
) -> None:
    """PIPE-04: the update asks for the owner as read, beside version and status."""
    new_job()
    [claimed] = queue.claim(1, owner)
    store.write(lambda: store.database.execute_sql("UPDATE job SET owner_incarnation = 'life-2'"))
    with pytest.raises(RaceLost):
        jobs.transition(claimed.job, "sign", by=Actor.WORKER, message="Signed")


def test_entering_the_queue_again_clears_the_owner(jobs: Jobs, queue: Queue, new_job: NewJob, owner: Owner) -> None:
    """PIPE-01, PIPE-26: back in the queue a job has no owner, a new place in line, and wakes the worker."""
    new_job()
    [claimed] = queue.claim(1, owner)
    back = jobs.transition(claimed.job, "requeue", by=Actor.TAKEOVER, message="Requeued after instance loss")
    assert (back.job.owner_identity, back.job.owner_incarnation) == (None, None)
    assert back.job.queued_at == back.job.updated_at
    assert back.wakes


def test_record_keeps_the_status_and_its_history_is_optional(jobs: Jobs, store: Store, new_job: NewJob) -> None:
    """CLU-11: the mark before the key is used is a write of its own, without a history row."""
    marked = jobs.record(new_job(), sign_call_started_at=utc_now(), staged_length=2**40)
    assert jobs.get(marked.id) == marked
    assert marked.status is JobStatus.QUEUED
    assert len(history(store, marked.id)) == 1


def test_the_machines_own_columns_cannot_be_set(jobs: Jobs, new_job: NewJob) -> None:
    """PIPE-04: status, times of the machine and row version have one writer."""
    job = new_job()
    for column in ("status", "queued_at", "completed_at", "row_version", "no_such_column"):
        with pytest.raises(TypeError, match=column):
            jobs.record(job, **{column: None})


def test_births_may_be_final(queue: Queue, jobs: Jobs, birth: Callable[..., object]) -> None:
    """PIPE-07: a job born Failed is final from its first row, releases its path and wakes nobody."""
    [answer] = queue.enqueue(
        [birth(event="already_processed", error_code="file.already-processed", path_released=True)]
    )  # type: ignore[list-item]
    assert answer.changed is not None
    job = answer.changed.job
    assert jobs.get(job.id) == job
    assert (job.status, job.queued_at, job.completed_at) == (JobStatus.FAILED, None, job.created_at)
    assert (job.path_released, answer.changed.wakes, queue.wake.take()) == (True, False, False)
    assert jobs.counts()[JobStatus.FAILED] == 1


def test_counts_follow_every_way_a_job_changes(
    jobs: Jobs, queue: Queue, store: Store, new_job: NewJob, birth: Callable[..., Birth]
) -> None:
    """PERF-35: what is counted equals a count of the rows, after births, moves and deletions."""
    for number in range(5):
        new_job(f"{number}.pdf", profile_name=f"profile-{number % 2}")
    turned_away = {"event": "metadata_invalid", "error_code": "job.metadata-invalid"}
    queue.enqueue([birth(original_path=f"/in/bad-{number}.pdf", **turned_away) for number in range(3)])
    assert jobs.counts()[JobStatus.FAILED] == 3
    claimed = queue.claim(3, Owner("a", "b"))
    jobs.transition(claimed[0].job, "fail", by=Actor.WORKER, message="x")
    store.write(lambda: store.database.execute_sql("DELETE FROM job WHERE status = 'Failed'"))
    with store.reading():
        rows = store.database.execute_sql("SELECT status, COUNT(*) FROM job GROUP BY status").fetchall()
    assert {status.value: count for status, count in jobs.counts().items() if count} == dict(rows)
    assert jobs.counts()[JobStatus.PROCESSING] == 2


def test_a_deleted_job_takes_its_history_along(jobs: Jobs, store: Store, new_job: NewJob) -> None:
    """SEC-72, PIPE-101: history goes with its job, children stay without parent."""
    parent = walk(jobs, new_job(), ["claim", "fail"])
    child = new_job(parent_job_id=parent.id, parent_message="Retried")
    assert history(store, parent.id)[-1].message == "Retried"
    assert history(store, parent.id)[-1].status is JobStatus.FAILED
    assert parent.status in TERMINAL
    store.write(lambda: store.database.execute_sql(f"DELETE FROM job WHERE id = '{parent.id}'"))
    assert history(store, parent.id) == []
    kept = jobs.get(child.id)
    assert kept is not None
    assert kept.parent_job_id is None
