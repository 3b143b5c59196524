"""Make the table of browser sessions that ended before their time (SEC-22)."""

from __future__ import annotations

from collections.abc import Iterator

TABLES = """
CREATE TABLE session_revocation (
    ticket_id TEXT NOT NULL PRIMARY KEY,
    until {time} NOT NULL
);
CREATE INDEX session_revocation_until ON session_revocation (until)
"""


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    yield from TABLES.format(time="TEXT" if engine == "Sqlite" else "TIMESTAMPTZ").split(";\n")
