from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from bulksigner.files.writers import is_open_for_writing

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who writes a file")


@linux_only
def test_only_a_writer_counts(tmp_path: Path) -> None:
    """PIPE-43: readers do not, and the answer changes with the close."""
    path = tmp_path / "a.pdf"
    with path.open("wb"):
        assert is_open_for_writing(path)
    with path.open("rb"):
        assert not is_open_for_writing(path)
    assert not is_open_for_writing(path)


def test_what_cannot_be_asked_is_not_written(tmp_path: Path) -> None:
    """PIPE-43, SEC-67: gone, a link, a pipe nobody writes."""
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("gone", "link", "pipe"):
        assert not is_open_for_writing(tmp_path / name)


@linux_only
def test_a_writer_that_opens_meanwhile_ends_nothing(tmp_path: Path) -> None:
    """CLU-06: the kernel signals the holder of a lease; the default signal would end this process."""
    path = tmp_path / "a.pdf"
    path.touch()
    asked = threading.Event()

    def ask() -> None:
        for _ in range(5000):
            is_open_for_writing(path)
        asked.set()

    thread = threading.Thread(target=ask)
    thread.start()
    while not asked.is_set():
        path.open("ab").close()
    thread.join()
