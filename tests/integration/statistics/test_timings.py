"""Rows of stage timings stand and fall with their job; the figures are those an independent count gives."""

from __future__ import annotations

import datetime
import math
import random
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import RaceLost
from bulksigner.jobs.model import Job, Owner
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import EngineKind, Store
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.tables import JobRow, JobTimingRow, StatisticsStateRow
from bulksigner.records.times import read_time
from bulksigner.statistics import figures as figures_module
from bulksigner.statistics.figures import Figures, Panel, read_figures
from bulksigner.statistics.timings import Spans, reset_statistics, to_milliseconds, write_timings
from bulksigner.testing.rows import new_birth

NOW = datetime.datetime(2026, 8, 12, 12, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)
SPANS = Spans("Local", queue_wait_ms=7, signing_ms=400, verification_ms=None, output_ms=0)
NO = {EngineKind.SQLITE: "0", EngineKind.POSTGRESQL: "FALSE"}


def verifying(store: Store, name: str = "a.pdf") -> Job:
    """Return a job that has only its end before it."""
    queue, jobs = Queue(store), Jobs(store)
    queue.enqueue([new_birth(name, profile_name="payments")])
    [changed] = queue.claim(1, Owner("signer-1", "life-1"))
    return jobs.transition(changed.job, "sign", by=Actor.WORKER, message="Signed").job


def complete(store: Store, job: Job, spans: Spans = SPANS, also: Callable[[Job], None] | None = None) -> Job:
    def record(after: Job) -> None:
        assert after.completed_at is not None
        write_timings(store, after, spans, after.completed_at)
        if also is not None:
            also(after)

    return Jobs(store).transition(job, "complete", by=Actor.WORKER, message="Completed", also=record).job


def rows(store: Store) -> list[tuple[Any, ...]]:
    names = [field.name for field in JobTimingRow._meta.sorted_fields]
    prepared = Prepared(JobTimingRow.select(*[getattr(JobTimingRow, name) for name in names]))
    return store.read(lambda: store.execute(prepared).rows)


def test_the_row_says_what_the_job_took(store: Store) -> None:
    """STA-06, STA-08, STA-11: null stays null, zero stays zero, total is the sum; time and instance are the job's."""
    job = complete(store, verifying(store))
    [row] = rows(store)
    assert (row[0], read_time(row[1])) == (job.id, job.completed_at)
    assert row[2:] == ("Local", "Pades", "payments", 7, 400, None, 0, 407, "signer-1")


def test_row_and_completion_are_one_transaction(store: Store) -> None:
    """STA-11: neither is there without the other."""
    job = verifying(store)

    def fail(_: Job) -> None:
        raise OSError("after the row")

    with pytest.raises(OSError, match="after the row"):
        complete(store, job, also=fail)
    assert rows(store) == []
    found = Jobs(store).get(job.id)
    assert found == job
    complete(store, job)
    with pytest.raises(RaceLost):
        complete(store, job)
    assert len(rows(store)) == 1


def test_rows_go_with_their_job_and_the_sums_follow(store: Store) -> None:
    """STA-32: deleting one job takes its row by cascade, and the counts drop accordingly."""
    kept, gone = (complete(store, verifying(store, name)) for name in ("a.pdf", "b.pdf"))
    assert read_figures(store, NOW).total.count == 2
    delete = Prepared(JobRow.delete().where(JobRow.id == gone.id))
    store.write(lambda: store.execute(delete))
    assert [row[0] for row in rows(store)] == [kept.id]
    figures = read_figures(store, NOW)
    assert (figures.total.count, figures.total.sum_ms, figures.verification.count) == (1, 407, 0)


def test_milliseconds_are_whole_and_never_negative() -> None:
    """STA-07, STA-08."""
    assert [to_milliseconds(value) for value in (None, -5.0, 0.0, 0.0004, 1.2345)] == [None, 0, 0, 0, 1234]


# -- figures against an independent count ---------------------------------------------------------------------------

FILL_JOBS = """
INSERT INTO job (id, file_name, original_path, path_key, profile_name, format, source, status, created_at, updated_at,
    path_released, input_diverged, row_version)
WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count})
SELECT 'job-' || n, 'f', '/in/' || n, '/in/' || n, 'p', 'Pades', 'Watcher', 'Completed',
    '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', {no}, {no}, 1 FROM s"""
INSERT = Prepared(JobTimingRow.insert({field: slot(field.name) for field in JobTimingRow._meta.sorted_fields}))


@attrs.frozen
class Row:
    job_id: str
    completed_at: datetime.datetime
    spans: Spans

    def values(self) -> dict[str, object]:
        return {"job_id": self.job_id, "completed_at": self.completed_at, "format": "Pades", "profile": "p",
            "instance": "i", "total_ms": self.spans.total_ms, **attrs.asdict(self.spans)}  # fmt: skip


