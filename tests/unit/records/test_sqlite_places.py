"""Where a SQLite database may lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.records.errors import FileLost
from bulksigner.records.service_lock import hold_database
from bulksigner.records.sqlite import open_sqlite


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    """BEY-41, CFG-61: the refusal names file, kind and the way out; nothing is created."""
    path = tmp_path / "db" / "bulksigner.db"
    with pytest.raises(StartRefused, match=f"{kind}.*PostgreSql") as caught:
        open_sqlite(path, network=lambda _: kind)
    assert str(path) in caught.value.message
    assert caught.value.exit_code == 73
    assert not path.parent.exists()


def test_two_names_of_one_file_have_one_lock(tmp_path: Path) -> None:
    """OPS-60: a second service is refused with 75 by host and process id, also when it came through a link."""
    (tmp_path / "db").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "db")
    first, second = open_sqlite(tmp_path / "db" / "b.db"), open_sqlite(tmp_path / "link" / "b.db")
    lock = hold_database(first)
    with pytest.raises(StartRefused, match=f"process {os.getpid()}") as caught:
        hold_database(second)
    assert caught.value.exit_code == 75
    lock.release()
    hold_database(second).release()
    first.close()
    second.close()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_gone_is_noticed(tmp_path: Path, is_replaced: bool) -> None:
    """API-81, DEP-26: removed or replaced, the file is lost to the service, and no empty one appears."""
    path = tmp_path / "b.db"
    store = open_sqlite(path)
    lock = hold_database(store)
    store.probe()
    assert lock.find_loss() is None
    path.rename(tmp_path / "old.db")
    if is_replaced:
        path.touch()
    with pytest.raises(FileLost, match="removed or replaced"):
        store.probe()
    assert str(path) in str(lock.find_loss())
    assert path.exists() == is_replaced
    lock.release()
    store.close()
