"""`Backup`: where copies of a SQLite database go, how often, and how many stay (CFG-175)."""

from __future__ import annotations

import enum
from pathlib import Path

import attrs

from bulksigner.contract.settings import Check, between, option

__all__ = ["BackupDestination", "BackupSettings", "DiskSettings"]

_ANY_PATH = Check(lambda path: "\0" not in str(path), "the path of a directory")


class BackupDestination(enum.Enum):
    """Kinds of places; only a directory of this host exists here."""

    DISK = "Disk"


@attrs.frozen
class DiskSettings:
    """`Backup:Disk`."""

    path: Path | None = option(
        None,
        help="Directory of the backups; a relative path is under the content root. Required with `Backup:Enabled`.",
        check=_ANY_PATH,
    )


@attrs.frozen
class BackupSettings:
    """`Backup`."""

    disk: DiskSettings = option()
    enabled: bool = option(False, help="Make backups of the SQLite database from the running service.")
    destination: BackupDestination = option(BackupDestination.DISK, help="Kind of place that backups go to.")
    interval_hours: int | None = option(
        None,
        help="Hours from the end of the last good backup to the next; without it only on request.",
        check=between(1, 8760),
    )
    retain_count: int = option(14, help="Backups that are kept; 0 keeps all.", check=between(0, 1000))