def random_rows(count: int, seed: int) -> list[Row]:
    chance = random.Random(seed)

    def stage() -> int | None:
        return None if chance.random() < 0.2 else int(chance.lognormvariate(5, 2))

    return [
        Row(
            f"job-{number}",
            NOW - datetime.timedelta(seconds=chance.choice([chance.uniform(0, 90), chance.uniform(0, 300_000)])),
            Spans(chance.choice(["Local", "LacunaSigner", "SignerFolder"]), stage(), stage(), stage(), stage()),
        )
        for number in range(1, count + 1)
    ]


def recount(found: list[Row], marker: datetime.datetime | None = None) -> dict[str, object]:
    """Compute every figure from the rows themselves."""
    counted = [row for row in found if marker is None or row.completed_at > marker]
    if not counted:
        return {"count": 0}

    def mean(values: list[int | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known else None

    totals = [row.spans.total_ms for row in counted]
    start = max(filter(None, (marker, min(row.completed_at for row in found))))
    day = sorted((row.completed_at, row.spans.total_ms) for row in counted if row.completed_at > NOW - 86400 * SECOND)
    recent = sorted(total for _, total in day[-1_000:])
    remote = [row.spans.total_ms for row in counted if row.spans.method != "Local"]
    local = [row.spans.total_ms for row in counted if row.spans.method == "Local"]
    return {
        "count": len(counted),
        "means": [mean(totals), *(mean([getattr(row.spans, f"{stage}_ms") for row in counted])
            for stage in ("queue_wait", "signing", "verification", "output"))],
        "methods": [(len(local), mean(list(local))), (len(remote), mean(list(remote)))],
        "extremes": (min(totals), max(totals)),
        "window": start,
        "minute": sum(row.completed_at > NOW - 60 * SECOND for row in counted),
        "lifetime": len(counted) / max(1, (NOW - start).total_seconds() / 60),
        "percentile": recent[math.ceil(0.95 * len(recent)) - 1] if recent else None,
    }  # fmt: skip


def shown(figures: Figures) -> dict[str, object]:
    if figures.window_start is None:
        return {"count": figures.total.count}
    stages = (figures.total, figures.queue_wait, figures.signing, figures.verification, figures.output)
    return {
        "count": figures.total.count,
        "means": [stage.milliseconds for stage in stages],
        "methods": [(part.count, part.milliseconds) for part in (figures.local, figures.remote)],
        "extremes": (figures.shortest_ms, figures.longest_ms),
        "window": figures.window_start,
        "minute": figures.last_minute_count,
        "lifetime": figures.lifetime_per_minute,
        "percentile": figures.percentile_95_ms,
    }


def assert_same(figures: Figures, wanted: dict[str, object]) -> None:
    for name, value in shown(figures).items():
        if name in ("means", "lifetime", "methods"):
            flat = [number for part in ([value] if name == "lifetime" else value) for number in
                (part if isinstance(part, tuple) else (part,))]  # fmt: skip
            other = [number for part in ([wanted[name]] if name == "lifetime" else wanted[name]) for number in
                (part if isinstance(part, tuple) else (part,))]  # fmt: skip
            assert flat == [None if number is None else pytest.approx(number) for number in other], name
        else:
            assert value == wanted[name], name


@pytest.fixture
def fill(store: Store) -> Callable[[list[Row]], None]:
    def act(given: list[Row]) -> None:
        count = max(int(row.job_id.partition("-")[2]) for row in given)

        def write() -> None:
            store.database.execute_sql(FILL_JOBS.format(count=count, no=NO[store.kind]))
            store.execute_each(INSERT, [row.values() for row in given])

        store.write(write)

    return act


def test_figures_equal_an_independent_count(store: Store, fill: Callable[[list[Row]], None]) -> None:
    """STA-17 to STA-26, STA-100: 10 000 random rows, then some deleted, then all of them."""
    found = random_rows(10_000, seed=20260812)
    fill(found)
    assert_same(read_figures(store, NOW), recount(found))
    chance = random.Random(1)
    gone = {row.job_id for row in chance.sample(found, 3000)} | {
        extreme(found, key=lambda row: row.spans.total_ms).job_id for extreme in (min, max)
    }
    delete = Prepared(JobRow.delete().where(JobRow.id.in_(sorted(gone))))
    store.write(lambda: store.execute(delete))
    left = [row for row in found if row.job_id not in gone]
    assert_same(read_figures(store, NOW), recount(left))
    store.write(lambda: store.execute(Prepared(JobRow.delete())))
    assert_same(read_figures(store, NOW), {"count": 0})


def test_a_reset_moves_the_marker_and_a_failed_one_leaves_it(store: Store, fill: Callable[[list[Row]], None]) -> None:
    """STA-31: in the transaction of the clear; what was before it is gone, what comes counts from there."""
    found = random_rows(500, seed=2)
    fill(found)
    before = read_figures(store, NOW)

    def fail() -> None:
        reset_statistics(store, NOW)
        raise OSError("the clear failed")

    with pytest.raises(OSError, match="the clear failed"):
        store.write(fail)
    assert read_figures(store, NOW) == before

    def clear() -> None:
        reset_statistics(store, NOW)
        store.execute(Prepared(JobRow.delete()))

    store.write(clear)
    assert rows(store) == []
    empty = read_figures(store, NOW)
    assert (empty.total.count, empty.window_start, empty.is_since_reset) == (0, None, False)
    assert (empty.shortest_ms, empty.percentile_95_ms, empty.lifetime_per_minute) == (None, None, None)
    job = complete(store, verifying(store))
    assert job.completed_at is not None
    after = read_figures(store, job.completed_at)
    assert (after.total.count, after.window_start, after.is_since_reset) == (1, job.completed_at, False)


def test_rows_at_or_before_the_marker_are_ignored(store: Store, fill: Callable[[list[Row]], None]) -> None:
    """Section 2, STA-26: a clock that was behind stamped them after the reset; the window then starts at the marker."""
    found = random_rows(400, seed=3)
    found.append(Row("job-401", NOW - 1000 * SECOND, SPANS))
    fill(found)
    marker = NOW - 1000 * SECOND
    move = Prepared(StatisticsStateRow.update({StatisticsStateRow.reset_at: marker}))
    store.write(lambda: store.execute(move))
    figures = read_figures(store, NOW)
    assert_same(figures, recount(found, marker))
    assert figures.is_since_reset


def test_one_second_at_least_passes_between_two_looks(store: Store) -> None:
    """STA-29: any number of viewers cost one look a second."""
    ticks = [0.0]
    panel = Panel(store, lambda: NOW, lambda: ticks[0])
    assert panel.read().total.count == 0
    complete(store, verifying(store))
    ticks[0] = 0.99
    assert panel.read().total.count == 0
    ticks[0] = 1.0
    assert panel.read().total.count == 1


def test_sums_stay_right_under_many_writers(store: Store) -> None:
    """STA-29: completions side by side, with deletions between, lose no count."""
    made = [verifying(store, f"{number}.pdf") for number in range(40)]

    def work(part: list[Job]) -> None:
        for job in part:
            done = complete(store, job)
            if int(job.file_name.partition(".")[0]) % 3 == 0:
                drop = Prepared(JobRow.delete().where(JobRow.id == done.id))
                store.write(partial(store.execute, drop))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [made[start::4] for start in range(4)]))
    left = sum(number % 3 != 0 for number in range(40))
    figures = read_figures(store, NOW)
    assert (figures.total.count, figures.total.sum_ms, len(rows(store))) == (left, left * 407, left)


