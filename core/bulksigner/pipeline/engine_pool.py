"""A pool of warm worker processes behind the engine seam (PERF-06)."""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
import pickle
import threading
from collections.abc import Iterable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import StepFailed
from bulksigner.contract.signing import Measured
from bulksigner.formats.model import Checked
from bulksigner.pipeline.engine import CheckTask, InProcessEngine, SignTask
from bulksigner.pipeline.engine_worker import Broken, FindFault, WorkerBoot, run
from bulksigner.profiles.model import KeyReference

__all__ = ["ProcessEngine"]

log = logging.getLogger(__name__)

CALL_LIMIT_SECONDS = 300.0
"""A call that takes longer is taken for hung: its worker is ended and the job fails (SEC-70)."""

START_LIMIT_SECONDS = 120.0
STOP_LIMIT_SECONDS = 5.0


class _WorkerLost(Exception):
    """Say why a worker cannot answer: it ended, or it did not answer in time."""


class _KeyAway(Exception):
    """Say why a worker could not open a key."""


class _Worker:
    """One worker process and this end of its pipe; used by one slot at a time."""

    def __init__(self, boot: WorkerBoot) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, far_end = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=run, args=(far_end, boot), name="bulksigner-signing", daemon=True
        )
        self._is_ended = False
        self._profiles: set[str] = set()
        try:
            self._process.start()
        except BaseException:
            self._pipe.close()
            raise
        finally:
            far_end.close()

    def send(self, call: object) -> None:
        """Send one call. Raises `_WorkerLost`."""
        try:
            self._pipe.send_bytes(pickle.dumps(call, pickle.HIGHEST_PROTOCOL))
        except OSError as error:
            raise _WorkerLost("it had ended") from error

    def receive(self, limit_seconds: float) -> Any:
        """Wait for the answer to the call that was sent. Raises `_WorkerLost`."""
        try:
            if self._pipe.poll(limit_seconds):
                return pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - our own worker is at the other end
        except (EOFError, OSError) as error:
            raise _WorkerLost("it ended during the call") from error
        raise _WorkerLost(f"it gave no answer within {limit_seconds:g} s")

    def learn(self, reference: KeyReference, limit_seconds: float) -> None:
        """Have the worker open a key unless it has it. Raises `_WorkerLost`, or `_KeyAway` when it cannot."""
        if reference.profile not in self._profiles:
            self.send(reference)
            self.note_learned(reference, self.receive(limit_seconds))

    def note_learned(self, reference: KeyReference, answer: object) -> None:
        """Take the answer to a reference that was sent. Raises `_KeyAway` when the key did not open."""
        if isinstance(answer, Broken):
            raise _KeyAway(answer.message)
        self._profiles.add(reference.profile)

    def kill(self) -> None:
        """End the process under a call; whoever waits for the answer sees the worker lost."""
        self._process.kill()

    def end(self, patience_seconds: float = 0.0) -> None:
        """Close the pipe, which ends an idle worker, and kill one that does not end in time."""
        if self._is_ended:
            return
        self._is_ended = True
        with contextlib.suppress(OSError):
            self._pipe.close()
        self._process.join(patience_seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(STOP_LIMIT_SECONDS)
        # A process in uninterruptible sleep outlives even this.
        with contextlib.suppress(ValueError):
            self._process.close()


class ProcessEngine:
    """Signs and checks in worker processes; keys that cannot travel sign in this process instead."""

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
        self._references: dict[str, KeyReference] = {}
        self._signs_here = False
        self._changed = threading.Condition()
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._is_closed = False
        # Workers heed no signal, so an exit that forgets to close would wait for them.
        atexit.register(self.close)
        try:
            for _ in range(workers):
                worker = _Worker(boot)
                self._workers.add(worker)
                self._idle.append(worker)
        except BaseException:
            self.close()
            raise

    @property
    def label(self) -> str:
        return f"{self._count} worker processes"

    def open(self, reference: KeyReference, key: OpenedKey) -> None:
        """Make the key known everywhere; called at boot, while no job runs."""
        self._here.open(reference, key)
        if not reference.portable:
            self._signs_here = True
            return
        try:
            pickle.dumps(reference)
        except Exception as error:  # noqa: BLE001 - the block is of a plugin's class, which may refuse in any way
            self._keep_here(reference, f"its settings cannot be sent ({type(error).__name__})")
            return
        self._references[reference.profile] = reference
        workers = [self._take() for _ in range(self._count)]
        try:
            workers = self._teach(workers, reference)
        finally:
            for worker in workers:
                self._give_back(worker)

    def sign(self, task: SignTask) -> Measured:
        reference = self._references.get(task.profile)
        if reference is not None:
            try:
                answer: Measured = self._call(task, reference)
            except _KeyAway as away:
                # A worker that took a lost one's place is no reason to fail: this process still holds the open key.
                self._give_up_workers(reference, away)
            else:
                return answer
        return self._here.sign(task)

    def check(self, task: CheckTask) -> Checked:
        answer: Checked = self._call(task)
        return answer

    def find_fault(self) -> str | None:
        try:
            fault: str | None = self._call(FindFault())
        except StepFailed as error:
            return error.message
        return self._here.find_fault() if fault is None and self._signs_here else fault

    def close(self) -> None:
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            idle, self._idle = self._idle, []
            busy = self._workers.difference(idle)
            self._changed.notify_all()
        atexit.unregister(self.close)
        for worker in busy:
            worker.kill()
        for worker in idle:
            worker.end(STOP_LIMIT_SECONDS)
        self._here.close()

    def _take(self) -> _Worker:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._idle)
            if self._is_closed:
                raise StepFailed("The signing workers have been stopped.")
            return self._idle.pop()

    def _give_back(self, worker: _Worker) -> None:
        with self._changed:
            if not self._is_closed:
                self._idle.append(worker)
                self._changed.notify()
                return
        worker.end()

    def _call(self, call: object, reference: KeyReference | None = None) -> Any:
        worker = self._take()
        try:
            if reference is not None:
                # Known since the boot, except to a worker that took a lost one's place and could not open it then.
                worker.learn(reference, START_LIMIT_SECONDS)
            worker.send(call)
            answer = worker.receive(self._call_limit_seconds)
        except _WorkerLost as lost:
            worker = self._replace(worker, lost)
            raise StepFailed(f"The signing worker was lost: {lost}. Retry the job.") from lost
        finally:
            self._give_back(worker)
        if isinstance(answer, Broken):
            if answer.trace:
                log.error("A signing worker met an unexpected fault\n%s", answer.trace)
            raise StepFailed(answer.message, code=answer.code)
        return answer

    def _teach(self, workers: Iterable[_Worker], reference: KeyReference) -> list[_Worker]:
        """Have every worker open a key, all at the same time; return the workers that stand there afterwards."""
        taught: list[_Worker] = []
        asked: list[_Worker] = []
        for worker in workers:
            try:
                worker.send(reference)
            except _WorkerLost as lost:
                taught.append(self._replace(worker, lost))
            else:
                asked.append(worker)
        for worker in asked:
            try:
                answer = worker.receive(START_LIMIT_SECONDS)
            except _WorkerLost as lost:
                taught.append(self._replace(worker, lost))
                continue
            taught.append(worker)
            try:
                worker.note_learned(reference, answer)
            except _KeyAway as away:
                self._give_up_workers(reference, away)
        return taught

    def _give_up_workers(self, reference: KeyReference, away: _KeyAway) -> None:
        """Keep a profile here until the next start; said once, whichever slot meets it first."""
        if self._references.pop(reference.profile, None) is not None:
            self._keep_here(reference, f"a worker could not open its key ({away})")

    def _keep_here(self, reference: KeyReference, reason: str) -> None:
        self._signs_here = True
        log.warning("Jobs of profile '%s' are signed in the service's own process: %s", reference.profile, reason)

    def _replace(self, worker: _Worker, cause: _WorkerLost) -> _Worker:
        """Start a fresh worker in the place of a lost one; only the job in its call is lost.

        Where none can be started the lost one stands in: its next call finds it lost, and tries again.
        """
        worker.end()
        with self._changed:
            if self._is_closed:
                return worker
            log.error("A signing worker process was lost: %s. Starting another", cause)
            try:
                fresh = _Worker(self._boot)
            except OSError as error:
                log.error("Another signing worker process could not be started: %s", error)
                return worker
            self._workers.discard(worker)
            self._workers.add(fresh)
        try:
            # Makes sure that it is up, so that no job's time limit pays for that.
            fresh.send(FindFault())
            fresh.receive(START_LIMIT_SECONDS)
            for reference in list(self._references.values()):
                try:
                    fresh.learn(reference, START_LIMIT_SECONDS)
                except _KeyAway as away:
                    self._give_up_workers(reference, away)
        except _WorkerLost as error:
            log.error("The new signing worker process is not ready: %s", error)
            # An answer that comes too late would be taken for that of the next call.
            fresh.end()
        return fresh
