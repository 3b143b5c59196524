"""Let a profile ask for the check of its certificate; the profiles of before go on without it (CFG-92, CFG-189)."""

from __future__ import annotations

from collections.abc import Iterator


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    kind, no, yes = ("INTEGER", "0", "1") if engine == "Sqlite" else ("BOOLEAN", "FALSE", "TRUE")
    yield f"ALTER TABLE profile ADD COLUMN validate_certificate {kind} NOT NULL DEFAULT {no}"
    yield f"ALTER TABLE profile ADD COLUMN require_non_repudiation {kind} NOT NULL DEFAULT {yes}"
