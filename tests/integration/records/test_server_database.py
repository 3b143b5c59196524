"""PostgreSQL: one service a database, and connections that break (DEP-26, DEP-29, OPS-60)."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.contract.settings import Secret
from bulksigner.jobs.model import Birth, Owner
from bulksigner.jobs.queue import Outcome, Queue
from bulksigner.jobs.states import Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import PostgresqlStore, Store, open_postgresql
from bulksigner.records.errors import CommitUnknown, StoreFailed
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.service_lock import hold_database
from bulksigner.records.tables import DeploymentRow
from bulksigner.testing.postgres import PostgresServer

BirthMaker = Callable[..., Birth]

INSERT = Prepared(
    DeploymentRow.insert(
        {
            DeploymentRow.name: slot("name"),
            DeploymentRow.value: "",
            DeploymentRow.recorded_at: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        }
    )
)
SELECT = Prepared(DeploymentRow.select(DeploymentRow.name))
SELECT_BOTH = Prepared(DeploymentRow.select(DeploymentRow.name, DeploymentRow.value))
TOUCH = Prepared(
    DeploymentRow.update({DeploymentRow.value: DeploymentRow.value.concat("x")}).where(
        DeploymentRow.name == slot("name")
    )
)


@pytest.fixture
def pauses() -> list[float]:
    """The pauses the store made between attempts."""
    return []


@pytest.fixture
def server_store(postgres_url: str, pauses: list[float]) -> Iterator[PostgresqlStore]:
    """A store on a server that notes its pauses instead of making them."""
    opened = open_postgresql(Secret(postgres_url), 20, sleep=pauses.append)
    yield opened
    opened.close()


@pytest.fixture
def cut(postgres_server: PostgresServer, server_store: PostgresqlStore) -> Callable[[], None]:
    """Break every connection of the store, as a restart of the server would."""
    return lambda: postgres_server.end_connections(server_store.database.database)


def test_a_second_service_is_refused(postgres_url: str) -> None:
    """OPS-60, DEP-26: exit 75 naming who has the database; free again once it is released."""
    stores = [open_postgresql(Secret(postgres_url), 5) for _ in range(2)]
    lock = hold_database(stores[0])
    assert lock.find_loss() is None
    with pytest.raises(StartRefused, match=r"already in use by bulksigner .* pid \d+") as caught:
        hold_database(stores[1])
    assert caught.value.exit_code == 75
    lock.release()
    hold_database(stores[1]).release()
    for store in stores:
        store.close()


def test_a_lock_lost_with_its_connection_is_taken_back(
    server_store: PostgresqlStore, postgres_url: str, cut: Callable[[], None]
) -> None:
    """DEP-26: the server frees the lock when the connection dies; the holder has it again before another can."""
    lock = hold_database(server_store)
    cut()
    assert lock.find_loss() is None
    other = open_postgresql(Secret(postgres_url), 5)
    with pytest.raises(StartRefused, match="already in use"):
        hold_database(other)
    other.close()
    lock.release()


def test_a_lock_that_another_took_is_lost_until_it_is_free(
    server_store: PostgresqlStore, postgres_url: str, cut: Callable[[], None]
) -> None:
    """DEP-26, OPS-60: the loser is told who has it, and has it again once that one stops."""
    lock = hold_database(server_store)
    cut()
    other = open_postgresql(Secret(postgres_url), 5)
    taken = hold_database(other)
    for _ in range(2):
        assert "was lost to bulksigner" in str(lock.find_loss())
    assert taken.find_loss() is None
    taken.release()
    assert lock.find_loss() is None
    other.close()
    lock.release()


def test_one_database_has_one_lock(store: Store) -> None:
    """OPS-60: on either engine; free again once it is released."""
    lock = hold_database(store)
    assert lock.find_loss() is None
    with pytest.raises(StartRefused, match="already in use by") as caught:
        hold_database(store)
    assert caught.value.exit_code == 75
    lock.release()
    hold_database(store).release()


def test_a_server_that_is_down_refuses_the_start(tmp_path_factory: pytest.TempPathFactory) -> None:
    """OPS-24, CFG-64: exit 75, as a later start may do; the text says where, why and what to do."""
    nowhere = tmp_path_factory.mktemp("socket")
    store = open_postgresql(Secret(f"postgresql://u:s3cret@/d?host={nowhere}"), 5)
    with pytest.raises(StartRefused, match=r"cannot be reached: PostgreSQL .*start again") as caught:
        hold_database(store)
    assert caught.value.exit_code == 75
    assert str(nowhere) in caught.value.message
    assert "s3cret" not in caught.value.message
    store.close()


def test_who_is_prompt_outlives_a_restart_without_a_pause(
    server_store: PostgresqlStore, cut: Callable[[], None], pauses: list[float]
) -> None:
    """DEP-29: one further attempt at once is enough for connections that died while idle."""
    jobs = Jobs(server_store)
    assert jobs.counts()[JobStatus.QUEUED] == 0
    cut()
    with server_store.promptly():
        assert jobs.counts()[JobStatus.QUEUED] == 0
    assert pauses == []


def test_who_is_prompt_does_not_wait_for_a_server_that_is_away(
    tmp_path_factory: pytest.TempPathFactory, pauses: list[float]
) -> None:
    """DEP-29: no pause; and the patience of others is what it was."""
    nowhere = tmp_path_factory.mktemp("socket")
    store = open_postgresql(Secret(f"postgresql://u@/d?host={nowhere}"), 5, sleep=pauses.append)
    with store.promptly(), pytest.raises(StoreFailed):
        Jobs(store).counts()
    assert pauses == []
    with pytest.raises(StoreFailed):
        Jobs(store).counts()
    assert len(pauses) == 6
    store.close()


def test_reads_and_writes_survive_lost_connections(
    server_store: PostgresqlStore, cut: Callable[[], None], birth: BirthMaker, pauses: list[float]
) -> None:
    """DEP-29: idle connections that died are replaced; the job is there once."""
    queue, jobs = Queue(server_store), Jobs(server_store)
    assert jobs.counts()[JobStatus.QUEUED] == 0
    cut()
    [answer] = queue.enqueue([birth()])
    assert answer.outcome is Outcome.ENQUEUED
    cut()
    assert jobs.counts()[JobStatus.QUEUED] == 1
    assert pauses == [0.5, 0.5]


def test_an_act_cut_in_the_middle_is_run_again(server_store: PostgresqlStore, cut: Callable[[], None]) -> None:
    """DEP-29: before the commit was sent nothing was kept, so the whole act is safe to repeat."""
    runs = []

    def act() -> int:
        server_store.execute(INSERT, name="a")
        runs.append(1)
        if len(runs) == 1:
            cut()
        return len(server_store.execute(SELECT).rows)

    assert server_store.write(act) == 1
    assert len(runs) == 2


def test_a_cut_before_the_commit_is_settled(server_store: PostgresqlStore, cut: Callable[[], None]) -> None:
    """DEP-29: the commit finds no connection; the rows tell that nothing was recorded, and the act is run again."""
    runs = []

    def act() -> str:
        server_store.execute(INSERT, name="a")
        runs.append(1)
        if len(runs) == 1:
            cut()
        return "recorded"

    def settle() -> str | None:
        return "recorded" if server_store.execute(SELECT).rows else None

    assert server_store.write(act, settle=settle) == "recorded"
    with server_store.reading():
        assert server_store.execute(SELECT).rows == [("a",)]


def test_of_two_that_wait_for_each_other_both_end(server_store: PostgresqlStore, pauses: list[float]) -> None:
    """DEP-29: the server ends one of a deadlock; its act is run again and succeeds."""
    server_store.write(lambda: server_store.execute_each(INSERT, [{"name": "a"}, {"name": "b"}]))
    gate = threading.Barrier(2, timeout=10)

    def touch(first: str, second: str) -> None:
        met = []

        def act() -> None:
            server_store.execute(TOUCH, name=first)
            if not met:
                met.append(gate.wait())
            server_store.execute(TOUCH, name=second)

        server_store.write(act)

    threads = [threading.Thread(target=touch, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    with server_store.reading():
        assert [row[1] for row in server_store.execute(SELECT_BOTH).rows] == ["xx", "xx"]
    assert pauses == [0.5]


class LostAnswer:
    """Let a commit happen, or not, and lose its answer."""

    def __init__(self, store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch, *, happens: bool) -> None:
        self.left = 1
        commit = store._commit

        def lose() -> None:
            if not self.left:
                return commit()
            self.left -= 1
            connection = store.database.connection()
            connection.execute("COMMIT" if happens else "ROLLBACK")
            connection.close()
            raise CommitUnknown("the answer was lost")

        monkeypatch.setattr(store, "_commit", lose)


@pytest.mark.parametrize("happens", [True, False])
def test_a_lost_answer_is_settled_by_the_rows(
    server_store: PostgresqlStore, birth: BirthMaker, monkeypatch: pytest.MonkeyPatch, happens: bool
) -> None:
    """DEP-29: enqueue, claim and transition end once and right, whether the commit happened or not."""
    queue, jobs, owner = Queue(server_store), Jobs(server_store), Owner("a", "1")
    LostAnswer(server_store, monkeypatch, happens=happens)
    born, again, refused = queue.enqueue([birth(), birth(), birth(original_path="x" * 851)])
    assert born.outcome is Outcome.ENQUEUED
    assert (again.outcome, again.job) == (Outcome.ALREADY_ACTIVE, born.job)
    assert refused.outcome is Outcome.PATH_TOO_LONG
    LostAnswer(server_store, monkeypatch, happens=happens)
    [claimed] = queue.claim(1, owner)
    LostAnswer(server_store, monkeypatch, happens=happens)
    done = jobs.transition(claimed.job, "sign", by=Actor.WORKER, message="Signed")
    assert jobs.get(done.job.id) == done.job
    with server_store.reading():
        assert server_store.database.execute_sql("SELECT COUNT(*) FROM job_history").fetchone() == (3,)


def test_a_lost_answer_nobody_can_settle_is_raised(
    server_store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEP-29: without a look at the rows the truth is: unknown."""
    LostAnswer(server_store, monkeypatch, happens=True)
    with pytest.raises(CommitUnknown):
        server_store.write(lambda: server_store.database.execute_sql("INSERT INTO deployment VALUES ('a', 'b', now())"))


