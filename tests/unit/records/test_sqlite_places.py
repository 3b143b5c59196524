"""Where a SQLite database may lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.records.sqlite import file_system_of, open_sqlite


def test_the_deepest_mount_decides(tmp_path: Path) -> None:
    """BEY-41: the file system is that of the nearest mount point, also with a space in its name."""
    share = tmp_path / "the share"
    (share / "db").mkdir(parents=True)
    mounts = tmp_path / "mounts"
    spelled = str(share).replace(" ", "\\040")
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {spelled} nfs4 rw 0 0\n")
    assert file_system_of(share / "db", mounts) == "nfs4"
    assert file_system_of(tmp_path, mounts) == "ext4"


def test_the_later_mount_hides_the_earlier(tmp_path: Path) -> None:
    """BEY-41: of two mounts on one point the last one counts."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"a {tmp_path} ext4 rw 0 0\nb {tmp_path} cifs rw 0 0\n")
    assert file_system_of(tmp_path, mounts) == "cifs"


def test_a_platform_without_mounts_tells_nothing(tmp_path: Path) -> None:
    """BEY-41: where the list cannot be read there is no verdict."""
    assert file_system_of(tmp_path, tmp_path / "absent") is None


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    """BEY-41, CFG-61: the refusal names file, kind and the way out; nothing is created."""
    path = tmp_path / "db" / "bulksigner.db"
    with pytest.raises(StartRefused, match=f"{kind}.*PostgreSql") as caught:
        open_sqlite(path, file_system=lambda _: kind)
    assert str(path) in caught.value.message
    assert caught.value.exit_code == 73
    assert not path.parent.exists()
