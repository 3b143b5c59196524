"""The pipeline worker: claims jobs up to its free slots, runs the plan, ends each job (PIPE-64 to PIPE-70)."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import attrs

from bulksigner.jobs.model import Changed, Owner
from bulksigner.jobs.states import JobStatus
from bulksigner.jobs.store import change_of
from bulksigner.pipeline.conductor import Conductor
from bulksigner.pipeline.ending import Ending
from bulksigner.pipeline.outbox import Outbox
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.pipeline.plan import LOCAL
from bulksigner.pipeline.work import Parts, Work
from bulksigner.plugin_system.guard import ANYTHING

__all__ = ["Worker"]

log = logging.getLogger(__name__)

JOIN_LIMIT_SECONDS = 5.0
STEP_LIMIT_SECONDS = 900.0
"""Room for the limits of validators and engine and for a wait before them; a step that takes longer is stuck."""


class Worker:
    """Leads up to `slots` jobs in one thread of its own."""

    def __init__(
        self,
        parts: Parts,
        pause: PauseFlag,
        owner: Owner,
        *,
        slots: int,
        poll_interval_seconds: float,
        find_hindrance: Callable[[], str | None] = lambda: None,
        choose: Callable[[int], Sequence[str] | None] = lambda _: None,
    ) -> None:
        """Take the parts together; before each claim two functions are asked.

        `find_hindrance` says which fault of the service forbids it, or None (DEP-26); `choose` which of the queued jobs
        may be claimed, at most so many, or None for any (PIPE-129).
        """
        self._outbox = Outbox(parts.store, lambda: len(self._under_way))
        self._parts = attrs.evolve(parts, gather=self._outbox.put)
        self._pause = pause
        self._owner = owner
        self._poll_interval_seconds = poll_interval_seconds
        self._find_hindrance = find_hindrance
        self._choose = choose
        self._slots = slots
        self._conductor = Conductor(self._outbox.hand_over)
        self._stopping = threading.Event()
        self._ending = Ending(self._stopping, self._conductor.pause, lambda: len(self._under_way))
        self._thread: threading.Thread | None = None
        self._no_claim = threading.Event()
        self._no_claim.set()
        self._not_begun: deque[Changed] = deque()
        self._may_find_more = True
        self._looks_again_at = 0.0
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
        return len(self._under_way)

    def start(self) -> None:
        """Start the loop."""
        self._parts.queue.wake.listen(self._conductor.poke)
        self._thread = threading.Thread(target=self._run_twice, name="pipeline-loop", daemon=True)
        self._thread.start()

    def stop(self, grace_seconds: float) -> int:
        """Stop claiming, wait for the jobs under way, and return how many are still running (CLU-04)."""
        self._stopping.set()
        self._conductor.poke()
        if self._thread is not None:
            self._thread.join(grace_seconds)
            # What a claim takes at this moment is counted with the jobs under way.
            self._no_claim.wait(JOIN_LIMIT_SECONDS)
            if not self._under_way:
                self._thread.join(JOIN_LIMIT_SECONDS)
        return self.jobs_in_flight

    def step(self) -> int:
        """Take one turn by hand, running what it claims in this thread; return how many jobs it ran."""
        claimed: list[Changed] = []

        async def claim() -> None:
            claimed.extend(await self._claim(self._slots))

        self._conductor.run(claim())
        for changed in claimed:
            self._conductor.run(self._run(changed))
        return len(claimed)

    async def _claim(self, limit: int) -> list[Changed]:
        if self._is_hindered():
            return []
        chosen = self._choose(limit)
        if chosen is not None and not chosen:
            return []
        claiming = self._parts.queue.claiming(limit, self._owner, chosen, heeds_pause=True)
        claimed = await self._parts.write(claiming)
        if not claimed:
            # Not for the pause, which the claim has seen: a flag that is missing altogether is a fault to be told.
            self._pause.read()
        return claimed

    def _is_hindered(self) -> bool:
        hindrance = self._find_hindrance()
        if hindrance is not None and self._hindrance is None:
            log.critical("No more jobs are claimed: %s", hindrance)
        elif hindrance is None and self._hindrance is not None:
            log.info("Jobs are claimed again")
        self._hindrance = hindrance
        return hindrance is not None

    def _run_twice(self) -> None:
        """Run the loop, and once more if it dies; a second death stops the claiming (OPS-22)."""
        for is_last in (False, True):
            try:
                self._loop()
                return
            except BaseException as error:  # noqa: BLE001 - only what escapes the jobs' own guard comes here
                _tell_death(error)
                if is_last:
                    self._fault = f"the pipeline died twice ({type(error).__name__}); restart the service"
        # Each death ends a job, so this comes to an end.
        while self._under_way:
            try:
                self._drain()
            except BaseException as error:  # noqa: BLE001 - the other jobs under way are still led to their end
                _tell_death(error)

    def _find_stuck(self) -> str | None:
        for work in list(self._under_way.values()):
            step, began = work.step_began or ("", time.monotonic())
            if time.monotonic() - began > STEP_LIMIT_SECONDS:
                return f"job {work.job.id} has been in step {step} for over {STEP_LIMIT_SECONDS / 60:g} minutes"
        return None

    def _loop(self) -> None:
        self._looks_again_at = 0.0
        while not self._stopping.is_set():
            self._begin_claimed()
            if self._is_claim_due():
                self._claim_more()
            is_claiming = not self._no_claim.is_set()
            until_look = self._looks_again_at - time.monotonic()
            self._conductor.turn(self._poll_interval_seconds if is_claiming else max(0.0, until_look))
        self._drain()

    def _drain(self) -> None:
        """Lead what is under way to its end, without taking more."""
        while self._under_way or not self._no_claim.is_set():
            self._begin_claimed()
            if self._stopping.is_set():
                self._conductor.wake_sleepers()
            self._conductor.turn(self._poll_interval_seconds)

    def _begin_claimed(self) -> None:
        while self._not_begun:
            claimed = self._not_begun.popleft()
            self._conductor.begin(self._run(claimed), partial(self._job_ended, claimed.job.id))

    def _claim_more(self) -> None:
        self._no_claim.clear()
        if self._stopping.is_set():
            # Whoever stops waits for a claim that was begun before, and for none that begins after.
            self._no_claim.set()
            return
        self._conductor.begin(self._take(self._slots - len(self._under_way)), self._claim_ended)

    def _is_claim_due(self) -> bool:
        if not self._no_claim.is_set():
            return False
        is_time = time.monotonic() >= self._looks_again_at
        if len(self._under_way) >= self._slots:
            if is_time:
                # While all slots are busy nothing is claimed, but a lock that was lost must not stay lost so long.
                self._is_hindered()
                self._looks_again_at = time.monotonic() + self._poll_interval_seconds
            return False
        is_woken = self._parts.queue.wake.take()
        return is_woken or is_time or self._may_find_more

    async def _take(self, free: int) -> None:
        self._looks_again_at = time.monotonic() + self._poll_interval_seconds
        self._may_find_more = False
        try:
            claimed = self._find_unanswered() if self._is_store_away else []
            if len(claimed) < free:
                claimed += await self._claim(free - len(claimed))
        except Exception:  # the store may be gone for a while; the loop outlives it and asks at each turn (PIPE-64)
            if not self._is_store_away:
                log.exception("Nothing can be claimed; trying again every %g s", self._poll_interval_seconds)
            self._is_store_away = True
            return
        if self._is_store_away:
            log.info("Claiming works again")
            self._is_store_away = False
        self._may_find_more = len(claimed) == free
        self._under_way |= {changed.job.id: Work(self._parts, changed.job) for changed in claimed}
        self._not_begun.extend(claimed)

    def _claim_ended(self, error: BaseException | None) -> None:
        self._no_claim.set()
        if error is not None:
            raise error

    def _job_ended(self, job_id: str, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            # Steps and store have guards of their own; whatever is left must not cost the slot (PIPE-67).
            log.error("Job %s was left as it stands", job_id, exc_info=error)
        elif error is not None:
            raise error

    def _find_unanswered(self) -> list[Changed]:
        """Find the jobs of a claim that was committed while its answer was lost; no slot has them (DEP-29)."""
        owner = (self._owner.identity, self._owner.incarnation)
        return [
            Changed(job, change_of(job, "claim", JobStatus.QUEUED, ""), wakes=False)
            for job in self._parts.jobs.in_flight()
            if job.id not in self._under_way
            and (job.owner_identity, job.owner_incarnation) == owner
            and job.status is JobStatus.PROCESSING
            and job.sign_call_started_at is None
        ]

    async def _run(self, claimed: Changed) -> None:
        work = self._under_way.setdefault(claimed.job.id, Work(self._parts, claimed.job))
        step = LOCAL[0]
        try:
            try:
                await self._parts.tell(claimed)
                for step in LOCAL:
                    if step.when is not None and not step.when(work):
                        continue
                    work.begin_step(step.name)
                    try:
                        await step.act(work)
                    finally:
                        work.end_step()
            except ANYTHING as error:  # whatever a step raises ends this job and no other (PIPE-67)
                await self._ending.fail(work, step, error)
            else:
                await self._ending.complete(work)
            await self._ending.clear_away(work)
        finally:
            del self._under_way[claimed.job.id]


def _tell_death(error: BaseException) -> None:
    log.critical("The thread %s died: %r", threading.current_thread().name, error, exc_info=error)
