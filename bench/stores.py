"""The databases that lines measure: a SQLite file on the disk of temporary files, and a PostgreSQL that flushes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bulksigner.contract.settings import Secret
from bulksigner.jobs.model import Birth
from bulksigner.records.engines import EngineKind, Store, open_postgresql, open_sqlite
from bulksigner.records.migrate import migrate
from bulksigner.testing import rows
from bulksigner.testing.postgres import running_server

__all__ = ["new_birth", "opening_stores"]


@contextmanager
def opening_stores(kind: EngineKind) -> Iterator[Callable[[], Store]]:
    """Give a function that opens a new, migrated store."""
    if kind is EngineKind.POSTGRESQL:
        with running_server(is_durable=True) as server:
            yield lambda: _migrated(open_postgresql(Secret(server.url_of(server.create_database())), 20))
        return
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(1000))
        yield lambda: _migrated(open_sqlite(Path(folder) / f"{next(names)}" / "bulksigner.db"))


def new_birth(number: int) -> Birth:
    """Return the birth of a job whose path nobody has."""
    return rows.new_birth(f"bench-{number}.pdf", profile_name="profile-1")


def _migrated(store: Store) -> Store:
    migrate(store)
    return store
