"""A migrated SQLite database that grows, and copies of it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bulksigner.backup.copying import Copied, copy_database
from bulksigner.backup.naming import name_at
from bulksigner.jobs.queue import Queue
from bulksigner.records.migrate import migrate
from bulksigner.records.sqlite import SqliteStore, open_sqlite
from bulksigner.testing.rows import new_birth

NOW = datetime.datetime(2026, 8, 12, 12, tzinfo=datetime.UTC)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteStore]:
    """The open database of a service."""
    store = open_sqlite(tmp_path / "db" / "bulksigner.db")
    migrate(store)
    yield store
    store.close()


@pytest.fixture
def add_jobs() -> Callable[..., list[str]]:
    """Enqueue jobs with some text in them; returns their ids."""

    def act(store: SqliteStore, count: int, prefix: str = "a") -> list[str]:
        births = [new_birth(f"{prefix}{number}", profile_name="p", message="x" * 500) for number in range(count)]
        return [answer.job.id for answer in Queue(store).enqueue(births) if answer.job is not None]

    return act


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where backups go; made by the first."""
    return tmp_path / "backups"


@pytest.fixture
def copied(database: SqliteStore, add_jobs: Callable[..., list[str]], folder: Path) -> Copied:
    """A backup of twenty jobs."""
    add_jobs(database, 20)
    return copy_database(database.path, folder / name_at(NOW), product_version="1.2.3", now=lambda: NOW)
