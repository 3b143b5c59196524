"""Remember the last pause and the last resume beside the last change of the pause flag."""

from __future__ import annotations

from collections.abc import Iterator


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    time = "TEXT" if engine == "Sqlite" else "TIMESTAMPTZ"
    yield f"ALTER TABLE pipeline_state ADD COLUMN paused_at {time}"
    yield "ALTER TABLE pipeline_state ADD COLUMN paused_by TEXT"
    yield f"ALTER TABLE pipeline_state ADD COLUMN resumed_at {time}"
    # A flag that was set before there were these columns.
    yield "UPDATE pipeline_state SET paused_at = changed_at, paused_by = changed_by WHERE paused"
