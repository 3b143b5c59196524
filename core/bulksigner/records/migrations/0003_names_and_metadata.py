"""Remember names without their case for the rule of names, and what a producer says of a file."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

HOLDING = "('Queued', 'Processing', 'Verifying', 'AwaitingSigner', 'AwaitingApproval', 'Completed')"


def statements(engine: str) -> Iterator[str | Callable[..., None]]:  # noqa: ARG001 - both engines say it alike
    """Yield the statements for the engine, `Sqlite` or `PostgreSql`, and what folds the names that are there."""
    yield "ALTER TABLE job ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}'"
    yield "ALTER TABLE job ADD COLUMN sidecar_sha256 TEXT"
    yield "ALTER TABLE job ADD COLUMN name_key TEXT NOT NULL DEFAULT ''"
    yield "UPDATE job SET name_key = file_name"
    yield fold_names
    yield f"CREATE INDEX job_name ON job (name_key, created_at) WHERE status IN {HOLDING} AND source <> 'Signer'"
    # Between two indexes that serve alike, SQLite takes the one made last; the small one is to be it.
    yield "DROP INDEX job_in_flight"
    yield "CREATE INDEX job_in_flight ON job (status) WHERE status IN ('Processing', 'Verifying')"


def fold_names(run: Callable[..., Any], mark: str) -> None:
    """Fold the names of the jobs; neither engine does that for all of Unicode by itself."""
    for job_id, file_name in run("SELECT id, file_name FROM job").fetchall():
        folded = unicodedata.normalize("NFC", file_name).casefold()
        if folded != file_name:
            run(f"UPDATE job SET name_key = {mark} WHERE id = {mark}", (folded, job_id))  # noqa: S608 - our own literals
