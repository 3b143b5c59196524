"""Let a profile name its signature policy; profiles of earlier builds keep what these made, the baseline B-B."""

from __future__ import annotations

from collections.abc import Iterator


def statements(engine: str) -> Iterator[str]:  # noqa: ARG001 - both engines take the same statements
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    yield "ALTER TABLE profile ADD COLUMN policy TEXT NOT NULL DEFAULT 'B-B'"
    yield "ALTER TABLE profile ADD COLUMN pades_filter TEXT"
    yield "ALTER TABLE profile ADD COLUMN xml_flavor TEXT NOT NULL DEFAULT 'Xades'"
    yield "ALTER TABLE profile ADD COLUMN xml_sha1_until TEXT"
    yield "ALTER TABLE profile ADD COLUMN cades_existing TEXT NOT NULL DEFAULT 'Wrap'"
