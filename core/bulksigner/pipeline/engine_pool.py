"""A pool of warm worker processes behind the engine seam (PERF-06)."""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
import queue
import threading
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import StepFailed
from bulksigner.contract.signing import Measured
from bulksigner.formats.model import Checked
from bulksigner.pipeline.engine import CheckTask, InProcessEngine, SignTask
from bulksigner.pipeline.engine_worker import Broken, WorkerBoot, run
from bulksigner.profiles.model import KeyReference

__all__ = ["ProcessEngine"]

log = logging.getLogger(__name__)

CALL_LIMIT_SECONDS = 300.0
"""A call that takes longer is taken for hung: its worker is ended and the job fails (SEC-70)."""

STOP_LIMIT_SECONDS = 5.0


class _Worker:
    """One worker process and this end of its pipe; used by one slot at a time."""

    def __init__(self, boot: WorkerBoot, references: tuple[KeyReference, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, far_end = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=run, args=(far_end, boot), name="bulksigner-signing", daemon=True
        )
        self._process.start()
        far_end.close()
        self._known: set[KeyReference] = set()
        self._references = references

    def warm(self) -> None:
        """Open every known key, so that the first job does not wait for it."""
        for reference in self._references:
            self.learn(reference)

    def learn(self, reference: KeyReference) -> None:
        if reference not in self._known:
            answer = self.ask(reference)
            if isinstance(answer, Broken):
                raise StepFailed(answer.message, code=answer.code or "sign.failed")
            self._known.add(reference)

    def ask(self, call: object) -> Any:
        """Send one call and wait for its answer. Raises `EOFError` or `OSError` when the worker is gone."""
        self._pipe.send(call)
        if not self._pipe.poll(CALL_LIMIT_SECONDS):
            raise EOFError(f"no answer within {CALL_LIMIT_SECONDS:.0f} s")
        return self._pipe.recv()

    def end(self, patience_seconds: float = 0.0) -> None:
        """Close the pipe, which ends an idle worker, and kill one that does not end in time."""
        with contextlib.suppress(OSError):
            self._pipe.close()
        self._process.join(patience_seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(STOP_LIMIT_SECONDS)
        with contextlib.suppress(ValueError):
            self._process.close()


class ProcessEngine:
    """Signs and checks in worker processes; keys that may not travel sign in this process instead."""

    def __init__(self, boot: WorkerBoot, workers: int, here: InProcessEngine) -> None:
        self._boot = boot
        self._count = workers
        self._here = here
        self._references: dict[str, KeyReference] = {}
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._closed = False
        for _ in range(workers):
            self._idle.put(_Worker(boot, ()))
        # Workers heed no signal, so an exit that forgets to close would wait for them.
        atexit.register(self.close)

    @property
    def label(self) -> str:
        return f"{self._count} worker processes"

    def open(self, reference: KeyReference, key: OpenedKey) -> None:
        """Make the key known everywhere; called at boot, while no job runs."""
        self._here.open(reference, key)
        if not reference.portable:
            return
        self._references[reference.profile] = reference
        workers = [self._take() for _ in range(self._count)]
        try:
            for position, worker in enumerate(workers):
                try:
                    worker.learn(reference)
                except (EOFError, OSError) as error:
                    workers[position] = self._replace(worker, error)
        finally:
            for worker in workers:
                self._idle.put(worker)

    def sign(self, task: SignTask) -> Measured:
        if not task.reference.portable:
            return self._here.sign(task)
        answer: Measured = self._call(task, "sign.failed")
        return answer

    def check(self, task: CheckTask) -> Checked:
        answer: Checked = self._call(task, "verify.failed")
        return answer

    def close(self) -> None:
        with self._guard:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        for _ in range(self._count):
            with contextlib.suppress(queue.Empty):
                worker = self._idle.get(timeout=STOP_LIMIT_SECONDS)
                if worker is not None:
                    worker.end(STOP_LIMIT_SECONDS)
        self._here.close()

    def _take(self) -> _Worker:
        worker = self._idle.get()
        if worker is None or self._closed:
            self._idle.put(None)
            raise StepFailed("The signing workers have been stopped.", code="sign.failed")
        return worker

    def _call(self, call: object, code: str) -> Any:
        worker = self._take()
        try:
            answer = worker.ask(call)
        except (EOFError, OSError) as error:
            worker = self._replace(worker, error)
            raise StepFailed(
                "The signing worker ended in this job's call; it has been replaced. Retry the job.", code=code
            ) from error
        finally:
            self._idle.put(worker)
        if isinstance(answer, Broken):
            if answer.trace:
                log.error("A signing worker met an unexpected fault\n%s", answer.trace)
            raise StepFailed(answer.message, code=answer.code or code)
        return answer

    def _replace(self, worker: _Worker, cause: BaseException) -> _Worker:
        """Start a fresh worker in the place of a dead one; only the job in its call is lost."""
        log.error("A signing worker process was lost (%s); starting another", cause)
        worker.end()
        fresh = _Worker(self._boot, tuple(self._references.values()))
        try:
            fresh.warm()
        except (EOFError, OSError, StepFailed) as error:
            log.error("The new signing worker could not open its keys: %s", error)
        return fresh
