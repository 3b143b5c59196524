"""The list of what a run did, one line an item, chained to the list before it (STA-76)."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from bulksigner.files import durable
from bulksigner.records.times import write_time
from bulksigner.retention.items import Item

__all__ = ["Manifest"]

FOLDER_MODE = 0o750


class Manifest:
    """An open manifest; it is never changed or removed by the product once it is closed."""

    def __init__(self, folder: Path, run_id: str, started_at: datetime.datetime) -> None:
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        earlier = sorted(folder.glob("*.jsonl"))
        self._previous = durable.measure(earlier[-1]).sha256.hex() if earlier else None
        self.path = folder / f"{started_at:%Y%m%d-%H%M%S}-{run_id}.jsonl"
        self._out: TextIO = open(self.path, "x", encoding="utf-8", opener=_private)  # noqa: SIM115 - `close` ends it
        durable.flush_folder(folder)

    def add(self, item: Item, action: str, result: str) -> None:
        """Write the line of one item; it is with the system at once, and on disk after `flush`."""
        self._write(
            {
                "class": item.kind.value,
                "jobId": item.job_id,
                "name": item.name,
                "path": None if item.path is None else str(item.path),
                "eventId": item.event_id,
                "agedFrom": write_time(item.aged_from),
                "bytes": item.length,
                "sha256": item.sha256,
                "action": action,
                "result": result,
            }
        )

    def flush(self) -> None:
        """Have what was written on disk."""
        self._out.flush()
        os.fsync(self._out.fileno())

    def close(self, tallies: Mapping[str, object], *, is_complete: bool) -> None:
        """Write the counts and the SHA-256 of the manifest before this one, and close."""
        self._write({"closed": True, "complete": is_complete, "previousSha256": self._previous, "classes": tallies})
        self.flush()
        self._out.close()

    def abandon(self) -> None:
        """Close without the last line, as a kill would leave it; nothing happens to one that is closed."""
        self._out.close()

    def _write(self, line: Mapping[str, object]) -> None:
        self._out.write(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n")
        self._out.flush()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o640)
