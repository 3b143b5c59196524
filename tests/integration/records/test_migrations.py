"""Schema steps are applied once, under a lock, and never by a build that does not know the schema."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import peewee
import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.contract.settings import Secret
from bulksigner.jobs.listing import JobFilter, history, page
from bulksigner.jobs.names import Names
from bulksigner.jobs.scanning import each_job
from bulksigner.jobs.states import TERMINAL, Actor, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.profiles.store import ProfileStore
from bulksigner.records import tables
from bulksigner.records.engines import EngineKind, Store, open_postgresql, open_sqlite
from bulksigner.records.migrate import Migration, known_migrations, migrate
from bulksigner.testing.postgres import PostgresServer

MODELS = [getattr(tables, name) for name in tables.__all__]


@attrs.frozen
class Step(Migration):
    """A step whose statements a test gives."""

    given: tuple[str, ...] = ()

    def statements(self, kind: EngineKind) -> Iterator[str]:
        """Return the given statements."""
        return iter(self.given)


@contextmanager
def empty_location(request: pytest.FixtureRequest, kind: EngineKind, tmp_path: Path) -> Iterator[str]:
    """Give where an empty database of this kind is: a path or a URL."""
    if kind is EngineKind.SQLITE:
        yield str(tmp_path / "db" / "b.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as url:
        yield url


def open_at(location: str) -> Store:
    """Open the store of a path or URL."""
    return open_postgresql(Secret(location), 5) if "://" in location else open_sqlite(Path(location))


@pytest.fixture(params=list(EngineKind), ids=lambda kind: kind.value)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where an empty database is, once for each engine."""
    with empty_location(request, request.param, tmp_path) as found:
        yield found


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.table_name)
def test_models_and_tables_have_the_same_columns(store: Store, model: type[peewee.Model]) -> None:
    """DEP-27: the frozen steps end where the models are, in names and in what may be empty."""
    with store.reading():
        columns = {column.name: column.null for column in store.database.get_columns(model._meta.table_name)}
    assert columns == {field.column_name: field.null for field in model._meta.sorted_fields}


def test_times_carry_their_zone(store: Store) -> None:
    """DEP-25: no column of PostgreSQL is a timestamp without time zone."""
    with store.reading():
        types = {column.data_type for column in store.database.get_columns("job") if column.name.endswith("_at")}
    assert types == ({"TEXT"} if store.kind is EngineKind.SQLITE else {"timestamp with time zone"})


def test_migrating_twice_changes_nothing(location: str) -> None:
    """CLU-02: the second start finds the work done."""
    store = open_at(location)
    newest = known_migrations()[-1].version
    assert migrate(store) == migrate(store) == newest
    store.probe()
    store.close()


def test_profiles_of_an_older_schema_are_kept(location: str) -> None:
    """CLU-02, CFG-85: rows from before edits were counted begin at the first version, and the count has its row."""
    store = open_at(location)
    migrate(store, [step for step in known_migrations() if step.version < 4])
    columns = "id, name, name_key, enabled, method, verify, preserve_file_extension, save_as_pem, certificate_block"
    with store.reading():
        store.database.execute_sql(
            f"INSERT INTO profile ({columns}, sealed, extras, created_at, updated_at, row_version) "
            f"SELECT 'i', 'old', 'old', paused, 'Local', paused, paused, paused, '{{}}', '{{}}', '{{}}', "
            "'2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', 7 FROM pipeline_state"
        )
    migrate(store)
    profiles = ProfileStore(store)
    assert [(one.name, one.row_version, one.certificate_version) for one in profiles.all()] == [("old", 7, 1)]
    # They made signatures without a policy, and go on so.
    kept = [(one.policy, one.pades_filter, one.cades_existing.value) for one in profiles.all()]
    assert kept == [("B-B", None, "Wrap")]
    assert [one.cross_check for one in profiles.all()] == [()]
    assert [(one.pdf_passwords, one.appearance) for one in profiles.all()] == [((), {})]
    assert profiles.saves() == 1
    store.close()


def test_only_the_missing_steps_are_applied(location: str) -> None:
    """DEP-27: an older database gets what came since."""
    first = Step(1, "0001_a", ("CREATE TABLE a (n INTEGER)",))
    second = Step(2, "0002_b", ("CREATE TABLE b (n INTEGER)", "INSERT INTO b VALUES (1)"))
    store = open_at(location)
    assert migrate(store, [first]) == 1
    assert migrate(store, [first, second]) == 2
    with store.reading():
        assert store.database.execute_sql("SELECT n FROM b").fetchall() == [(1,)]
        assert store.database.execute_sql("SELECT version, name FROM schema_version ORDER BY version").fetchall() == [
            (1, "0001_a"),
            (2, "0002_b"),
        ]
    store.close()


