"""The pipeline worker: claims jobs up to its free slots, runs the plan, ends each job (PIPE-64 to PIPE-70)."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection
from functools import partial

from bulksigner.jobs.model import Changed, Owner
from bulksigner.jobs.states import JobStatus
from bulksigner.jobs.store import change_of
from bulksigner.pipeline.ending import Ending
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.pipeline.plan import LOCAL
from bulksigner.pipeline.work import Parts, Work
from bulksigner.plugin_system.guard import ANYTHING

__all__ = ["Worker"]

log = logging.getLogger(__name__)

JOIN_LIMIT_SECONDS = 5.0
STEP_LIMIT_SECONDS = 900.0
"""Room for the limits of validators and engine and for a wait before them; a step that takes longer is stuck."""


class _Slots:
    """The jobs that are held by a slot, and how many more there is room for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._held: set[str] = set()
        self._changed = threading.Condition()

    @property
    def held(self) -> Collection[str]:
        """Return the ids of the jobs under way."""
        with self._changed:
            return frozenset(self._held)

    @property
    def free(self) -> int:
        """Return how many more jobs can be taken."""
        with self._changed:
            return self.count - len(self._held)

    def take(self, job_id: str) -> None:
        """Give a job a slot."""
        with self._changed:
            self._held.add(job_id)

    def give_back(self, job_id: str) -> None:
        """Free the slot of a job."""
        with self._changed:
            self._held.discard(job_id)
            self._changed.notify_all()

    def wait_empty(self, limit_seconds: float) -> None:
        """Wait until no job is under way, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held, limit_seconds)


class Worker:
    """Runs one loop thread and one thread for each slot."""

    def __init__(
        self,
        parts: Parts,
        pause: PauseFlag,
        owner: Owner,
        *,
        slots: int,
        poll_interval_seconds: float,
        find_hindrance: Callable[[], str | None] = lambda: None,
        find_shortage: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Take the parts together; before each claim both functions say why nothing may be claimed now, or None.

        A hindrance is a fault of the service (DEP-26), a shortage passes by itself (PIPE-129).
        """
        self._parts = parts
        self._pause = pause
        self._owner = owner
        self._poll_interval_seconds = poll_interval_seconds
        self._find_hindrance = find_hindrance
        self._find_shortage = find_shortage
        self._is_short = False
        self._slots = _Slots(slots)
        self._inbox: queue.SimpleQueue[Changed | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._ending = Ending(self._stopping)
        self._threads: list[threading.Thread] = []
        self._is_store_away = False
        self._fault: str | None = None
        self._hindrance: str | None = None
        self._under_way: dict[str, Work] = {}

    @property
    def fault(self) -> str | None:
        """Say why the worker does not claim, or which job holds its slot for ever; else None (OPS-22, API-99)."""
        return self._fault or self._hindrance or self._find_stuck()

    @property
    def jobs_in_flight(self) -> int:
        """Return how many slots are busy."""
        return len(self._slots.held)

    def start(self) -> None:
        """Start the loop and the slots."""
        bodies: dict[str, Callable[[bool], None]] = {"pipeline-loop": lambda _: self._loop()}
        bodies |= {f"pipeline-slot-{number}": self._serve_slot for number in range(1, self._slots.count + 1)}
        self._threads = [
            threading.Thread(target=partial(self._run_twice, body), name=name, daemon=True)
            for name, body in bodies.items()
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, grace_seconds: float) -> int:
        """Stop claiming, wait for the jobs under way, and return how many are still running (CLU-04)."""
        deadline = time.monotonic() + grace_seconds
        self._stopping.set()
        self._parts.queue.wake.set()
        # The loop first: what it claims at this moment has a slot before the jobs under way are counted.
        for loop in self._threads[:1]:
            loop.join(max(grace_seconds, JOIN_LIMIT_SECONDS))
        self._slots.wait_empty(max(0.0, deadline - time.monotonic()))
        left = self.jobs_in_flight
        for _ in range(self._slots.count):
            self._inbox.put(None)
        if not left:
            for thread in self._threads:
                thread.join(JOIN_LIMIT_SECONDS)
        return left

    def step(self) -> int:
        """Take one turn by hand, running what it claims in this thread; return how many jobs it ran."""
        claimed = self._claim(self._slots.count)
        for changed in claimed:
            self._run(changed)
        return len(claimed)

    def _claim(self, limit: int) -> list[Changed]:
        if self._is_hindered() or self._pause.read().is_paused or self._is_kept_waiting():
            return []
        return self._parts.queue.claim(limit, self._owner)

    def _is_hindered(self) -> bool:
        hindrance = self._find_hindrance()
        if hindrance is not None and self._hindrance is None:
            log.critical("No more jobs are claimed: %s", hindrance)
        elif hindrance is None and self._hindrance is not None:
            log.info("Jobs are claimed again")
        self._hindrance = hindrance
        return hindrance is not None

    def _is_kept_waiting(self) -> bool:
        reason = self._find_shortage()
        if reason is not None and not self._is_short:
            log.warning("No job is claimed; queued jobs wait: %s", reason)
        elif reason is None and self._is_short:
            log.info("Jobs are claimed again")
        self._is_short = reason is not None
        return self._is_short

    def _run_twice(self, body: Callable[[bool], None]) -> None:
        """Run the body of a thread, and once more if it dies; a second death stops the claiming (OPS-22)."""
        for is_last in (False, True):
            try:
                body(is_last)
                return
            except BaseException as error:
                # Only what escapes the body's own guard comes here.
                log.critical("The thread %s died: %r", threading.current_thread().name, error, exc_info=True)
                if is_last:
                    self._stop_claiming(error)

    def _find_stuck(self) -> str | None:
        for work in list(self._under_way.values()):
            step, began = work.step_began or ("", time.monotonic())
            if time.monotonic() - began > STEP_LIMIT_SECONDS:
                return f"job {work.job.id} has been in step {step} for over {STEP_LIMIT_SECONDS / 60:g} minutes"
        return None

    def _stop_claiming(self, error: BaseException) -> None:
        name = threading.current_thread().name
        self._fault = f"the thread {name} died twice ({type(error).__name__}); restart the service"
        self._parts.queue.wake.set()

    def _loop(self) -> None:
        wake = self._parts.queue.wake
        while not self._stopping.is_set() and self._fault is None:
            free = self._slots.free
            claimed = self._claim_if_possible(free)
            for changed in claimed:
                self._slots.take(changed.job.id)
                self._inbox.put(changed)
            if len(claimed) < free or not self._slots.free:
                wake.wait(self._poll_interval_seconds)

    def _claim_if_possible(self, free: int) -> list[Changed]:
        try:
            if not free:
                # While all slots are busy nothing is claimed, but a lock that was lost must not stay lost so long.
                self._is_hindered()
                return []
            claimed = self._find_unanswered() if self._is_store_away else []
            if len(claimed) < free:
                claimed += self._claim(free - len(claimed))
        except Exception:  # the store may be gone for a while; the loop outlives it and asks at each turn (PIPE-64)
            if not self._is_store_away:
                log.exception("Nothing can be claimed; trying again every %g s", self._poll_interval_seconds)
            self._is_store_away = True
            return []
        if self._is_store_away:
            log.info("Claiming works again")
            self._is_store_away = False
        return claimed

    def _find_unanswered(self) -> list[Changed]:
        """Find the jobs of a claim that was committed while its answer was lost; no slot has them (DEP-29)."""
        held = self._slots.held
        owner = (self._owner.identity, self._owner.incarnation)
        return [
            Changed(job, change_of(job, "claim", JobStatus.QUEUED, ""), wakes=False)
            for job in self._parts.jobs.in_flight()
            if job.id not in held
            and (job.owner_identity, job.owner_incarnation) == owner
            and job.status is JobStatus.PROCESSING
            and job.sign_call_started_at is None
        ]

    def _serve_slot(self, is_last: bool) -> None:
        while (changed := self._inbox.get()) is not None:
            try:
                self._run(changed)
            except Exception:
                # Steps and store have guards of their own; whatever is left must not cost the slot (PIPE-67).
                log.exception("Job %s was left as it stands", changed.job.id)
            except BaseException as error:
                if is_last:
                    # Before the slot is free, or one more job would be claimed that nothing runs.
                    self._stop_claiming(error)
                raise
            finally:
                self._slots.give_back(changed.job.id)
                self._parts.queue.wake.set()

    def _run(self, claimed: Changed) -> None:
        work = Work(self._parts, claimed.job)
        step = LOCAL[0]
        self._under_way[work.job.id] = work
        try:
            self._parts.announce(claimed)
            for step in LOCAL:
                with work.timed(step.name):
                    step.act(work)
        except ANYTHING as error:  # whatever a step raises ends this job and no other (PIPE-67)
            self._ending.fail(work, step, error)
        else:
            self._ending.complete(work)
        finally:
            del self._under_way[claimed.job.id]
