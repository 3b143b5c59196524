"""One thread that leads many jobs: each waits for what goes on elsewhere, and none holds up another (PIPE-67).

A job is a coroutine whose awaits are effects: an act of the store, a task of the engine, a call in a thread, a pause.
Handing work from thread to thread costs Python more than the work of a small job, so the jobs share this one.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

import attrs

from bulksigner.lanes import Done

__all__ = ["Conductor", "Effect", "Started", "apart"]

T = TypeVar("T")
Ended = Callable[[BaseException | None], None]
Story = Coroutine[Any, Any, None]


@attrs.frozen
class Effect(Generic[T]):
    """Something that goes on elsewhere; awaiting it gives its value, or raises its error."""

    begin: Callable[[Done], None]

    def __await__(self) -> Generator[Any, Any, T]:
        value: T = yield self
        return value


class Started(Generic[T]):
    """Something under way that is awaited later, or never; whoever carries it out calls `end`, from any thread."""

    def __init__(self, behind: Started[Any] | None = None) -> None:
        """Begin to wait; what it takes is measured from now, or from the end of what it is carried out behind."""
        self._guard = threading.Lock()
        self._outcome: tuple[Any, BaseException | None] | None = None
        self._waiting: Done | None = None
        self._behind = behind
        self._began = time.monotonic() if behind is None else 0.0
        self._ended = 0.0

    @property
    def seconds(self) -> float:
        """Return how long it took, once it is over."""
        return self._ended - (self._began if self._behind is None else self._behind._ended)

    def __await__(self) -> Generator[Any, Any, T]:
        value: T = yield Effect[T](self._wait)
        return value

    def _wait(self, done: Done) -> None:
        with self._guard:
            if self._outcome is None:
                self._waiting = done
                return
        done(*self._outcome)

    def end(self, value: Any, error: BaseException | None) -> None:
        """Take the outcome."""
        with self._guard:
            self._ended = time.monotonic()
            self._outcome = (value, error)
            waiting = self._waiting
        if waiting is not None:
            waiting(value, error)


def apart(act: Callable[[], T]) -> Effect[T]:
    """Return the effect of a call that may take long, or for ever: it has a thread of its own."""

    def begin(done: Done) -> None:
        # A daemon, since a call that never returns must not hold up the exit of the process.
        threading.Thread(target=_call, args=(act, done), name="pipeline-apart", daemon=True).start()

    return Effect(begin)


class Conductor:
    """Carries on the coroutines whose effects are over; all its methods but `poke` belong to one thread at a time."""

    def __init__(self, before_waiting: Callable[[], float | None] = lambda: None) -> None:
        """`before_waiting` is called ahead of each wait, and says how many seconds it may last at most, or None."""
        self._before_waiting = before_waiting
        self._arrived: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._sleepers: list[tuple[float, int, Done]] = []
        self._order = itertools.count()

    def begin(self, story: Story, ended: Ended) -> None:
        """Run a coroutine up to its first effect; `ended` hears of its end here, with what it raised."""
        self._carry_on(story, ended, None, None)

    def run(self, story: Story) -> None:
        """Run a coroutine to its end, and what else arrives meanwhile; raises what it raised."""
        ends: list[BaseException | None] = []
        self.begin(story, ends.append)
        while not ends:
            self.turn(None)
        if ends[0] is not None:
            raise ends[0]

    def pause(self, seconds: float) -> Effect[None]:
        """Return the effect of waiting; `wake_sleepers` ends it early."""
        return Effect(
            lambda done: heapq.heappush(self._sleepers, (time.monotonic() + seconds, next(self._order), done))
        )

    def wake_sleepers(self) -> None:
        """End every pause."""
        while self._sleepers:
            heapq.heappop(self._sleepers)[2](None, None)

    def poke(self) -> None:
        """End the waiting of `turn`; from any thread."""
        self._arrived.put(_nothing)

    def turn(self, patience_seconds: float | None) -> None:
        """Wait until something is over, at most so long, and carry on all that is."""
        self._wake_punctual()
        patience = self._patience(patience_seconds)
        try:
            carry_on = self._arrived.get(timeout=patience) if patience != 0 else self._arrived.get_nowait()
            while True:
                carry_on()
                carry_on = self._arrived.get_nowait()
        except queue.Empty:
            self._wake_punctual()

    def _patience(self, asked_seconds: float | None) -> float | None:
        limit = self._before_waiting()
        if limit is None or (asked_seconds is not None and asked_seconds < limit):
            limit = asked_seconds
        if self._sleepers:
            until_first = max(0.0, self._sleepers[0][0] - time.monotonic())
            limit = until_first if limit is None else min(limit, until_first)
        return limit

    def _wake_punctual(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= time.monotonic():
            heapq.heappop(self._sleepers)[2](None, None)

    def _carry_on(self, story: Story, ended: Ended, value: Any, error: BaseException | None) -> None:
        try:
            effect = story.send(value) if error is None else story.throw(error)
        except StopIteration:
            ended(None)
            return
        except BaseException as raised:  # noqa: BLE001 - who began it decides what that means
            ended(raised)
            return
        arrive = partial(self._arrive, story, ended)
        try:
            effect.begin(arrive)
        except BaseException as refused:  # noqa: BLE001 - it is raised where the effect is awaited
            arrive(None, refused)

    def _arrive(self, story: Story, ended: Ended, value: Any, error: BaseException | None) -> None:
        self._arrived.put(partial(self._carry_on, story, ended, value, error))


def _call(act: Callable[[], Any], done: Done) -> None:
    try:
        value = act()
    except BaseException as error:  # noqa: BLE001 - it is raised again where the call is awaited
        done(None, error)
    else:
        done(value, None)


def _nothing() -> None:
    """Carry on nothing: only the waiting ends."""
