"""Time the job journal: durable writes per job (PERF-21), claim and listing over many finished jobs (PERF-23).

    python bench/journal.py --rows 1000 100000 1000000

Prints a table and, with `--json`, writes the same figures to a file. PostgreSQL is a server of our own that flushes as
in production, or the one that BULKSIGNER_TEST_POSTGRES names.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.jobs import listing
from bulksigner.jobs.model import Birth, Changed, JobSource, Owner, utc_now
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import EngineKind, Store, open_postgresql, open_sqlite
from bulksigner.records.migrate import migrate
from bulksigner.testing.postgres import running_server

OWNER = Owner("bench", "1")
STEPS_PER_JOB = 6
QUEUED = 200
WARM_UP = 10
ROUNDS = 40

FILL = """
INSERT INTO job (id, file_name, original_path, path_key, input_folder, profile_name, format, source, status,
    created_at, queued_at, updated_at, completed_at, path_released, input_diverged, row_version)
SELECT {id}, 'file-' || n || '.pdf', '/in/file-' || n || '.pdf', '/in/file-' || n || '.pdf', 'in',
    'profile-' || (n - n / 10 * 10), 'Pades', 'Watcher',
    CASE WHEN n / 100 * 100 = n THEN 'Failed' ELSE 'Completed' END, {at}, {at}, {at}, {at}, {no}, {no}, 5
