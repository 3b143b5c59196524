"""Let a profile leave the content out of its signatures; a job then records where it delivers the content beside."""

from __future__ import annotations

from collections.abc import Iterator


def statements(engine: str) -> Iterator[str]:  # noqa: ARG001 - both engines take the same statements
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    yield "ALTER TABLE profile ADD COLUMN cades_content TEXT NOT NULL DEFAULT 'Attached'"
    yield "ALTER TABLE job ADD COLUMN companion_path TEXT"