def test_patience_ends(tmp_path_factory: pytest.TempPathFactory, pauses: list[float]) -> None:
    """DEP-29, CFG-63: six further attempts, doubling from half a second, then a clear error; the probe has none."""
    nowhere = tmp_path_factory.mktemp("socket")
    store = open_postgresql(Secret(f"postgresql://u:s3cret@/d?host={nowhere}"), 5, sleep=pauses.append)
    with pytest.raises(StoreFailed, match=r"PostgreSQL .* failed") as caught:
        Jobs(store).counts()
    assert pauses == [0.5, 1, 2, 4, 8, 16]
    assert "s3cret" not in str(caught.value) + store.label
    with pytest.raises(StoreFailed):
        store.probe()
    assert len(pauses) == 6
    store.close()


def test_sessions_have_the_fixed_settings(server_store: PostgresqlStore) -> None:
    """CFG-63, DEP-17: READ COMMITTED, 15 s, UTC, and a name the server's operator understands."""
    server_store.probe()
    with server_store.reading():
        shown = [
            server_store.database.execute_sql(f"SHOW {name}").fetchone()[0]
            for name in ("default_transaction_isolation", "statement_timeout", "timezone", "application_name")
        ]
    assert shown[:3] == ["read committed", "15s", "UTC"]
    assert shown[3].startswith("bulksigner ")


def test_a_statement_without_end_is_not_repeated(server_store: PostgresqlStore, pauses: list[float]) -> None:
    """CFG-63: the time limit is an answer of the server, not a lost connection."""

    def act() -> None:
        connection = server_store.database.connection()
        connection.execute("SET LOCAL statement_timeout = 50")
        connection.execute("SELECT pg_sleep(5)")

    with pytest.raises(psycopg.errors.QueryCanceled):
        server_store.write(act)
    assert pauses == []


@pytest.mark.parametrize("url", ["Data Source=data/db/b.db", "data/db/b.db", "postgresql://user@host/"])
def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    """DEP-30: exit 78 with the form that is wanted."""
    with pytest.raises(StartRefused, match="postgresql://user@host:5432/database") as caught:
        open_postgresql(Secret(url), 5)
    assert caught.value.exit_code == 78
