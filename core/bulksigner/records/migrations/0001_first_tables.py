"""Make the first tables: jobs with their history and counts, events, profiles, pause flag, deployment facts."""

from __future__ import annotations

from collections.abc import Iterator

ACTIVE = "('Queued', 'Processing', 'Verifying', 'AwaitingSigner', 'AwaitingApproval')"

TABLES = """
CREATE TABLE job (
    id TEXT NOT NULL PRIMARY KEY,
    file_name TEXT NOT NULL,
    original_path TEXT NOT NULL CHECK (length(original_path) <= 850),
    path_key TEXT NOT NULL,
    input_folder TEXT,
    profile_name TEXT NOT NULL,
    certificate_source TEXT,
    format TEXT NOT NULL,
    source TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at {time} NOT NULL,
    queued_at {time},
    updated_at {time} NOT NULL,
    completed_at {time},
    parent_job_id TEXT REFERENCES job (id) ON DELETE SET NULL,
    error_code TEXT,
    error_message TEXT,
    owner_identity TEXT,
    owner_incarnation TEXT,
    sign_call_started_at {time},
    staged_length BIGINT,
    staged_sha256 TEXT,
    staged_etag TEXT,
    staged_at {time},
    output_path TEXT,
    output_sha256 TEXT,
    output_length BIGINT,
    output_modified_at {time},
    path_released {boolean} NOT NULL,
    input_diverged {boolean} NOT NULL,
    row_version INTEGER NOT NULL
);
CREATE UNIQUE INDEX job_active_path ON job (path_key) WHERE status IN {active};
CREATE INDEX job_path ON job (path_key, created_at);
CREATE INDEX job_queue ON job (status, queued_at, id) WHERE status = 'Queued';
CREATE INDEX job_in_flight ON job (status) WHERE status IN ('Processing', 'Verifying');
CREATE INDEX job_parent ON job (parent_job_id) WHERE parent_job_id IS NOT NULL;
CREATE INDEX job_newest ON job (created_at, id);
CREATE INDEX job_newest_by_status ON job (status, created_at, id);
CREATE INDEX job_newest_by_profile ON job (profile_name, created_at, id);
CREATE INDEX job_newest_by_both ON job (profile_name, status, created_at, id);
CREATE TABLE job_count (
    profile_name TEXT NOT NULL,
    status TEXT NOT NULL,
    shard INTEGER NOT NULL,
    total BIGINT NOT NULL,
    PRIMARY KEY (profile_name, status, shard)
){count_options};
CREATE TABLE job_history (
    id {serial},
    job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    at {time} NOT NULL,
    status TEXT NOT NULL,
    message TEXT NOT NULL
);
CREATE INDEX job_history_job ON job_history (job_id, id);
CREATE TABLE operational_event (
    id {serial},
    at {time} NOT NULL,
    event_type TEXT NOT NULL,
    message TEXT NOT NULL,
    facts TEXT NOT NULL
);
CREATE INDEX operational_event_newest ON operational_event (at, id);
CREATE INDEX operational_event_type ON operational_event (event_type, at, id);
CREATE TABLE profile (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL UNIQUE,
    enabled {boolean} NOT NULL,
    format TEXT,
    method TEXT NOT NULL,
    verify {boolean} NOT NULL,
    preserve_file_extension {boolean} NOT NULL,
    save_as_pem {boolean} NOT NULL,
    certificate_source TEXT,
    certificate_block TEXT NOT NULL,
    sealed TEXT NOT NULL,
    extras TEXT NOT NULL,
    input_folder TEXT UNIQUE,
    created_at {time} NOT NULL,
    updated_at {time} NOT NULL,
    row_version INTEGER NOT NULL
);
CREATE TABLE pipeline_state (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    paused {boolean} NOT NULL,
    changed_at {time},
    changed_by TEXT,
    reason TEXT,
    row_version INTEGER NOT NULL
);
INSERT INTO pipeline_state (id, paused, row_version) VALUES (1, {false}, 1);
CREATE TABLE deployment (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL,
    recorded_at {time} NOT NULL
)
"""

# Counting a million rows costs a thousand times what counting a thousand costs (PERF-35), hence the counts. Triggers
# keep them right whoever writes.
COUNT_ONE = """
    INSERT INTO job_count (profile_name, status, shard, total) VALUES ({row}.profile_name, {row}.status, 0, {one})
    ON CONFLICT (profile_name, status, shard) DO UPDATE SET total = total + {one};"""

SQLITE_TRIGGERS = (
    "CREATE TRIGGER job_count_insert AFTER INSERT ON job BEGIN " + COUNT_ONE.format(row="NEW", one=1) + " END",
    "CREATE TRIGGER job_count_delete AFTER DELETE ON job BEGIN " + COUNT_ONE.format(row="OLD", one=-1) + " END",
    "CREATE TRIGGER job_count_update AFTER UPDATE OF status ON job WHEN OLD.status <> NEW.status BEGIN "
    + COUNT_ONE.format(row="OLD", one=-1)
    + COUNT_ONE.format(row="NEW", one=1)
    + " END",
)

# One counter row would make every transaction wait for the flush of the one before; each connection counts in a shard
# of its own instead. Ordered, so that two that share a shard cannot wait for each other.
POSTGRESQL_FUNCTION = """
CREATE FUNCTION job_count_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_count (profile_name, status, shard, total)
    SELECT profile_name, status, mod(pg_backend_pid(), 64), SUM(one) FROM ({changes}) AS changes
    GROUP BY profile_name, status HAVING SUM(one) <> 0 ORDER BY profile_name, status
    ON CONFLICT (profile_name, status, shard) DO UPDATE SET total = job_count.total + EXCLUDED.total;
    RETURN NULL;
END $$"""

BORN = "SELECT profile_name, status, 1 AS one FROM born"
GONE = "SELECT profile_name, status, -1 AS one FROM gone"


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    is_sqlite = engine == "Sqlite"
    tables = TABLES.format(
        active=ACTIVE,
        time="TEXT" if is_sqlite else "TIMESTAMPTZ",
        boolean="INTEGER" if is_sqlite else "BOOLEAN",
        false="0" if is_sqlite else "FALSE",
        serial="INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT" if is_sqlite else "BIGSERIAL PRIMARY KEY",
        count_options=" WITHOUT ROWID" if is_sqlite else " WITH (fillfactor = 50)",
    )
    yield from tables.split(";\n")
    if is_sqlite:
        yield from SQLITE_TRIGGERS
        return
    for name, changes, tables_seen in (
        ("insert", BORN, "NEW TABLE AS born"),
        ("delete", GONE, "OLD TABLE AS gone"),
        ("update", f"{BORN} UNION ALL {GONE}", "OLD TABLE AS gone NEW TABLE AS born"),
    ):
        yield POSTGRESQL_FUNCTION.format(name=name, changes=changes)
        yield (
            f"CREATE TRIGGER job_count_{name} AFTER {name.upper()} ON job REFERENCING {tables_seen} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION job_count_{name}()"
        )
