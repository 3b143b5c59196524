"""A pool of warm worker processes behind the engine seam (PERF-06)."""

from __future__ import annotations

import atexit
import logging
import pickle
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import StepFailed
from bulksigner.lanes import Done
from bulksigner.pipeline.engine import InProcessEngine, WorkerLost, begin_one_by_one
from bulksigner.pipeline.engine_channel import Call, Chain, WorkerChannel
from bulksigner.pipeline.engine_worker import Broken, FindFault, Forget, KeyAbsent, Lesson, WorkerBoot
from bulksigner.pipeline.tasks import KEYED, Task
from bulksigner.profiles.model import KeyReference

__all__ = ["ProcessEngine"]

log = logging.getLogger(__name__)

CALL_LIMIT_SECONDS = 300.0
"""A call that takes longer is taken for hung: its worker is ended and the job fails (SEC-70)."""

START_LIMIT_SECONDS = 120.0
STOP_LIMIT_SECONDS = 5.0
FAILED_STARTS = 5
"""Workers that may end one after the other before any of them answers; the calls that wait are then given up."""

AHEAD = 2
"""Chains that a worker has at a time: the one under way, and the next, so that it never waits for this process."""


class ProcessEngine:
    """Carries out tasks in worker processes; keys that cannot travel sign in this process instead."""

    def __init__(
        self,
        boot: WorkerBoot,
        workers: int,
        here: InProcessEngine,
        *,
        call_limit_seconds: float = CALL_LIMIT_SECONDS,
    ) -> None:
        self._boot = boot
        self._count = workers
        self._here = here
        self._call_limit_seconds = call_limit_seconds
        self._lessons: dict[str, Lesson] = {}
        self._signs_here = False
        self._guard = threading.RLock()
        self._workers: list[WorkerChannel] = []
        self._waiting: deque[Chain] = deque()
        self._failed_starts = 0
        self._is_closed = False
        self._closing = threading.Event()
        # Workers heed no signal, so an exit that forgets to close would wait for them.
        atexit.register(self.close)
        try:
            for _ in range(workers):
                self._workers.append(self._start_worker())
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._watch, name="engine-watch", daemon=True).start()

    @property
    def label(self) -> str:
        return f"{self._count} worker processes"

    def open(self, reference: KeyReference, key: OpenedKey) -> None:
        """Make the key known everywhere, at boot or in place of an earlier one, and wait until it is."""
        self._here.open(reference, key)
        if not reference.portable:
            self._signs_here = True
            return
        lesson = Lesson(reference, key.certificate)
        try:
            pickle.dumps(lesson)
        except Exception as error:  # noqa: BLE001 - the block is of a plugin's class, which may refuse in any way
            self._keep_here(reference, f"its settings cannot be sent ({type(error).__name__})")
            return
        with self._guard:
            self._lessons[reference.profile] = lesson
            taught = [self._teach(worker, lesson) for worker in self._workers]
        for over in taught:
            over.wait(START_LIMIT_SECONDS)

    def forget(self, reference: KeyReference) -> None:
        self._here.forget(reference)
        with self._guard:
            self._lessons.pop(reference.profile, None)
            for worker in self._workers:
                if reference.profile in worker.profiles:
                    worker.profiles.discard(reference.profile)
                    worker.send(Call(Forget(reference.profile), _ignore))

    def begin(self, task: Task[Any], done: Done) -> None:
        self.begin_chain(((task, done),))

    def begin_chain(self, chain: Sequence[tuple[Task[Any], Done]]) -> None:
        task, _ = chain[0]
        if isinstance(task, KEYED) and task.profile not in self._lessons:
            self._begin_signing_here(chain)
        else:
            self._send(*(Call(task, done) for task, done in chain))

    def find_fault(self) -> str | None:
        fault: str | None = None
        over = threading.Event()

        def note(value: Any, error: BaseException | None) -> None:
            nonlocal fault
            fault = str(error) if error is not None else value
            over.set()

        try:
            self._send(Call(FindFault(), note))
        except StepFailed as error:
            return error.message
        # A worker that gives no answer is ended at the limit of a call, which is an answer.
        over.wait()
        return self._here.find_fault() if fault is None and self._signs_here else fault

    def close(self) -> None:
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            workers, self._workers = self._workers, []
            chains = [*self._waiting, *(chain for worker in workers for chain in worker.chains)]
            self._waiting.clear()
            for worker in workers:
                worker.chains.clear()
        self._closing.set()
        atexit.unregister(self.close)
        for chain in chains:
            for call in chain:
                call.done(None, _stopped())
        is_busy = bool(chains)
        for worker in workers:
            worker.end(0.0 if is_busy else STOP_LIMIT_SECONDS)
        self._here.close()

    def _send(self, *chain: Call) -> None:
        with self._guard:
            if self._is_closed:
                raise _stopped()
            if len(self._workers) < self._count:
                self._heal()
            worker = min(self._workers, key=lambda one: len(one.chains), default=None)
            if worker is None:
                raise StepFailed("No signing worker process could be started. Look at the log, and retry the job.")
            if len(worker.chains) < AHEAD:
                self._hand(worker, chain)
            else:
                self._waiting.append(chain)

    def _hand(self, worker: WorkerChannel, chain: Chain) -> None:
        """Give a worker a chain; the key that its first call needs goes ahead of it unless the worker has it."""
        task = chain[0].task
        if isinstance(task, KEYED):
            lesson = self._lessons.get(task.profile)
            if lesson is not None and task.profile not in worker.profiles:
                self._teach(worker, lesson)
        worker.send(*chain)

    def _teach(self, worker: WorkerChannel, lesson: Lesson) -> threading.Event:
        over, reference = threading.Event(), lesson.reference

        def note(_: Any, error: BaseException | None) -> None:
            if error is not None and not self._is_closed and not isinstance(error, WorkerLost):
                worker.profiles.discard(reference.profile)
                self._give_up_workers(reference, error)
            over.set()

        worker.profiles.add(reference.profile)
        worker.send(Call(lesson, note, START_LIMIT_SECONDS))
        return over

    def _start_worker(self) -> WorkerChannel:
        worker = WorkerChannel(self._boot, self._answered, self._lost)
        # Makes sure that it is up, so that no job's time limit pays for that.
        worker.send(Call(FindFault(), _ignore, START_LIMIT_SECONDS))
        return worker

    def _answered(self, worker: WorkerChannel, answers: Sequence[object]) -> None:
        """Take a worker's answers in its receiving thread, and have the worker go on before anyone reads them."""
        with self._guard:
            if not worker.chains:
                return
            calls = worker.take(len(answers))
            self._failed_starts = 0
            while self._waiting and len(worker.chains) < AHEAD:
                self._hand(worker, self._waiting.popleft())
        if isinstance(answers[0], KeyAbsent):
            # A worker that took a lost one's place is no reason to fail: this process still holds the open key.
            self._begin_signing_here([(call.task, call.done) for call in calls])
            return
        for call, answer in zip(calls, answers, strict=True):
            self._tell(call, answer)

    def _begin_signing_here(self, chain: Sequence[tuple[Any, Done]]) -> None:
        def begin(task: Task[Any], done: Done) -> None:
            (self._here if isinstance(task, KEYED) else self).begin(task, done)

        begin_one_by_one(begin, chain)

    def _tell(self, call: Call, answer: object) -> None:
        if isinstance(answer, Broken):
            if answer.trace:
                log.error("A signing worker met an unexpected fault\n%s", answer.trace)
            call.done(None, StepFailed(answer.message, code=answer.code, trouble=answer.trouble))
        else:
            call.done(answer, None)

    def _lost(self, worker: WorkerChannel, reason: str) -> None:
        """Start a fresh worker in the place of a lost one; only the job in its chain is lost.

        A worker answers in the order it is asked in, so what stands behind the chain under way was not begun. Where
        workers end before their first answer time and again, the next waits until there is work again.
        """
        with self._guard:
            if self._is_closed or worker not in self._workers:
                return
            log.error("A signing worker process was lost: %s. Starting another", reason)
            self._workers.remove(worker)
            lost, *behind = worker.chains or ((),)
            worker.chains.clear()
            self._waiting.extendleft(chain for chain in reversed(behind) if not _is_lesson(chain))
            self._failed_starts += not worker.has_answered
            if self._failed_starts < FAILED_STARTS:
                self._heal()
            stranded = [] if self._workers else list(self._waiting)
            if stranded:
                self._waiting.clear()
        worker.end(0.0)
        for chain in [lost, *stranded]:
            for call in chain:
                call.done(None, WorkerLost(f"The signing worker was lost: {reason}. Retry the job."))
        for lesson in filter(_is_lesson, behind):
            lesson[0].done(None, WorkerLost(reason))

    def _heal(self) -> None:
        while len(self._workers) < self._count:
            try:
                fresh = self._start_worker()
            except OSError as error:
                log.error("Another signing worker process could not be started: %s", error)
                return
            self._workers.append(fresh)
            for lesson in list(self._lessons.values()):
                self._teach(fresh, lesson)
            while self._waiting and len(fresh.chains) < AHEAD + 1 + len(self._lessons):
                self._hand(fresh, self._waiting.popleft())

    def _watch(self) -> None:
        """End the workers whose call takes too long."""
        while not self._closing.wait(min(1.0, self._call_limit_seconds / 4)):
            with self._guard:
                for worker in self._workers:
                    limit_seconds = worker.overdue(self._call_limit_seconds, time.monotonic())
                    if limit_seconds is not None:
                        worker.kill(f"it gave no answer within {limit_seconds:g} s")

    def _give_up_workers(self, reference: KeyReference, error: BaseException) -> None:
        """Keep a profile here until its key is opened anew; said once, whichever worker meets it first."""
        if self._lessons.pop(reference.profile, None) is not None:
            self._keep_here(reference, f"a worker could not open its key ({error})")

    def _keep_here(self, reference: KeyReference, reason: str) -> None:
        self._signs_here = True
        log.warning("Jobs of profile '%s' are signed in the service's own process: %s", reference.profile, reason)


def _stopped() -> StepFailed:
    # With a code of its own, or the step would give it one that blames the signature.
    return StepFailed("The service was stopped before the job had ended; retry the job.", code="recovery.interrupted")


def _is_lesson(chain: Chain) -> bool:
    return isinstance(chain[0].task, Lesson | FindFault | Forget)


def _ignore(_: Any, __: BaseException | None) -> None:
    """Hear nothing: the call was for its own sake."""