def test_a_failing_step_changes_nothing(location: str) -> None:
    """OPS-57: exit 65 naming the step; the steps before it are undone with it."""
    steps = [Step(1, "0001_a", ("CREATE TABLE a (n INTEGER)",)), Step(2, "0002_b", ("CREATE NONSENSE",))]
    store = open_at(location)
    with pytest.raises(StartRefused, match=r"0002_b.*Nothing was changed") as caught:
        migrate(store, steps)
    assert caught.value.exit_code == 65
    with store.reading():
        assert store.database.get_tables() == []
    store.close()


def test_a_newer_schema_is_refused(location: str) -> None:
    """CLU-71: exit 65 naming both versions."""
    store = open_at(location)
    newest = known_migrations()[-1].version
    migrate(store, [Step(newest + 1, f"{newest + 1:04}_later", ())])
    with pytest.raises(StartRefused, match=rf"schema version {newest + 1}, this build knows {newest}\b") as caught:
        migrate(store)
    assert caught.value.exit_code == 65
    store.close()


def test_names_that_are_there_already_are_folded(location: str) -> None:
    """PIPE-48: a job of an earlier build holds its name like one of this build, in all of Unicode."""
    store, now = open_at(location), "2026-01-01 00:00:00+00:00"
    migrate(store, [step for step in known_migrations() if step.version == 1])
    columns = "id, file_name, original_path, path_key, profile_name, format, source, status, created_at, updated_at"
    with store.reading():
        for number, name in enumerate(("folha.pdf", "CAFÉ.PDF")):
            texts = (number, name, f"/{number}", f"/{number}", "p", "Pades", "Watcher", "Completed", now, now)
            values = ", ".join(f"'{text}'" for text in texts)
            store.database.execute_sql(
                f"INSERT INTO job ({columns}, path_released, input_diverged, row_version) VALUES ({values}, %s, %s, 1)"
                % (("0", "0") if store.kind is EngineKind.SQLITE else ("FALSE", "FALSE"))
            )
    migrate(store)
    names = Names(store)
    found = [names.holder_of(name) for name in ("Folha.pdf", "café.pdf", "cafe\u0301.pdf", "none.pdf")]
    assert [None if holder is None else holder.id for holder in found] == ["0", "1", "1", None]
    assert [job.metadata for job in each_job(store)] == [{}, {}]
    store.close()


def test_jobs_of_an_earlier_build_are_counted_as_they_were(location: str) -> None:
    """PERF-08, PERF-35: on their way and at their end, and a history goes on behind the lines that are there."""
    store, now = open_at(location), "2026-01-01 00:00:00+00:00"
    migrate(store, [step for step in known_migrations() if step.version <= 17])
    columns = "id, file_name, original_path, path_key, profile_name, format, source, created_at, updated_at, status"
    no = "0" if store.kind is EngineKind.SQLITE else "FALSE"
    with store.reading():
        for number, status in enumerate(status for status in JobStatus for _ in range(2)):
            texts = (number, "a", f"/{number}", f"/{number}", "p", "Pades", "Watcher", now, now, status.value)
            values = ", ".join(f"'{text}'" for text in texts)
            store.database.execute_sql(
                f"INSERT INTO job ({columns}, path_released, input_diverged, row_version) "
                f"VALUES ({values}, {no}, {no}, 1)"
            )
            store.database.execute_sql(
                "INSERT INTO job_history (job_id, at, status, message) "
                f"VALUES ('{number}', '{now}', '{status.value}', 'old')"
            )
    migrate(store)
    jobs = Jobs(store)
    assert jobs.counts() == dict.fromkeys(JobStatus, 2)
    assert [page(store, JobFilter(status=status)).total_count for status in JobStatus] == [2] * len(JobStatus)
    assert (page(store).total_count, page(store, JobFilter(profile="p")).total_count) == (16, 16)
    ended = {job.id for job in each_job(store) if job.completed_at is not None}
    assert ended == {job.id for job in each_job(store) if job.status in TERMINAL}
    (queued, _) = [job for job in each_job(store) if job.status is JobStatus.QUEUED]
    jobs.transition(queued, "cancel", by=Actor.OPERATOR, message="new")
    lines = history(store, queued.id)
    assert [line.message for line in lines] == ["old", "new"]
    assert lines[1].id == 17
    assert jobs.counts()[JobStatus.CANCELED] == 3
    assert jobs.active_for(queued.original_path) is None
    store.close()


CHILD = """
    import sys
    from pathlib import Path
    from bulksigner.contract.settings import Secret
    from bulksigner.records.engines import open_postgresql, open_sqlite
    from bulksigner.records.migrate import migrate

    sys.stdin.readline()
    place = sys.argv[1]
    store = open_postgresql(Secret(place), 5) if "://" in place else open_sqlite(Path(place))
    print(migrate(store))
    store.close()
"""


def test_two_processes_starting_together_apply_once(location: str) -> None:
    """CLU-02: both go on, one of them did the work."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CHILD), location],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(3)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    newest = known_migrations()[-1].version
    assert [child.communicate(timeout=30) for child in children] == [(f"{newest}\n", "")] * 3
