"""Let the indexes and counts that a job passes through on its way be touched at its birth and its end only."""

from __future__ import annotations

from collections.abc import Iterator

ACTIVE = "('Queued', 'Processing', 'Verifying', 'AwaitingSigner', 'AwaitingApproval')"

# A job has `completed_at` exactly when it has ended, and `queued_at` unless it failed at its birth. A condition on the
# status itself would have each change of it take the job out of the index and put it back. SQLite reads a column of the
# condition from the row unless the index has it too.
TIMES = (
    f"UPDATE job SET completed_at = updated_at WHERE completed_at IS NULL AND status NOT IN {ACTIVE}",  # noqa: S608  # our own literals
    f"UPDATE job SET completed_at = NULL WHERE completed_at IS NOT NULL AND status IN {ACTIVE}",  # noqa: S608  # our own literals
    f"UPDATE job SET queued_at = created_at WHERE queued_at IS NULL AND (status = 'Completed' OR status IN {ACTIVE})",  # noqa: S608  # our own literals
)

INDEXES = """
DROP INDEX job_active_path;
DROP INDEX job_name;
DROP INDEX job_in_flight;
DROP INDEX job_newest_by_status;
DROP INDEX job_newest_by_both;
CREATE UNIQUE INDEX job_active_path ON job (path_key) WHERE completed_at IS NULL;
CREATE INDEX job_name ON job (name_key, created_at) WHERE queued_at IS NOT NULL AND source <> 'Signer';
CREATE INDEX job_active ON job (status, created_at, id, profile_name{too}) WHERE completed_at IS NULL;
CREATE INDEX job_newest_by_status ON job (status, created_at, id{too}) WHERE completed_at IS NOT NULL;
CREATE INDEX job_newest_by_both ON job (profile_name, status, created_at, id{too}) WHERE completed_at IS NOT NULL"""

# Jobs that have ended are counted, of which there are many; the others are few enough to look at (`job_active`).
FORGET_ACTIVE = f"DELETE FROM job_count WHERE status IN {ACTIVE}"  # noqa: S608  # our own literals

COUNT_ONE = """
    INSERT INTO job_count (profile_name, status, shard, total) VALUES ({row}.profile_name, {row}.status, 0, {one})
    ON CONFLICT (profile_name, status, shard) DO UPDATE SET total = total + {one};"""

# With a trigger, SQLite keeps a journal of each statement of its kind, so births and changes on the way have none:
# `jobs.queue` counts a job that ended at its birth.
SQLITE_TRIGGERS = (
    "DROP TRIGGER job_count_insert",
    "DROP TRIGGER job_count_delete",
    "DROP TRIGGER job_count_update",
    "CREATE TRIGGER job_count_delete AFTER DELETE ON job WHEN OLD.completed_at IS NOT NULL BEGIN "
    + COUNT_ONE.format(row="OLD", one=-1)
    + " END",
    "CREATE TRIGGER job_count_update AFTER UPDATE OF completed_at ON job "
    "WHEN OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL BEGIN "
    + COUNT_ONE.format(row="NEW", one=1)
    + " END",
)

# No code needs ids of history lines that are never given again, and remembering the highest is a write for each line.
# What SQLite documents for changes that leave the stored rows as they are: it makes no copy of the table.
SQLITE_HISTORY_IDS = (
    "PRAGMA writable_schema = ON",
    "UPDATE sqlite_master SET sql = replace(sql, ' AUTOINCREMENT', '') WHERE type = 'table' AND name = 'job_history'",
    "PRAGMA writable_schema = RESET",
)

POSTGRESQL_FUNCTION = """
CREATE OR REPLACE FUNCTION job_count_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_count (profile_name, status, shard, total)
    SELECT profile_name, status, mod(pg_backend_pid(), 64), SUM(one) FROM ({changes}) AS changes
    GROUP BY profile_name, status HAVING SUM(one) <> 0 ORDER BY profile_name, status
    ON CONFLICT (profile_name, status, shard) DO UPDATE SET total = job_count.total + EXCLUDED.total;
    RETURN NULL;
END $$"""

BORN = "SELECT profile_name, status, 1 AS one FROM born WHERE completed_at IS NOT NULL"
GONE = "SELECT profile_name, status, -1 AS one FROM gone WHERE completed_at IS NOT NULL"


def statements(engine: str) -> Iterator[str]:
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`."""
    yield from TIMES
    yield from INDEXES.format(too=", completed_at" if engine == "Sqlite" else "").split(";\n")
    yield FORGET_ACTIVE
    if engine == "Sqlite":
        yield from SQLITE_TRIGGERS
        yield from SQLITE_HISTORY_IDS
        return
    for name, changes in (("insert", BORN), ("delete", GONE), ("update", f"{BORN} UNION ALL {GONE}")):
        yield POSTGRESQL_FUNCTION.format(name=name, changes=changes)
