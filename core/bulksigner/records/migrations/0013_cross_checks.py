"""Let a profile name second engines that check its signatures (CFG-198); a list as JSON, empty for none."""

from __future__ import annotations

from collections.abc import Iterator


def statements(engine: str) -> Iterator[str]:  # noqa: ARG001 - both engines take the same statement
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    yield "ALTER TABLE profile ADD COLUMN cross_check TEXT NOT NULL DEFAULT '[]'"
