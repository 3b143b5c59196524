"""What SQLite's committer promises: groups share a flush, acts do not share a fate (PERF-07)."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bulksigner.records.committer import Committer
from bulksigner.records.engines import SqliteStore, Store, open_sqlite
from bulksigner.records.errors import ActMisused, StoreFailed
from bulksigner.records.migrate import migrate

Insert = Callable[[int], Callable[[], int]]


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store with a table of numbers, 3 among its parents."""
    opened = open_sqlite(tmp_path / "db" / "b.db")
    opened.write(lambda: opened.database.execute_sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)"))
    opened.write(
        lambda: opened.database.execute_sql("CREATE TABLE number (n INTEGER PRIMARY KEY REFERENCES parent (id))")
    )
    yield opened
    opened.close()


@pytest.fixture
def insert(sqlite: SqliteStore) -> Insert:
    """Make an act that inserts a number."""

    def make(number: int) -> Callable[[], int]:
        def act() -> int:
            sqlite.database.execute_sql("INSERT INTO number VALUES (?)", (number,))
            return number

        return act

    return make


def numbers(store: SqliteStore) -> set[int]:
    """Return the numbers that are in the file."""
    with store.reading():
        return {row[0] for row in store.database.execute_sql("SELECT n FROM number")}


def as_one_group(store: SqliteStore, *acts: Callable[[], object]) -> list[object]:
    """Have the acts wait together while another keeps the committer busy; an exception is the act's result."""
    busy, go = threading.Event(), threading.Event()

    def occupy() -> None:
        busy.set()
        go.wait(10)

    results: list[object] = [None] * len(acts)

    def submit(index: int, act: Callable[[], object]) -> None:
        try:
            results[index] = store.write(act)
        except Exception as error:  # noqa: BLE001  # the test looks at what each act raised
            results[index] = error

    first = threading.Thread(target=store.write, args=(occupy,))
    first.start()
    busy.wait(10)
    threads = []
    for index, act in enumerate(acts):
        threads.append(threading.Thread(target=submit, args=(index, act)))
        threads[-1].start()
        while len(store._committer._queue) <= index:  # in the order given
            time.sleep(0.001)
    go.set()
    for thread in (first, *threads):
        thread.join(10)
        assert not thread.is_alive()
    return results


def test_waiting_acts_share_a_commit(sqlite: SqliteStore) -> None:
    """PERF-07: what waits while a commit is under way becomes one transaction."""
    sqlite.write(lambda: sqlite.database.execute_sql("PRAGMA foreign_keys = off"))
    statements: list[str] = []
    connection = sqlite.write(sqlite.database.connection)
    connection.set_trace_callback(statements.append)
    insert = "INSERT INTO parent VALUES (?)"
    as_one_group(sqlite, *[lambda n=n: sqlite.database.execute_sql(insert, (n,)) for n in range(9)])
    connection.set_trace_callback(None)
    assert statements.count("COMMIT") == 2
    assert statements.count("SAVEPOINT act") == 0


def test_a_failing_act_undoes_only_itself(sqlite: SqliteStore, insert: Insert) -> None:
    """PERF-07: its group is run again, with a savepoint for each act."""
    sqlite.write(lambda: sqlite.database.execute_sql("INSERT INTO parent VALUES (1), (2), (3)"))
    statements: list[str] = []
    sqlite.write(sqlite.database.connection).set_trace_callback(statements.append)

    def half() -> None:
        insert(2)()
        raise ValueError("changed my mind")

    first, failed, last = as_one_group(sqlite, insert(1), half, insert(3))
    assert (first, last) == (1, 3)
    assert isinstance(failed, ValueError)
    assert numbers(sqlite) == {1, 3}
    assert statements.count("SAVEPOINT act") == 3


def test_two_acts_of_a_group_may_fail(sqlite: SqliteStore, insert: Insert) -> None:
    """PERF-07: each is told of its own fault, whichever the group met first."""
    sqlite.write(lambda: sqlite.database.execute_sql("INSERT INTO parent VALUES (1), (2), (3)"))

    def fail(number: int, error: Exception) -> Callable[[], None]:
        def act() -> None:
            insert(number)()
            raise error

        return act

    one, two = ValueError("one"), KeyError("two")
    results = as_one_group(sqlite, fail(1, one), insert(2), fail(3, two))
    assert results == [one, 2, two]
    assert numbers(sqlite) == {2}


def test_a_lone_act_that_fails_leaves_nothing(sqlite: SqliteStore, insert: Insert) -> None:
    """PIPE-04: without a group there is no savepoint, and still all or nothing."""
    sqlite.write(lambda: sqlite.database.execute_sql("INSERT INTO parent VALUES (1)"))

    def half() -> None:
        insert(1)()
        raise ValueError("changed my mind")

    with pytest.raises(ValueError, match="changed my mind"):
        sqlite.write(half)
    assert numbers(sqlite) == set()
    assert sqlite.write(insert(1)) == 1


def test_a_failing_commit_fails_every_act_of_its_group(sqlite: SqliteStore, insert: Insert) -> None:
    """PERF-07: when the commit itself fails all are told so, and the committer lives on."""
    sqlite.write(lambda: sqlite.database.execute_sql("INSERT INTO parent VALUES (1)"))

    def orphan() -> None:
        sqlite.database.execute_sql("PRAGMA defer_foreign_keys = on")
        insert(99)()

    results = as_one_group(sqlite, insert(1), orphan)
    assert [type(result) for result in results] == [StoreFailed, StoreFailed]
    assert "could not commit; nothing was recorded: FOREIGN KEY constraint failed" in str(results[0])
    assert numbers(sqlite) == set()
    assert sqlite.write(insert(1)) == 1


