"""Stores for every integration test: each runs on SQLite and on PostgreSQL (DEP-41)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bulksigner.contract.settings import Secret
from bulksigner.records.engines import EngineKind, Store, open_postgresql, open_sqlite
from bulksigner.records.migrate import migrate
from bulksigner.testing.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a database migrated once, to be copied for each test."""
    name = postgres_server.create_database()
    store = open_postgresql(Secret(postgres_server.url_of(name)), 5)
    migrate(store)
    store.close()
    yield name
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """The URL of a fresh, migrated database."""
    with postgres_server.database(postgres_template) as url:
        yield url


@pytest.fixture(params=list(EngineKind), ids=lambda kind: kind.value)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A migrated store, once on each engine."""
    opened: Store
    if request.param is EngineKind.SQLITE:
        opened = open_sqlite(tmp_path / "db" / "bulksigner.db")
        migrate(opened)
    else:
        opened = open_postgresql(Secret(request.getfixturevalue("postgres_url")), 20, sleep=lambda _: None)
    yield opened
    opened.close()
