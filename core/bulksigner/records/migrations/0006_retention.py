"""Make the tables of retention by age: previews and runs, acknowledgements, and the lease of the one that runs."""

from __future__ import annotations

from collections.abc import Iterator

TABLES = """
CREATE TABLE retention_run (
    id TEXT NOT NULL PRIMARY KEY,
    is_preview {boolean} NOT NULL,
    fingerprint TEXT NOT NULL,
    actor TEXT NOT NULL,
    started_at {time} NOT NULL,
    ended_at {time} NOT NULL,
    manifest TEXT,
    tallies TEXT NOT NULL
);
CREATE INDEX retention_run_newest ON retention_run (ended_at, id);
CREATE TABLE retention_acknowledgement (
    id {serial},
    fingerprint TEXT NOT NULL,
    preview_id TEXT NOT NULL REFERENCES retention_run (id),
    actor TEXT NOT NULL,
    at {time} NOT NULL
);
CREATE TABLE retention_lease (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    holder TEXT,
    expires_at {time}
);
INSERT INTO retention_lease (id) VALUES (1)
"""


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    is_sqlite = engine == "Sqlite"
    tables = TABLES.format(
        time="TEXT" if is_sqlite else "TIMESTAMPTZ",
        boolean="INTEGER" if is_sqlite else "BOOLEAN",
        serial="INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT" if is_sqlite else "BIGSERIAL PRIMARY KEY",
    )
    yield from tables.split(";\n")
