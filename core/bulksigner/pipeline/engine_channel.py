"""One worker process, the pipe to it, and the thread that waits for what it answers."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import attrs

from bulksigner.lanes import Done
from bulksigner.pipeline.engine_worker import WorkerBoot, run

__all__ = ["Call", "Chain", "WorkerChannel"]

_KILL_LIMIT_SECONDS = 5.0


@attrs.define
class Call:
    """One thing a worker is asked for, and who hears of its answer; without a limit of its own the engine's holds."""

    task: object
    done: Done
    limit_seconds: float | None = None


Chain = tuple[Call, ...]
"""Calls that one worker carries out one behind the other; those behind one that fails are not begun."""


class WorkerChannel:
    """A worker process and this end of its pipe; the engine's lock guards everything but the receiving.

    Chains are answered in the order they are sent in; the first of `chains` is the one under way, without the calls
    that were answered.
    """

    def __init__(
        self,
        boot: WorkerBoot,
        answered: Callable[[WorkerChannel, Sequence[object]], None],
        lost: Callable[[WorkerChannel, str], None],
    ) -> None:
        self.chains: deque[Chain] = deque()
        self._began = 0.0
        self.profiles: set[str] = set()
        self.has_answered = False
        self._answered = answered
        self._lost = lost
        self._reason = ""
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, far_end = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=run, args=(far_end, boot), name="bulksigner-signing", daemon=True
        )
        try:
            self._process.start()
        except BaseException:
            self._pipe.close()
            raise
        finally:
            far_end.close()
        self._receiver = threading.Thread(target=self._receive, name="engine-answers", daemon=True)
        self._receiver.start()

    def send(self, *chain: Call) -> None:
        """Send a chain behind those that wait; a worker that is gone is found by the receiver, not here."""
        encoded = pickle.dumps([call.task for call in chain], pickle.HIGHEST_PROTOCOL)
        if not self.chains:
            self._began = time.monotonic()
        self.chains.append(chain)
        with contextlib.suppress(OSError):
            self._pipe.send_bytes(encoded)

    def take(self, count: int) -> Chain:
        """Take the calls that were answered together; what stands behind them is under way from now on."""
        self.has_answered = True
        self._began = time.monotonic()
        chain = self.chains.popleft()
        if count < len(chain):
            self.chains.appendleft(chain[count:])
        return chain[:count]

    def overdue(self, limit_seconds: float, now: float) -> float | None:
        """Return the limit that the call under way has passed, or None."""
        if not self.chains:
            return None
        limit = self.chains[0][0].limit_seconds or limit_seconds
        return limit if now - self._began > limit else None

    def kill(self, reason: str) -> None:
        """End the process under its call; the receiver tells of the loss, with this reason."""
        self._reason = reason
        self._process.kill()

    def end(self, patience_seconds: float) -> None:
        """End the process, at once or when it has had time to end by itself; from any thread."""
        if patience_seconds:
            with contextlib.suppress(OSError):
                self._pipe.send_bytes(pickle.dumps(None))
            self._process.join(patience_seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(_KILL_LIMIT_SECONDS)
        if threading.current_thread() is not self._receiver:
            self._receiver.join(_KILL_LIMIT_SECONDS)
        with contextlib.suppress(OSError):
            self._pipe.close()
        # A process in uninterruptible sleep outlives even this.
        with contextlib.suppress(ValueError):
            self._process.close()

    def _receive(self) -> None:
        try:
            while True:
                encoded = self._pipe.recv_bytes()
                self._answered(self, pickle.loads(encoded))  # noqa: S301 - our own worker is at the other end
        except (EOFError, OSError):
            self._lost(self, self._reason or ("it ended during the call" if self.chains else "it had ended"))
