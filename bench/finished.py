"""Claim, enqueue, lists and figures among many finished jobs: their cost stays flat (PERF-23, PERF-35, STA-29)."""

from __future__ import annotations

import datetime
import statistics
import time
from collections.abc import Callable

from bench.measure import Result
from bench.stores import new_birth, opening_stores
from bulksigner.jobs import listing
from bulksigner.jobs.model import Owner
from bulksigner.jobs.names import Names
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import EngineKind, Store
from bulksigner.statistics.figures import read_figures

__all__ = ["run_finished"]

OWNER = Owner("bench", "1")
ROWS = (1_000, 100_000, 1_000_000)
FIRST_AT = datetime.datetime.fromtimestamp(1700000000, datetime.UTC)
QUEUED = 200
WARM_UP = 10
ROUNDS = 40

FILL = """
INSERT INTO job (id, file_name, original_path, path_key, input_folder, profile_name, format, source, status,
    created_at, queued_at, updated_at, completed_at, path_released, input_diverged, row_version, name_key)
SELECT {id}, 'file-' || n || '.pdf', '/in/file-' || n || '.pdf', '/in/file-' || n || '.pdf', 'in',
    'profile-' || (n - n / 10 * 10), 'Pades', 'Watcher',
    CASE WHEN n / 10 * 10 = n THEN 'Failed' ELSE 'Completed' END, {at}, {at}, {at}, {at}, {no}, {no}, 5,
    'file-' || n || '.pdf'
FROM {numbers}"""
FILL_TIMINGS = """
INSERT INTO job_timing (job_id, completed_at, method, format, profile, queue_wait_ms, signing_ms, verification_ms,
    output_ms, total_ms, instance)
SELECT id, completed_at, 'Local', format, profile_name, length(file_name), 12, 5, length(path_key),
    17 + length(file_name) + length(path_key), 'bench' FROM job WHERE status = 'Completed'"""
FILL_COUNTS = """
INSERT INTO job_count (profile_name, status, shard, total)
SELECT profile_name, status, 0, COUNT(*) FROM job GROUP BY profile_name, status"""
FILL_HISTORY = """
INSERT INTO job_history (job_id, at, status, message) SELECT id, created_at, status, 'Completed' FROM job"""
DIALECTS = {
    EngineKind.SQLITE: {
        "id": "lower(hex(randomblob(16)))",
        "at": "strftime('%Y-%m-%dT%H:%M:%S', 1700000000 + n, 'unixepoch') || '.000000Z'",
        "no": "0",
        "numbers": "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s)",
    },
    EngineKind.POSTGRESQL: {
        "id": "gen_random_uuid()::text",
        "at": "to_timestamp(1700000000 + n)",
        "no": "FALSE",
        "numbers": "generate_series(1, {rows}) AS s(n)",
    },
}


def run_finished(count: int | None) -> list[Result]:
    """Measure 1 k, 100 k and 1 M finished jobs on both engines, or up to `count`; ratios are to the smallest."""
    results = []
    for kind in EngineKind:
        with opening_stores(kind) as open_new:
            smallest: dict[str, float] = {}
            for rows in (rows for rows in ROWS if count is None or rows <= count):
                store = open_new()
                for name, milliseconds in _measure(store, rows).items():
                    ratio = milliseconds / smallest.setdefault(name, milliseconds)
                    results.append(
                        Result(
                            f"{rows:,} finished",
                            f"{kind.value}: {name}",
                            1000 / milliseconds,
                            0,
                            milliseconds,
                            0,
                            ROUNDS,
                            f"× {ratio:.2f} of {ROWS[0]:,}",
                        )
                    )
                store.close()
    return results


def _measure(store: Store, rows: int) -> dict[str, float]:
    _fill(store, rows)
    queue, jobs, names = Queue(store), Jobs(store), Names(store)
    queue.enqueue([new_birth(number) for number in range(QUEUED)])
    paths = [f"/in/file-{rows // 2}.pdf"]
    numbers = iter(range(10_000, 1_000_000))
    acts: dict[str, Callable[[], object]] = {
        "claim": lambda: queue.claim(1, OWNER),
        "enqueue": lambda: queue.enqueue([new_birth(next(numbers))]),
        "page of all": lambda: listing.page(store),
        "page of a status": lambda: listing.page(store, listing.JobFilter(status=JobStatus.FAILED)),
        "page of a profile": lambda: listing.page(store, listing.JobFilter(profile="profile-3")),
        "counts": jobs.counts,
        "latest job of a path": lambda: jobs.latest_for(paths),
        # Among the rows as they would be looked at: the last of them is of just now.
        "figures of the panel": lambda: read_figures(store, FIRST_AT + datetime.timedelta(seconds=rows)),
        "holder of a name": lambda: names.holder_of(f"FILE-{rows // 2}.pdf"),
    }
    return {name: _median_milliseconds(act) for name, act in acts.items()}


def _fill(store: Store, rows: int) -> None:
    dialect = {**DIALECTS[store.kind], "numbers": DIALECTS[store.kind]["numbers"].format(rows=rows)}

    def fill() -> None:
        if store.kind is EngineKind.POSTGRESQL:
            store.database.execute_sql("SET LOCAL statement_timeout = 0")
        store.database.execute_sql(FILL.format(**dialect))
        if store.kind is EngineKind.SQLITE:
            store.database.execute_sql(FILL_COUNTS)
        store.database.execute_sql(FILL_HISTORY)
        store.database.execute_sql(FILL_TIMINGS)

    store.write(fill)
    # What a filling this large leaves to be done would otherwise fall into the first figures.
    settling = {EngineKind.SQLITE: ["PRAGMA wal_checkpoint(TRUNCATE)"]}
    with store.reading():
        for statement in settling.get(store.kind, ["SET statement_timeout = 0", "VACUUM ANALYZE", "CHECKPOINT"]):
            store.database.execute_sql(statement)


def _median_milliseconds(act: Callable[[], object]) -> float:
    for _ in range(WARM_UP):
        act()
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        act()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)
