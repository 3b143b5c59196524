"""Where the tests of this repository put their files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")  # noqa: S108 - folders below it are made by pytest, for this account only
ENOUGH_BYTES = 2 * 1024**3


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory where there is room: what is tested is the order of flushes, not the disk."""
    has_room = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES
    if has_room and "TMPDIR" not in os.environ and config.option.basetemp is None:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