STATEMENTS = ("_OLDEST", "_SHORTEST", "_LONGEST", "_COUNT", "_RECENT", "_IGNORED")


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_figure_reads_the_whole_table(store: Store, fill: Callable[[list[Row]], None], name: str) -> None:
    """STA-29: each statement goes through an index, whatever the number of rows."""
    fill(random_rows(3000, seed=4))
    prepared = getattr(figures_module, name)
    compiled = prepared.compiled(store.database)
    is_sqlite = store.kind is EngineKind.SQLITE
    with store.reading():
        store.database.execute_sql("ANALYZE")

    def explain() -> str:
        connection = store.database.connection()
        if not is_sqlite:
            connection.execute("SET LOCAL enable_seqscan = off")
        head = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN "
        found = connection.execute(head + compiled.sql, compiled.bind({"since": NOW - 60 * SECOND})).fetchall()
        return "\n".join(row[3] if is_sqlite else row[0] for row in found)

    plan = store.write(explain)
    assert "job_timing_total" in plan or "job_timing_newest" in plan, plan
    assert "Seq Scan" not in plan, plan
    assert "TEMP B-TREE FOR ORDER" not in plan, plan


def test_a_job_that_waits_for_people_counts_from_its_release(store: Store) -> None:
    """STA-09, STA-10, STA-99: release and requeue set the anchor of the wait anew."""
    clock = [NOW]
    queue, jobs = Queue(store, lambda: clock[0]), Jobs(store, lambda: clock[0])
    queue.enqueue([new_birth()])
    [changed] = queue.claim(1, Owner("a", "1"))
    parked = jobs.transition(changed.job, "park", by=Actor.WORKER, message="Parked").job
    clock[0] += datetime.timedelta(days=2)
    released = jobs.transition(parked, "release", by=Actor.APPROVER, message="Released").job
    assert (released.status, released.queued_at) == (JobStatus.QUEUED, clock[0])
    [changed] = queue.claim(1, Owner("a", "1"))
    clock[0] += SECOND
    requeued = jobs.transition(changed.job, "requeue", by=Actor.TAKEOVER, message="Taken over").job
    assert requeued.queued_at == clock[0]