FROM {numbers}"""
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


@attrs.frozen
class Line:
    """One figure of the table."""

    engine: str
    line: str
    rows: int
    value: float
    unit: str
    fastest: float | None = None


def main() -> None:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000, 100_000], help="finished jobs in the database")
    parser.add_argument("--engine", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--jobs", type=int, default=480, help="jobs of the journal line, for each number of threads")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--folder", type=Path, default=None, help="where the SQLite file lies while we measure")
    parser.add_argument("--json", type=Path, default=None, help="also write the figures here")
    given = parser.parse_args()
    lines: list[Line] = []

    def show(measured: Sequence[Line]) -> None:
        for line in measured:
            fastest = "" if line.fastest is None else f" (fastest {line.fastest:.3f})"
            print(
                f"{line.engine:<11} {line.line:<30} {line.rows:>9} {line.value:>10.3f} {line.unit}{fastest}", flush=True
            )
        lines.extend(measured)

    engines = ["sqlite", "postgresql"] if given.engine == "both" else [given.engine]
    for engine in engines:
        with _stores(engine, given.folder) as open_new:
            show(_measure_journal(engine, open_new(), given.jobs, given.threads))
            for rows in given.rows:
                show(_measure_scale(engine, open_new(), rows))
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps([attrs.asdict(line) for line in lines], indent=1) + "\n", encoding="utf-8")


@contextmanager
def _stores(engine: str, parent: Path | None) -> Iterator[Callable[[], Store]]:
    """Give a function that opens a new, migrated store."""
    if engine == "postgresql":
        with running_server(is_durable=True) as server:
            yield lambda: _migrated(open_postgresql(Secret(server.url_of(server.create_database())), 20))
        return
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        names = iter(range(1000))
        print(f"flush of a 4 KiB write here: {_flush_milliseconds(Path(folder)):.2f} ms")
        yield lambda: _migrated(open_sqlite(Path(folder) / f"{next(names)}" / "bulksigner.db"))


def _migrated(store: Store) -> Store:
    migrate(store)
    return store


def _flush_milliseconds(folder: Path) -> float:
    with (folder / "flush").open("wb", buffering=0) as file:
        started = time.perf_counter()
        for _ in range(100):
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
        return (time.perf_counter() - started) * 10


def _birth(number: int) -> Birth:
    name = f"bench-{number}.pdf"
    return Birth(
        file_name=name,
        original_path=f"/in/{name}",
        input_folder="in",
        profile_name="profile-1",
        format=Format.PADES,
        source=JobSource.WATCHER,
        message="Queued from watched folder in",
    )


def _measure_journal(engine: str, store: Store, count: int, threads: Sequence[int]) -> list[Line]:
    """Walk jobs from enqueue to Completed in six durable writes each."""
    queue, jobs, lines = Queue(store), Jobs(store), []

    def walk(first: int, last: int) -> None:
        for number in range(first, last):
            queue.enqueue([_birth(number)])
            [claimed] = queue.claim(1, OWNER)
            _finish(jobs, claimed)

    for thread_count in threads:
        share = count // thread_count
        base = thread_count * 1_000_000
        walkers = [
            threading.Thread(target=walk, args=(base + share * index, base + share * (index + 1)))
            for index in range(thread_count)
        ]
        wall, cpu = time.perf_counter(), time.process_time()
        for walker in walkers:
            walker.start()
        for walker in walkers:
            walker.join()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        done = share * thread_count
        name = f"journal, {STEPS_PER_JOB} writes, {thread_count} threads"
        lines += [
            Line(engine, name, 0, done / wall, "jobs/s"),
            Line(engine, name, 0, cpu / done * 1000, "ms CPU per job"),
        ]
    store.close()
    return lines


def _finish(jobs: Jobs, claimed: Changed) -> None:
    job = jobs.record(claimed.job, staged_length=300_000, staged_sha256="a" * 64, staged_at=utc_now())
    job = jobs.transition(job, "sign", by=Actor.WORKER, message="Signed", sign_call_started_at=utc_now()).job
    job = jobs.record(job, output_path="bench.signed.pdf", output_sha256="b" * 64, output_length=310_000)
    jobs.transition(job, "complete", by=Actor.WORKER, message="Completed: bench.signed.pdf")


def _measure_scale(engine: str, store: Store, rows: int) -> list[Line]:
    """Time claim, pages and counts among `rows` finished jobs."""
    dialect = {**DIALECTS[store.kind], "numbers": DIALECTS[store.kind]["numbers"].format(rows=rows)}

    def fill() -> None:
        if store.kind is EngineKind.POSTGRESQL:
            store.database.execute_sql("SET LOCAL statement_timeout = 0")
        store.database.execute_sql(FILL.format(**dialect))
        store.database.execute_sql(FILL_HISTORY)

    store.write(fill)
    # What a filling this large leaves to be done would otherwise fall into the first figures.
    settling = {EngineKind.SQLITE: ["PRAGMA wal_checkpoint(TRUNCATE)"]}
    with store.reading():
        for statement in settling.get(store.kind, ["SET statement_timeout = 0", "VACUUM ANALYZE", "CHECKPOINT"]):
            store.database.execute_sql(statement)
    queue, jobs = Queue(store), Jobs(store)
    queue.enqueue([_birth(number) for number in range(QUEUED)])
    paths = [f"/in/file-{rows // 2}.pdf"]
    some = listing.page(store, status=JobStatus.FAILED).items[0].id
    middle = max(1, rows // 100)
    timed: dict[str, Callable[[], object]] = {
        "claim 1": lambda: queue.claim(1, OWNER),
        "enqueue 1": _counting(lambda number: queue.enqueue([_birth(10_000 + number)])),
        "page of all": lambda: listing.page(store),
        "page of a status": lambda: listing.page(store, status=JobStatus.FAILED),
        "page of a profile": lambda: listing.page(store, profile="profile-3"),
        "page of both": lambda: listing.page(store, status=JobStatus.FAILED, profile="profile-0"),
        "page in the middle": lambda: listing.page(store, page=middle),
        "counts": jobs.counts,
        "latest for a path": lambda: jobs.latest_for(paths),
        "history of a job": lambda: listing.history(store, some),
        "in flight": jobs.in_flight,
    }
    lines = []
    for name, act in timed.items():
        times = _milliseconds(act)
        lines.append(Line(engine, name, rows, statistics.median(times), "ms", min(times)))
    store.close()
    return lines


def _counting(act: Callable[[int], object]) -> Callable[[], object]:
    numbers = iter(range(1_000_000))
    return lambda: act(next(numbers))


def _milliseconds(act: Callable[[], object]) -> list[float]:
    for _ in range(WARM_UP):
        act()
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        act()
        times.append((time.perf_counter() - started) * 1000)
    return times


if __name__ == "__main__":
    main()
