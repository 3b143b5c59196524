"""The durable writes of jobs alone, from enqueue to Completed (PERF-21)."""

from __future__ import annotations

import threading
import time

from bench.measure import Result
from bench.stores import new_birth, opening_stores
from bulksigner.jobs.model import Changed, Owner, utc_now
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import EngineKind, Store

__all__ = ["run_journal"]

OWNER = Owner("bench", "1")
JOBS = 480


def run_journal(count: int | None) -> list[Result]:
    """Measure one and sixteen threads on both engines."""
    results = []
    for kind in EngineKind:
        with opening_stores(kind) as open_new:
            store = open_new()
            results += [_walk(kind, store, count or JOBS, threads) for threads in (1, 16)]
            store.close()
    return results


def _walk(kind: EngineKind, store: Store, count: int, threads: int) -> Result:
    queue, jobs = Queue(store), Jobs(store)
    share = max(1, count // threads)

    def walk(first: int) -> None:
        for number in range(first, first + share):
            queue.enqueue([new_birth(number)])
            for claimed in queue.claim(1, OWNER):
                _finish(jobs, claimed)

    base = threads * 1_000_000
    walkers = [threading.Thread(target=walk, args=(base + share * index,)) for index in range(threads)]
    wall, cpu = time.perf_counter(), time.process_time()
    for walker in walkers:
        walker.start()
    for walker in walkers:
        walker.join()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = share * threads
    note = "5 durable writes a job; CPU of this process" if kind is EngineKind.POSTGRESQL else "5 durable writes a job"
    return Result(
        "journal", f"{kind.value}, {threads} threads", done / wall, 0, 1000 * wall / done, 1000 * cpu / done, done, note
    )


def _finish(jobs: Jobs, claimed: Changed) -> None:
    now = utc_now()
    job = jobs.record(
        claimed.job, staged_length=300_000, staged_sha256="a" * 64, staged_at=now, sign_call_started_at=now
    )
    job = jobs.transition(
        job,
        "sign",
        by=Actor.WORKER,
        message="Signed",
        output_path="bench.signed.pdf",
        output_sha256="b" * 64,
        output_length=310_000,
    ).job
    jobs.transition(job, "complete", by=Actor.WORKER, message="Completed: bench.signed.pdf")
