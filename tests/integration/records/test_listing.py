"""Pages are right, and stay on their indexes however many jobs are finished (PERF-08, PERF-35)."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bulksigner.jobs import listing, queue
from bulksigner.jobs import names as job_names
from bulksigner.jobs import store as job_store
from bulksigner.jobs.listing import EVERY_JOB, JobFilter
from bulksigner.jobs.model import Birth
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import EngineKind, Store
from bulksigner.records.prepared import Prepared

START = datetime.datetime(2026, 3, 2, 12, tzinfo=datetime.UTC)
BirthMaker = Callable[..., Birth]


@pytest.fixture
def filled(store: Store, birth: BirthMaker) -> Store:
    """Thirty jobs of three profiles, a second apart, every fifth cancelled."""
    ticks = itertools.count()

    def clock() -> datetime.datetime:
        return START + datetime.timedelta(seconds=next(ticks))

    line, jobs = Queue(store, clock), Jobs(store, clock)
    for number in range(30):
        [answer] = line.enqueue([birth(f"{number:02}.pdf", profile_name=f"profile-{number % 3}")])
        if number % 5 == 0 and answer.job is not None:
            jobs.transition(answer.job, "cancel", by=Actor.OPERATOR, message="x")
    return store


@pytest.mark.parametrize("status", [None, JobStatus.QUEUED, JobStatus.CANCELED, JobStatus.FAILED])
@pytest.mark.parametrize("profile", [None, "profile-1", "unknown"])
def test_pages_cut_the_filtered_list(filled: Store, status: JobStatus | None, profile: str | None) -> None:
    """API-58: newest first by creation; the pages together are the list, and the count is its length."""
    wanted = [
        f"{number:02}.pdf"
        for number in reversed(range(30))
        if profile in (None, f"profile-{number % 3}")
        and status in (None, JobStatus.CANCELED if number % 5 == 0 else JobStatus.QUEUED)
    ]
    pages = [listing.page(filled, JobFilter(status, profile), page=number, page_size=7) for number in range(1, 7)]
    assert [job.file_name for page in pages for job in page.items] == wanted
    assert {page.total_count for page in pages} == {len(wanted)}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (JobFilter(file_name="2"), ["29", "28", "27", "26", "25", "24", "23", "22", "21", "20", "12", "02"]),
        (JobFilter(file_name="0.PDF"), ["20", "10", "00"]),
        (JobFilter(file_name="%"), []),
        (JobFilter(file_name="_"), []),
        (JobFilter(since=START + datetime.timedelta(seconds=33)), ["29", "28", "27"]),
        (JobFilter(JobStatus.CANCELED, "profile-0", "5.pdf"), ["15"]),
    ],
)
def test_a_filter_by_name_and_time(filled: Store, wanted: JobFilter, names: list[str]) -> None:
    """API-57, API-66: the name is looked for letter by letter in any case; page, count and export agree."""
    found = listing.page(filled, wanted)
    assert [job.file_name for job in found.items] == [f"{name}.pdf" for name in names]
    assert found.total_count == len(names)
    assert [job.id for job in listing.each(filled, wanted, limit=100, batch=2)] == [job.id for job in found.items]


def test_the_end_of_a_range_is_left_out(filled: Store) -> None:
    """API-66: `until` is the first instant that does not count."""
    third = listing.page(filled).items[2]
    assert third not in listing.page(filled, JobFilter(until=third.created_at), page_size=100).items
    assert third in listing.page(filled, JobFilter(since=third.created_at), page_size=100).items


@pytest.mark.parametrize("limit", [1, 7, 8, 30])
def test_an_export_has_no_more_than_its_limit(filled: Store, limit: int) -> None:
    """API-66: the newest that fit, each once, wherever the batches end."""
    jobs = list(listing.each(filled, EVERY_JOB, limit=limit, batch=4))
    assert jobs == list(listing.page(filled, page_size=limit).items)


def test_history_is_told_in_order(filled: Store) -> None:
    """API-59, SEC-72: oldest first, with the status each line led to."""
    job = listing.page(filled, JobFilter(status=JobStatus.CANCELED)).items[0]
    lines = listing.history(filled, job.id)
    assert [(line.status, line.message) for line in lines] == [
        (JobStatus.QUEUED, "Queued from watched folder in"),
        (JobStatus.CANCELED, "x"),
    ]
    assert lines[0].at == job.created_at
    assert lines[1].at == job.completed_at


def plan_of(store: Store, prepared: Prepared, **values: object) -> str:
    """Return the engine's plan of a statement as text."""
    compiled = prepared.compiled(store.database)
    explain = "EXPLAIN QUERY PLAN " if store.kind is EngineKind.SQLITE else "EXPLAIN (FORMAT JSON) "

    def act() -> list[Any]:
        connection = store.database.connection()
        if store.kind is EngineKind.POSTGRESQL:
            # A table this small is read whole, whatever its indexes.
            connection.execute("SET LOCAL enable_seqscan = off")
            connection.execute("SET LOCAL enable_sort = off")
        return list(connection.execute(explain + compiled.sql, compiled.bind(values)).fetchall())

    rows = store.write(act)
    return "\n".join(row[3] for row in rows) if store.kind is EngineKind.SQLITE else json.dumps(rows[0][0])