def test_a_lost_transaction_spares_those_not_begun(sqlite: SqliteStore, insert: Insert) -> None:
    """PERF-07: SQLite may end the whole transaction on an I/O error; who had begun is told, who had not is run."""
    sqlite.write(lambda: sqlite.database.execute_sql("INSERT INTO parent VALUES (1), (2)"))

    def lose() -> None:
        sqlite.database.connection().execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    begun, lost, spared = as_one_group(sqlite, insert(1), lose, insert(2))
    assert isinstance(begun, StoreFailed)
    assert isinstance(lost, sqlite3.OperationalError)
    assert spared == 2
    assert numbers(sqlite) == {2}


def test_a_full_disk_is_told_and_survived(sqlite: SqliteStore) -> None:
    """PERF-07: SQLITE_FULL reaches the writer in words, and the next small write succeeds."""
    pages = sqlite.write(lambda: sqlite.database.execute_sql("PRAGMA page_count").fetchone()[0])
    sqlite.write(lambda: sqlite.database.execute_sql(f"PRAGMA max_page_count = {pages + 1}").fetchone())
    sqlite.write(lambda: sqlite.database.execute_sql("CREATE TABLE blob (b BLOB)"))
    with pytest.raises(Exception, match="full"):
        sqlite.write(lambda: sqlite.database.execute_sql("INSERT INTO blob VALUES (zeroblob(100000))"))
    sqlite.write(lambda: sqlite.database.execute_sql("INSERT INTO blob VALUES (zeroblob(10))"))


def test_a_dead_committer_is_told_not_waited_for() -> None:
    """PERF-07: when the thread ends by itself, those who wait and those who come get an error."""

    def break_down() -> sqlite3.Connection:
        raise MemoryError("no memory")

    committer = Committer(break_down, lambda: None, "SQLite (x)")
    with pytest.raises(StoreFailed, match=r"committer ended: MemoryError|could not commit"):
        committer.submit(lambda: 1)
    committer.close()


def test_close_finishes_what_waits(sqlite: SqliteStore, insert: Insert) -> None:
    """PERF-07: acts accepted before the close are committed, later ones refused."""
    sqlite.write(lambda: sqlite.database.execute_sql("INSERT INTO parent VALUES (1)"))
    busy, go = threading.Event(), threading.Event()

    def occupy() -> None:
        busy.set()
        go.wait(10)

    threads = [threading.Thread(target=sqlite.write, args=(act,)) for act in (occupy, insert(1))]
    threads.append(threading.Thread(target=sqlite._committer.close))
    for thread in threads:
        thread.start()
        busy.wait(10)
        time.sleep(0.05)
    go.set()
    for thread in threads:
        thread.join(10)
    assert numbers(sqlite) == {1}
    with pytest.raises(StoreFailed, match="takes no more writes"):
        sqlite.write(lambda: 1)


def test_a_write_inside_a_write_is_a_programming_error(store: Store) -> None:
    """PERF-07: an act that waits for its own committer would wait for ever."""
    with pytest.raises(ActMisused, match="inside a write"):
        store.write(lambda: store.write(lambda: 1))
    assert store.write(lambda: 2) == 2


CHILD = """
    import os, sys, threading
    from pathlib import Path
    from bulksigner.records.engines import open_sqlite

    store = open_sqlite(Path(sys.argv[1]))

    def write(thread):
        for number in range(100000):
            def act():
                for part in range(2):
                    store.database.execute_sql("INSERT INTO half VALUES (?, ?, ?)", (thread, number, part))
            store.write(act)
            os.write(1, b"%d %d\\n" % (thread, number))

    for thread in range(8):
        threading.Thread(target=write, args=(thread,)).start()
"""


def test_a_killed_process_leaves_whole_transactions(tmp_path: Path) -> None:
    """CFG-62, PERF-07: after kill -9 every act is there in full or not at all, and each that was answered is there."""
    path = tmp_path / "db" / "b.db"
    made = open_sqlite(path)
    made.write(lambda: made.database.execute_sql("CREATE TABLE half (t, n, part)"))
    made.close()
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    answered = [child.stdout.readline() for _ in range(200)]
    child.send_signal(signal.SIGKILL)
    answered += [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    child.stdout.close()
    child.wait(10)
    store = open_sqlite(path)
    with store.reading():
        rows = store.database.execute_sql("SELECT t, n, COUNT(*) FROM half GROUP BY t, n").fetchall()
    store.close()
    assert {count for _, _, count in rows} == {2}
    assert {(int(t), int(n)) for t, n in map(str.split, answered)} <= {(t, n) for t, n, _ in rows}


def test_the_journal_survives_reopening(tmp_path: Path) -> None:
    """CFG-62: what was answered is in the file after a close."""
    path = tmp_path / "db" / "b.db"
    first = open_sqlite(path)
    migrate(first)
    first.write(lambda: first.database.execute_sql("INSERT INTO deployment VALUES ('salt', 'x', '')"))
    first.close()
    second = open_sqlite(path)
    with second.reading():
        assert second.database.execute_sql("SELECT value FROM deployment").fetchall() == [("x",)]
    second.close()
