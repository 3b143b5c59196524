"""Where tasks are carried out: in threads of this process or in a pool of warm worker processes (PERF-06)."""

from __future__ import annotations

import queue
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import StepFailed
from bulksigner.contract.signing import Format
from bulksigner.encryption.key import EnvelopeKey
from bulksigner.formats import self_test
from bulksigner.lanes import Done, Lanes
from bulksigner.pipeline.conductor import Effect
from bulksigner.pipeline.tasks import KEYED, Task, carry_out
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles.model import KeyReference

if TYPE_CHECKING:
    from bulksigner.trust.stamping import Stamping

__all__ = ["Engine", "InProcessEngine", "WorkerLost", "ask", "begin_one_by_one", "perform"]

T = TypeVar("T")


class WorkerLost(StepFailed):
    """Say that the process which had a task is gone; what it had done of it nobody knows."""


class Engine(Protocol):
    """Carries out tasks."""

    @property
    def label(self) -> str:
        """Name the engine for banner and benchmark."""
        ...

    def open(self, reference: KeyReference, key: OpenedKey) -> None:
        """Make a key known before its first job, so that no job pays for opening it (PERF-01)."""
        ...

    def forget(self, reference: KeyReference) -> None:
        """Let go of a key that no job asks for any more; returns at once."""
        ...

    def begin(self, task: Task[Any], done: Done) -> None:
        """Take a task and return at once; `done` hears of its answer, or of its error, from any thread.

        Errors are `StepFailed`, `WorkerLost` among them, or whatever a library raised. The key was not used when the
        error of a `SignTask` has the code `approval.content-changed`.
        """
        ...

    def begin_chain(self, chain: Sequence[tuple[Task[Any], Done]]) -> None:
        """Take tasks that are carried out one behind the other, by the same worker where there are some.

        When one fails, those behind it are not begun, and fail too. The answers come in order, and may come together.
        """
        ...

    def find_fault(self) -> str | None:
        """Sign and check a sample of each format where jobs will be; return what went wrong, or None (API-82).

        Afterwards everything that only the first use of a format costs is paid.
        """
        ...

    def close(self) -> None:
        """End threads and worker processes, if any; tasks under way fail."""
        ...


def perform(engine: Engine, task: Task[T]) -> Effect[T]:
    """Return the effect of a task."""
    return Effect(lambda done: engine.begin(task, done))


def begin_one_by_one(begin: Callable[[Task[Any], Done], None], chain: Sequence[tuple[Task[Any], Done]]) -> None:
    """Begin the first task of a chain, and each other one when the one before it has ended well."""
    (task, done), *behind = chain

    def ended(value: Any, error: BaseException | None) -> None:
        done(value, error)
        if error is None and behind:
            try:
                begin_one_by_one(begin, behind)
                return
            except StepFailed as refused:
                error = refused
        for _, left in behind:
            left(None, error)

    begin(task, ended)


def ask(engine: Engine, task: Task[T]) -> T:
    """Have a task carried out and wait for its answer; raises its error."""
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
    engine.begin(task, lambda value, error: answers.put((value, error)))
    value, error = answers.get()
    if error is not None:
        raise error
    answer: T = value
    return answer


class InProcessEngine:
    """Carries out tasks in up to `threads` threads of this process; `formats` are those that jobs may ask for."""

    def __init__(
        self,
        registry: Registry,
        formats: Collection[Format] = tuple(Format),
        *,
        threads: int = 1,
        envelope_key: EnvelopeKey | None = None,
        stamping: Stamping | None = None,
    ) -> None:
        self._registry = registry
        self._envelope_key = envelope_key
        self._stamping = stamping
        self._formats = tuple(formats)
        self._keys: dict[str, OpenedKey] = {}
        self._lanes: Lanes[Task[Any]] = Lanes("engine", threads, self._carry_out, _stopped)

    @property
    def label(self) -> str:
        return "in this process"

    def open(self, reference: KeyReference, key: OpenedKey) -> None:
        self._keys[reference.profile] = key

    def forget(self, reference: KeyReference) -> None:
        self._keys.pop(reference.profile, None)

    def begin(self, task: Task[Any], done: Done) -> None:
        self._lanes.put(task, done)

    def begin_chain(self, chain: Sequence[tuple[Task[Any], Done]]) -> None:
        begin_one_by_one(self.begin, chain)

    def find_fault(self) -> str | None:
        return self_test.find_fault(self._formats)

    def close(self) -> None:
        # What hangs in a task is left to the end of the process.
        self._lanes.close(patience_seconds=0.0)
        self._keys.clear()

    def _carry_out(self, task: Task[Any]) -> Any:
        if isinstance(task, KEYED) and task.profile not in self._keys:
            raise StepFailed(f"The key of profile '{task.profile}' is not open.")
        return carry_out(task, self._registry, self._keys, self._envelope_key, self._stamping)


def _stopped() -> StepFailed:
    return StepFailed("Signing has been stopped.")
