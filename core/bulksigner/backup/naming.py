"""What a backup and the files beside it are called (STA-84)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["describe_beside", "list_backups", "list_remains", "name_at", "part_beside"]

_FORM = re.compile(r"bulksigner-(\d{8}-\d{6})\.db")
_REMAINS = re.compile(r"bulksigner-(?:\d+-)?\d{8}-\d{6}\.db\.part(?:-journal|-wal|-shm)?")


def name_at(at: datetime.datetime, schema: int | None = None) -> str:
    """Return the name of a copy begun at this time; one made before a migration has the schema it left in it."""
    before = "" if schema is None else f"{schema}-"
    return f"bulksigner-{before}{at.astimezone(datetime.UTC):%Y%m%d-%H%M%S}.db"


def describe_beside(backup: Path) -> Path:
    """Return the path of the description that belongs to a copy."""
    return backup.with_suffix(".json")


def part_beside(backup: Path) -> Path:
    """Return the path of a copy while it is made."""
    return backup.with_name(f"{backup.name}.part")


def list_backups(folder: Path, form: re.Pattern[str] = _FORM) -> list[Path]:
    """Return the files of a folder that have the name of a backup, newest first."""
    return sorted((path for path in _files(folder) if form.fullmatch(path.name)), reverse=True)


def list_remains(folder: Path) -> list[Path]:
    """Return what copies that were never finished left in a folder."""
    return [path for path in _files(folder) if _REMAINS.fullmatch(path.name)]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
