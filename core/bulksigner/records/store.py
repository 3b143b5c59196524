"""What both engines share: acts, reads and prepared statements."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import attrs

from bulksigner.lanes import Done
from bulksigner.records.errors import ActMisused
from bulksigner.records.prepared import Prepared, Result

__all__ = ["Act", "EngineKind", "Redaction", "Store"]

T = TypeVar("T")


@attrs.frozen
class Act(Generic[T]):
    """What one transaction does, for `Store.write` and `Store.submit`; `label` names it in tests and traces.

    `run` does database work only and may be run again after a lost connection or a deadlock, so it keeps nothing
    outside of its value. When the answer to a commit was lost, `settle` looks at the rows and returns the value that
    `run` would have had, or None when nothing was recorded (DEP-29); without it `CommitUnknown` is raised. One that is
    `prompt` fails at once where others would wait for a server to come back.
    """

    label: str
    run: Callable[[], T]
    settle: Callable[[], T | None] | None = None
    is_prompt: bool = False


class EngineKind(enum.Enum):
    """The engines there are; the value is the wire name of `Database:Provider` (CFG-60)."""

    SQLITE = "Sqlite"
    POSTGRESQL = "PostgreSql"


class Redaction(Protocol):
    """Takes out of texts what may not be stored (SEC-57)."""

    def clean_text(self, text: str) -> str:
        """Return a message as it may be stored."""
        ...

    def clean_facts(self, facts: Mapping[str, object]) -> Mapping[str, object]:
        """Return the facts of an event as they may be stored."""
        ...


class _AsTheyAre:
    def clean_text(self, text: str) -> str:
        return text

    def clean_facts(self, facts: Mapping[str, object]) -> Mapping[str, object]:
        return facts


class Store(abc.ABC):
    """A database of one service.

    `database` is the peewee database, for migrations and for compiling; statements go through `execute`. `redaction`
    goes over the messages of events and histories before they are written.
    """

    kind: EngineKind
    shares_commits = False
    """Whether acts that are submitted together cost less than one by one."""

    def __init__(self, database: Any, label: str) -> None:
        self.database = database
        self.label = label
        self.redaction: Redaction = _AsTheyAre()

    @abc.abstractmethod
    def write(self, act: Callable[[], T], *, settle: Callable[[], T | None] | None = None) -> T:
        """Run `act` in one transaction and return its value once the commit is durable; see `Act` for both.

        Raises `UniqueViolation`, `StoreFailed`, `ActMisused` inside another act, and whatever `act` raises.
        """

    def carry_out(self, act: Act[T]) -> T:
        """Write one act and wait for it; raises what `write` raises."""
        if not act.is_prompt:
            return self.write(act.run, settle=act.settle)
        with self.promptly():
            return self.write(act.run, settle=act.settle)

    @abc.abstractmethod
    def submit(self, act: Act[Any], done: Done) -> None:
        """Have one act written and return at once; `done` hears of it when the commit is durable, or has failed.

        Acts that wait at the same time may share a commit, never a fate (PERF-07).
        """

    def submit_all(self, acts: Sequence[tuple[Act[Any], Done]]) -> None:
        """Submit several acts, to share a commit where that is possible; whoever is refused hears that by `done`."""
        for act, done in acts:
            try:
                self.submit(act, done)
            except BaseException as refused:  # noqa: BLE001 - it is raised where the act is waited for
                done(None, refused)

    @abc.abstractmethod
    def read(self, act: Callable[[], T]) -> T:
        """Run `act`, which only reads, and return its value; it is repeated after a lost connection (DEP-29)."""

    @contextmanager
    def promptly(self) -> Iterator[None]:
        """Have this thread's reads and writes fail at once where others would wait for a server to come back."""
        yield

    @abc.abstractmethod
    def probe(self) -> None:
        """Make sure that the database answers and is one we can use (CFG-64); raises StoreFailed, StartRefused."""

    @abc.abstractmethod
    def close(self) -> None:
        """Finish the writes that wait and close every connection."""

    @property
    @abc.abstractmethod
    def is_writing(self) -> bool:
        """Tell whether the caller runs inside an act of `write`."""

    @abc.abstractmethod
    def _translate(self, error: Exception) -> Exception:
        """Return the error of `records.errors` for one of the driver."""

    @property
    @abc.abstractmethod
    def _driver_errors(self) -> tuple[type[Exception], ...]:
        """Return what the driver raises."""

    @abc.abstractmethod
    def _run(self, sql: str, values: Sequence[object]) -> Any:
        """Run one statement on this thread's connection and return its cursor."""

    @abc.abstractmethod
    def _run_each(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        """Run one statement once for each row of values; return how many rows it touched."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Give this thread a connection for reads; free to nest, also inside an act."""
        try:
            is_opened = self._connect()
        except self._driver_errors as error:
            raise self._translate(error) from error
        try:
            yield
        finally:
            if is_opened:
                self.database.close()

    def _connect(self) -> bool:
        """Give this thread a connection; returns False when it has one already."""
        is_opened: bool = self.database.connect(reuse_if_open=True)
        return is_opened

    def execute(self, prepared: Prepared, /, **values: object) -> Result:
        """Run a prepared statement inside `write`, `read` or `reading`."""
        compiled = self._allowed(prepared)
        try:
            cursor = self._run(compiled.sql, compiled.bind(values))
            return Result(cursor.fetchall() if cursor.description is not None else [], cursor.rowcount)
        except self._driver_errors as error:
            raise self._translate(error) from error

    def execute_each(self, prepared: Prepared, rows: Sequence[Mapping[str, object]]) -> int:
        """Run a prepared statement without result once for each row, inside `write`; return how many it touched."""
        compiled = self._allowed(prepared)
        try:
            return self._run_each(compiled.sql, [compiled.bind(row) for row in rows])
        except self._driver_errors as error:
            raise self._translate(error) from error

    def _allowed(self, prepared: Prepared) -> Any:
        compiled = prepared.compiled(self.database)
        if self.is_writing:
            return compiled
        if self.database.is_closed():
            raise ActMisused("a statement outside of write, read and reading")
        if compiled.writes:
            raise ActMisused("a statement that writes, outside of write")
        return compiled
