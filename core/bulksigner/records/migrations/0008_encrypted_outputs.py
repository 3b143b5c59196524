"""Remember which outputs are envelopes, which profiles ask for them, and how many each key wrote (ENC-05, ENC-10)."""

from __future__ import annotations

from collections.abc import Iterator


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    switch = "INTEGER NOT NULL DEFAULT 0" if engine == "Sqlite" else "BOOLEAN NOT NULL DEFAULT FALSE"
    yield f"ALTER TABLE job ADD COLUMN output_encrypted {switch}"
    yield f"ALTER TABLE profile ADD COLUMN encrypt {switch}"
    yield (
        "CREATE TABLE envelope_count (check_value TEXT NOT NULL, shard INTEGER NOT NULL, written BIGINT NOT NULL, "
        "PRIMARY KEY (check_value, shard))"
    )
