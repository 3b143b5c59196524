"""Make the tables of what outlives a job that is removed by age: the name of its file, and its share in the figures."""

from __future__ import annotations

from collections.abc import Iterator

STAGES = ("total", "queue_wait", "signing", "verification", "output")

TABLES = """
CREATE TABLE held_file_name (
    name_key TEXT NOT NULL PRIMARY KEY,
    file_name TEXT NOT NULL,
    job_id TEXT NOT NULL,
    completed_at {time} NOT NULL
);
CREATE TABLE job_timing_daily (
    day TEXT NOT NULL,
    method TEXT NOT NULL,
    format TEXT NOT NULL,
    profile TEXT NOT NULL,
    first_at {time} NOT NULL,
    {stages},
    PRIMARY KEY (day, method, format, profile)
)"""


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    columns = [
        f"{stage}_n BIGINT NOT NULL, {stage}_ms BIGINT NOT NULL, {stage}_least_ms BIGINT, {stage}_most_ms BIGINT"
        for stage in STAGES
    ]
    time = "TEXT" if engine == "Sqlite" else "TIMESTAMPTZ"
    yield from TABLES.format(time=time, stages=",\n    ".join(columns)).split(";\n")
