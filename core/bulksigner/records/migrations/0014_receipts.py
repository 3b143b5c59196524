"""Make the tables of receipts: the chain of each instance, and its last link (BEY-03)."""

from __future__ import annotations

from collections.abc import Iterator

# No foreign key: a receipt outlives the row of its job.
TABLES = """
CREATE TABLE receipt (
    instance TEXT NOT NULL,
    number BIGINT NOT NULL,
    job_id TEXT NOT NULL UNIQUE,
    completed_at {time} NOT NULL,
    previous TEXT,
    sha256 TEXT NOT NULL,
    content TEXT NOT NULL,
    profile_name TEXT NOT NULL,
    output_path TEXT NOT NULL,
    signature TEXT,
    place TEXT,
    settled_at {time},
    removed_at {time},
    PRIMARY KEY (instance, number)
);
CREATE INDEX receipt_open ON receipt (instance, number) WHERE settled_at IS NULL;
CREATE INDEX receipt_by_time ON receipt (completed_at);
CREATE INDEX receipt_by_place ON receipt (place);
CREATE TABLE receipt_head (
    instance TEXT NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL,
    sha256 TEXT
)
"""


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    tables = TABLES.format(time="TEXT" if engine == "Sqlite" else "TIMESTAMPTZ")
    yield from tables.split(";\n")