def pages(store: Store, wanted: JobFilter) -> Prepared:
    return listing._queries(store.kind, wanted.kinds)[0]


LIMITS = {"limit": 50, "offset": 100}
HELD_NAME = "(sqlite_autoindex_held_file_name_1|held_file_name_pkey)"
STATEMENTS: Mapping[str, tuple[Callable[[Store], Prepared], dict[str, object], str]] = {
    "claim": (
        lambda store: queue._claim(store.kind, is_chosen=False, heeds_pause=True, held_count=0),
        {"limit": 4, "identity": "a", "incarnation": "1", "now": START, "paused": False},
        "job_queue",
    ),
    "latest": (lambda _: job_store._LATEST_FOR, {"path_key": "/in/a"}, "job_path"),
    "active": (lambda _: job_store._ACTIVE_FOR, {"path_key": "/in/a"}, "job_active_path"),
    "holder of a name": (lambda _: job_names._HOLDERS, {"name_key": "a.pdf", "besides": ""}, "job_name"),
    "name of a removed job": (lambda _: job_names._HOLDERS, {"name_key": "a.pdf", "besides": ""}, HELD_NAME),
    "in flight": (lambda _: job_store._IN_FLIGHT, {}, "job_active"),
    "history": (lambda _: listing._HISTORY, {"job_id": "x"}, "job_history_job"),
    "all": (lambda store: pages(store, EVERY_JOB), LIMITS, "job_newest"),
    "status": (
        lambda store: pages(store, JobFilter(JobStatus.FAILED)),
        {**LIMITS, "status": "Failed"},
        "job_newest_by_status",
    ),
    "profile": (lambda store: pages(store, JobFilter(None, "p")), {**LIMITS, "profile": "p"}, "job_newest_by_profile"),
    "both": (
        lambda store: pages(store, JobFilter(JobStatus.FAILED, "p")),
        {**LIMITS, "status": "Failed", "profile": "p"},
        "job_newest_by_both",
    ),
    "active status": (
        lambda store: pages(store, JobFilter(JobStatus.QUEUED)),
        {**LIMITS, "status": "Queued"},
        "job_active",
    ),
    "export": (
        lambda store: listing._older(store.kind, JobFilter(JobStatus.FAILED).kinds),
        {"limit": 500, "status": "Failed", "created_at": START, "id": "x"},
        "job_newest_by_status",
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_hot_statements_use_their_index(filled: Store, name: str) -> None:
    """PERF-08, PERF-35: neither engine reads the table of jobs, nor sorts what it has not cut to a page."""
    choose, values, index = STATEMENTS[name]
    if filled.kind is EngineKind.POSTGRESQL:
        with filled.reading():
            filled.database.execute_sql("VACUUM ANALYZE")
    plan = plan_of(filled, choose(filled), **values)
    assert re.search(rf"\b{index}\b", plan), plan
    assert "TEMP B-TREE" not in plan.partition("LIST SUBQUERY")[2].partition("\n")[0], plan
    assert "Seq Scan" not in plan, plan
    assert "SCAN job\n" not in plan + "\n", plan
