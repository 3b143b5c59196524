"""Make the tables of the statistics: a row of stage timings for each completed job, their running sums, the marker."""

from __future__ import annotations

from collections.abc import Iterator

STAGES = ("queue_wait", "signing", "verification", "output")

TABLES = """
CREATE TABLE job_timing (
    job_id TEXT NOT NULL PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE,
    completed_at {time} NOT NULL,
    method TEXT NOT NULL,
    format TEXT NOT NULL,
    profile TEXT NOT NULL,
    queue_wait_ms BIGINT,
    signing_ms BIGINT,
    verification_ms BIGINT,
    output_ms BIGINT,
    total_ms BIGINT NOT NULL,
    instance TEXT NOT NULL
);
CREATE INDEX job_timing_newest ON job_timing (completed_at, total_ms);
CREATE INDEX job_timing_total ON job_timing (total_ms, completed_at);
CREATE TABLE job_timing_sum (
    method TEXT NOT NULL,
    shard INTEGER NOT NULL,
    total_n BIGINT NOT NULL,
    total_ms BIGINT NOT NULL,
    queue_wait_n BIGINT NOT NULL,
    queue_wait_ms BIGINT NOT NULL,
    signing_n BIGINT NOT NULL,
    signing_ms BIGINT NOT NULL,
    verification_n BIGINT NOT NULL,
    verification_ms BIGINT NOT NULL,
    output_n BIGINT NOT NULL,
    output_ms BIGINT NOT NULL,
    PRIMARY KEY (method, shard)
){sum_options};
CREATE TABLE statistics_state (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    reset_at {time}
);
INSERT INTO statistics_state (id) VALUES (1)
"""

# Adding up a million rows for each look would take a second (STA-29), hence the sums; triggers keep them right
# whoever writes or deletes, a cascade included. Connections of a server count in shards, so as not to wait for each
# other.
COLUMNS = ["total_n", "total_ms", *(f"{stage}_{part}" for stage in STAGES for part in ("n", "ms"))]

ADD = (
    "INSERT INTO job_timing_sum (method, shard, {columns}) "
    "SELECT method, {shard}, {values} FROM {source} GROUP BY method ORDER BY method "
    "ON CONFLICT (method, shard) DO UPDATE SET {changes};"
)


def add_to_sums(source: str, sign: str, shard: str, kept: str) -> str:
    """Return the statement that adds rows of `source`, each counted `sign` 1; `kept` names the present sum."""
    values = [f"{sign}COUNT(*)", f"{sign}SUM(total_ms)"]
    for stage in STAGES:
        values += [f"{sign}COUNT({stage}_ms)", f"{sign}COALESCE(SUM({stage}_ms), 0)"]
    changes = ", ".join(f"{column} = {kept}{column} + excluded.{column}" for column in COLUMNS)
    return ADD.format(columns=", ".join(COLUMNS), shard=shard, values=", ".join(values), source=source, changes=changes)


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    is_sqlite = engine == "Sqlite"
    tables = TABLES.format(
        time="TEXT" if is_sqlite else "TIMESTAMPTZ",
        sum_options=" WITHOUT ROWID" if is_sqlite else " WITH (fillfactor = 50)",
    )
    yield from tables.split(";\n")
    for name, row, table, sign in (("insert", "NEW", "born", ""), ("delete", "OLD", "gone", "-")):
        if is_sqlite:
            columns = ", ".join(f"{row}.{column} AS {column}" for column in ("method", "total_ms"))
            columns += "".join(f", {row}.{stage}_ms AS {stage}_ms" for stage in STAGES)
            # The condition keeps ON CONFLICT from being read as one of a join.
            source = f"(SELECT {columns}) WHERE true"
            yield (
                f"CREATE TRIGGER job_timing_{name} AFTER {name.upper()} ON job_timing BEGIN "
                f"{add_to_sums(source, sign, '0', '')} END"
            )
            continue
        statement = add_to_sums(table, sign, "mod(pg_backend_pid(), 64)", "job_timing_sum.")
        yield (
            f"CREATE FUNCTION job_timing_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {statement} "
            "RETURN NULL; END $$"
        )
        yield (
            f"CREATE TRIGGER job_timing_{name} AFTER {name.upper()} ON job_timing REFERENCING {row} TABLE AS {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION job_timing_{name}()"
        )
