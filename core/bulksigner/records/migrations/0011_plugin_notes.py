"""Make the table of the notes that plugins keep."""

from __future__ import annotations

from collections.abc import Iterator


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    time = "TEXT" if engine == "Sqlite" else "TIMESTAMPTZ"
    yield (
        "CREATE TABLE plugin_note (plugin TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, "
        f"updated_at {time} NOT NULL, PRIMARY KEY (plugin, name))"
    )
