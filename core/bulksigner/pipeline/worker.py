"""The pipeline worker: claims jobs up to its free slots, runs the plan, ends each job (PIPE-64 to PIPE-70)."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

import attrs

from bulksigner.jobs.model import Changed, Owner
from bulksigner.pipeline.ending import Ending
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.pipeline.plan import LOCAL
from bulksigner.pipeline.work import Parts, Work

__all__ = ["Worker"]

log = logging.getLogger(__name__)


@attrs.define
class _Slots:
    """How many slots are busy; wakes the loop when one frees."""

    count: int
    freed: Callable[[], None]
    busy: int = 0
    guard: threading.Lock = attrs.field(factory=threading.Lock)

    def take(self, how_many: int) -> None:
        with self.guard:
            self.busy += how_many

    def give_back(self) -> None:
        with self.guard:
            self.busy -= 1
        self.freed()

    @property
    def free(self) -> int:
        with self.guard:
            return self.count - self.busy


class Worker:
    """Runs one loop thread and one thread for each slot."""

    def __init__(
        self, parts: Parts, pause: PauseFlag, owner: Owner, *, slots: int, poll_interval_seconds: float
    ) -> None:
        self._parts = parts
        self._pause = pause
        self._owner = owner
        self._poll_interval_seconds = poll_interval_seconds
        self._slots = _Slots(slots, parts.queue.wake.set)
        self._inbox: queue.SimpleQueue[Changed | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._ending = Ending(self._stopping)
        self._threads: list[threading.Thread] = []
        self._fault: str | None = None

    @property
    def fault(self) -> str | None:
        """Say why the worker no longer claims, or None while it does (OPS-22, API-99)."""
        return self._fault

    @property
    def jobs_in_flight(self) -> int:
        """Return how many slots are busy."""
        return self._slots.busy

    def start(self) -> None:
        """Start the loop and the slots."""
        self._threads = [threading.Thread(target=self._loop_twice, name="pipeline-loop", daemon=True)]
        self._threads += [
            threading.Thread(target=self._serve_slot, name=f"pipeline-slot-{number}", daemon=True)
            for number in range(1, self._slots.count + 1)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, grace_seconds: float) -> int:
        """Stop claiming, wait for the jobs under way, and return how many are still running (CLU-04)."""
        self._stopping.set()
        self._parts.queue.wake.set()
        deadline = time.monotonic() + grace_seconds
        while self._slots.busy and time.monotonic() < deadline:
            time.sleep(0.02)
        left = self._slots.busy
        for _ in range(self._slots.count):
            self._inbox.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()) if left else 5.0)
        return left

    def step(self) -> int:
        """Take one turn by hand, running what it claims in this thread; return how many jobs it ran."""
        claimed = self._claim(self._slots.count)
        for changed in claimed:
            self._run(changed)
        return len(claimed)

    def _claim(self, limit: int) -> list[Changed]:
        if self._pause.read().is_paused:
            return []
        claimed = self._parts.queue.claim(limit, self._owner)
        for changed in claimed:
            self._parts.announce(changed)
        return claimed

    def _loop_twice(self) -> None:
        for is_last in (False, True):
            try:
                self._loop()
                return
            except BaseException as error:
                # Only what escapes the loop's own guard comes here, such as MemoryError (OPS-22).
                log.critical("The pipeline loop died: %s", error, exc_info=True)
                if is_last:
                    self._fault = f"the pipeline loop died twice ({type(error).__name__}); restart the service"

    def _loop(self) -> None:
        wake = self._parts.queue.wake
        while not self._stopping.is_set():
            free = self._slots.free
            claimed: list[Changed] = []
            if free:
                try:
                    claimed = self._claim(free)
                except Exception:
                    # The store may be gone for a while; the loop outlives it and tries at the next turn (PIPE-64).
                    log.exception("Claiming failed; trying again in %s s", self._poll_interval_seconds)
                self._slots.take(len(claimed))
                for changed in claimed:
                    self._inbox.put(changed)
            if len(claimed) < free:
                wake.wait(self._poll_interval_seconds)
            elif not self._slots.free:
                # Nothing is asked of the database while all slots are busy; one that frees sets the wake signal.
                wake.wait(None)

    def _serve_slot(self) -> None:
        while (changed := self._inbox.get()) is not None:
            try:
                self._run(changed)
            finally:
                self._slots.give_back()

    def _run(self, claimed: Changed) -> None:
        work = Work(self._parts, claimed.job)
        step_name = ""
        try:
            for step in LOCAL:
                step_name = step.name
                with work.timed(step.name):
                    step.act(work)
            self._ending.complete(work)
        except Exception as error:  # noqa: BLE001 - whatever a step raises ends this job and no other (PIPE-67)
            self._ending.fail(work, step_name, error)
