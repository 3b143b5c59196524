"""Let a profile keep passwords of PDF files, each in an envelope, and show signatures on the page (BEY-11)."""

from __future__ import annotations

from collections.abc import Iterator


def statements(engine: str) -> Iterator[str]:  # noqa: ARG001 - both engines take the same statements
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    yield "ALTER TABLE profile ADD COLUMN pdf_passwords TEXT NOT NULL DEFAULT '[]'"
    yield "ALTER TABLE profile ADD COLUMN appearance TEXT NOT NULL DEFAULT '{}'"
