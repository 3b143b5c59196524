"""Check a backup without changing anything (STA-93)."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from bulksigner.backup.naming import describe_beside
from bulksigner.contract.errors import BulkSignerError
from bulksigner.files import durable

__all__ = ["BackupUnusable", "Checked", "check_backup"]


class BackupUnusable(BulkSignerError):
    """Report why a file cannot be restored; nothing was changed."""


@attrs.frozen
class Checked:
    """What is known of a sound backup."""

    path: Path
    length: int
    schema_version: int
    product_version: str
    started_at: str
    rows: Mapping[str, int]


def check_backup(path: Path, newest_schema: int) -> Checked:
    """Compare the file with its description, look through the whole database, and see that this build knows it.

    Raises `BackupUnusable`.
    """
    if path.suffix.lower() == ".json":
        raise BackupUnusable(f"{path} only describes a backup; name the backup beside it: {path.with_suffix('.db')}")
    told = _read_description(path)
    try:
        measured = durable.measure(path)
    except OSError as error:
        raise BackupUnusable(f"{path} cannot be read: {error.strerror or error}.") from error
    if measured.sha256.hex() != told.get("sha256"):
        raise BackupUnusable(f"{path} is not what its description says: its SHA-256 differs. Use another backup.")
    try:
        # Immutable: no lock and no file beside it, wherever the backup lies.
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            found = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
            version = database.execute("SELECT COALESCE(MAX(version), 0) FROM schema_version").fetchone()[0]
    except sqlite3.Error as error:
        raise BackupUnusable(f"{path} is no usable database: {error}. Use another backup.") from error
    if found != "ok":
        raise BackupUnusable(f"{path} is damaged: {found}. Use another backup.")
    if version > newest_schema:
        raise BackupUnusable(
            f"{path} has schema version {version}, this build knows {newest_schema}. Use the build that wrote it "
            f"({told.get('productVersion')}) or a newer one."
        )
    return Checked(
        path,
        measured.length,
        version,
        str(told.get("productVersion")),
        str(told.get("startedAt")),
        told.get("rows") or {},
    )


def _read_description(path: Path) -> dict[str, Any]:
    description = describe_beside(path)
    try:
        told = json.loads(description.read_text(encoding="utf-8"))
    except OSError as error:
        raise BackupUnusable(
            f"{description} cannot be read: {error.strerror or error}. It was written with the backup and has its "
            "SHA-256; keep both together."
        ) from error
    except ValueError as error:
        raise BackupUnusable(f"{description} is no JSON: {error}. Use another backup.") from error
    if not isinstance(told, dict):
        raise BackupUnusable(f"{description} does not describe a backup. Use another one.")
    return told
