from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.files.lock import hold_folder_lock
from bulksigner.locks import lock_folder


def test_a_second_holder_is_refused_by_name(tmp_path: Path) -> None:
    """OPS-23: exit 75, naming host and process id of the holder; free again once released."""
    path = tmp_path / "db" / ".lock"
    lock = hold_folder_lock(path)
    with pytest.raises(StartRefused) as refused:
        hold_folder_lock(path)
    assert refused.value.exit_code == 75
    assert socket.gethostname() in refused.value.message
    assert str(os.getpid()) in refused.value.message
    lock.release()
    lock.release()
    hold_folder_lock(path).release()
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_lock_that_cannot_be_made_refuses_the_start(tmp_path: Path) -> None:
    """OPS-59: exit 73 for a place that cannot be written."""
    (tmp_path / "db").touch()
    with pytest.raises(StartRefused) as refused:
        hold_folder_lock(tmp_path / "db" / ".lock")
    assert refused.value.exit_code == 73


def test_a_folder_is_held_by_one_and_nothing_is_written(tmp_path: Path) -> None:
    """OPS-23: a folder that may not be written can be held, too; one made anew is another folder."""
    folder = tmp_path / "in"
    folder.mkdir()
    held = lock_folder(folder)
    with pytest.raises(BlockingIOError):
        lock_folder(folder)
    assert held.is_on(folder)
    assert list(folder.iterdir()) == []
    folder.rename(tmp_path / "old")
    folder.mkdir()
    assert not held.is_on(folder)
    held.release()
    lock_folder(tmp_path / "old").release()
