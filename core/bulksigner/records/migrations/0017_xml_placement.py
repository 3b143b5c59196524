"""Let a profile sign one element of an XML file, by its Id, in place of the whole document."""

from __future__ import annotations

from collections.abc import Iterator


def statements(engine: str) -> Iterator[str]:  # noqa: ARG001 - both engines take the same statements
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    yield "ALTER TABLE profile ADD COLUMN xml_placement TEXT NOT NULL DEFAULT 'Enveloped'"
    yield "ALTER TABLE profile ADD COLUMN xml_sign_element TEXT"
