"""Remove backups beyond the number that is kept, and what unfinished ones left (STA-87)."""

from __future__ import annotations

import time
from pathlib import Path

from bulksigner.backup.naming import describe_beside, list_backups, list_remains

__all__ = ["prune_backups"]

_A_DAY_SECONDS = 86400


def prune_backups(folder: Path, keep: int) -> list[Path]:
    """Remove all but the newest `keep` backups of a folder, each with its description, and return them.

    0 keeps all, and the folder is not even listed. Files of any other name are left alone. Raises `OSError`.
    """
    if keep == 0:
        return []
    gone = list_backups(folder)[keep:]
    for path in gone:
        # The database first: a description alone cannot be taken for a backup.
        path.unlink()
        describe_beside(path).unlink(missing_ok=True)
    for path in list_remains(folder):
        # A copy under way, perhaps another process's, is younger.
        if time.time() - path.stat().st_mtime > _A_DAY_SECONDS:
            path.unlink()
    return gone
