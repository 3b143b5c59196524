"""The one thread that writes to SQLite: whatever waits shares a transaction and its flush to disk (PERF-07)."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bulksigner.lanes import Done
from bulksigner.records.errors import ActMisused, StoreFailed

__all__ = ["Committer"]

T = TypeVar("T")

GROUP_LIMIT = 128
"""Acts in one transaction, so that the first of a flood does not wait for all of it."""


class _Waiting:
    """An act, who hears of its end, and what became of it."""

    __slots__ = ("act", "done", "error", "is_answered", "value")

    def __init__(self, act: Callable[[], Any], done: Done) -> None:
        self.act = act
        self.done = done
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_answered = False

    def answer(self) -> None:
        """Tell who waits; harmless the second time."""
        if not self.is_answered:
            self.is_answered = True
            self.done(None if self.error is not None else self.value, self.error)


class _Gate:
    """Where a thread waits for its act to end."""

    __slots__ = ("_error", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._value: Any = None
        self._error: BaseException | None = None

    def open(self, value: Any, error: BaseException | None) -> None:
        self._value, self._error = value, error
        self._lock.release()

    def pass_through(self) -> Any:
        self._lock.acquire()
        if self._error is not None:
            raise self._error
        return self._value


class Committer:
    """Runs acts one after the other on a connection of its own and answers each after its commit is durable.

    An act that is alone is committed at once. Acts that arrive while a commit is being flushed form the next group. One
    that raises undoes only itself: the group is rolled back, and the others run again without it.
    """

    def __init__(
        self, open_connection: Callable[[], sqlite3.Connection], close_connection: Callable[[], None], label: str
    ) -> None:
        self._open_connection = open_connection
        self._close_connection = close_connection
        self._label = label
        self._ready = threading.Condition(threading.Lock())
        self._queue: deque[_Waiting] = deque()
        self._group: Sequence[_Waiting] = ()
        self._closing = False
        self._ended: str | None = None
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    @property
    def is_current_thread(self) -> bool:
        """Tell whether the caller runs inside an act."""
        # Asked at each statement, and much quicker than for the thread itself.
        return threading.get_ident() == self._thread.ident

    def submit(self, act: Callable[[], T]) -> T:
        """Run `act` in a transaction and return its value once the commit is on disk; raises what the act raised."""
        gate = _Gate()
        self.post(act, gate.open)
        value: T = gate.pass_through()
        return value

    def post(self, act: Callable[[], Any], done: Done) -> None:
        """Have `act` run as `submit` does, and return at once; `done` is called in the committer's thread, quickly.

        Raises `StoreFailed` when no more acts are taken, `ActMisused` inside of one.
        """
        self.post_all(((act, done),))

    def post_all(self, acts: Sequence[tuple[Callable[[], Any], Done]]) -> None:
        """Have the acts run in one group, as far as it goes; raises as `post` does, and then takes none of them."""
        if self.is_current_thread:
            raise ActMisused("a write inside a write: an act must not call Store.write")
        with self._ready:
            if self._closing or self._ended is not None:
                raise StoreFailed(f"{self._label} takes no more writes: {self._ended or 'it is being closed'}.")
            self._queue.extend(_Waiting(act, done) for act, done in acts)
            self._ready.notify()

    def close(self) -> None:
        """Refuse new acts, finish those that wait, and end the thread."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join()

    def _run(self) -> None:
        reason = "it is closed"
        try:
            connection = self._open_connection()
            while group := self._next_group():
                self._group = group
                self._commit(connection, group)
                self._group = ()
        except BaseException as error:  # noqa: BLE001  # whatever ends this thread, nobody may wait for it for ever
            reason = f"its committer ended: {error!r}"
        finally:
            with self._ready:
                self._ended = reason
                left = [*self._group, *self._queue]
                self._queue.clear()
            self._fail(left, reason, None)
            self._close_connection()

    def _next_group(self) -> list[_Waiting]:
        with self._ready:
            while not self._queue and not self._closing:
                self._ready.wait()
            return [self._queue.popleft() for _ in range(min(len(self._queue), GROUP_LIMIT))]

    def _commit(self, connection: sqlite3.Connection, group: Sequence[_Waiting]) -> None:
        """Commit `group`; every act of it is answered when this returns."""
        while group:
            begun = 0
            try:
                connection.execute("BEGIN IMMEDIATE")
                for waiting in group:
                    begun += 1
                    self._run_act(connection, waiting)
                    if waiting.error is not None:
                        break
                last = group[begun - 1]
                connection.execute("COMMIT" if last.error is None else "ROLLBACK")
            except sqlite3.Error as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                # Disk full and I/O errors end the whole transaction inside SQLite; acts not yet begun lost nothing.
                lost = group[:begun] if begun else group
                self._fail(lost, str(error), error)
                group = group[len(lost) :]
                continue
            if last.error is None:
                for waiting in group:
                    waiting.answer()
                return
            # Those before it are run again. Few acts raise, and a savepoint for each act costs two statements.
            self._commit(connection, group[: begun - 1])
            last.answer()
            group = group[begun:]

    def _run_act(self, connection: sqlite3.Connection, waiting: _Waiting) -> None:
        """Run one act and keep what it raises; raises sqlite3.Error only when the transaction of the group is lost."""
        try:
            waiting.value = waiting.act()
        except BaseException as error:  # the act's own affair: it is raised again where it was asked for
            waiting.error = error
            if not connection.in_transaction:
                raise sqlite3.OperationalError(str(error)) from error

    def _fail(self, group: Sequence[_Waiting], reason: str, cause: Exception | None) -> None:
        for waiting in group:
            if waiting.error is None:
                waiting.error = StoreFailed(f"{self._label} could not commit; nothing was recorded: {reason}.")
                waiting.error.__cause__ = cause
            waiting.answer()
