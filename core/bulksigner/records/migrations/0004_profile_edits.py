"""Let profiles be edited while services run: a counter of saves, and which material a certificate is at."""

from __future__ import annotations

from collections.abc import Iterator

TABLE = """
CREATE TABLE profile_change (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    counter BIGINT NOT NULL
)"""


def statements(engine: str) -> Iterator[str]:  # noqa: ARG001 - both engines take the same statements
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    yield "ALTER TABLE profile ADD COLUMN certificate_version INTEGER NOT NULL DEFAULT 1"
    yield TABLE
    yield "INSERT INTO profile_change (id, counter) VALUES (1, 1)"
