from __future__ import annotations

from pathlib import Path

import pytest

from bulksigner.files import volumes

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /mnt/share rw,relatime shared:2 - nfs4 server:/export rw
41 22 0:36 / /mnt/my\\040share rw,relatime - cifs //server/share rw
42 40 0:37 / /mnt/share/local rw,relatime - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "is_network"),
    [
        ("/srv/data", False),
        ("/mnt/share", True),
        ("/mnt/share/in/deep", True),
        ("/mnt/sharecropper", False),
        ("/mnt/my share/in", True),
        ("/mnt/share/local/in", False),
    ],
)
def test_network_file_systems_are_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, is_network: bool
) -> None:
    """BEY-41: the innermost mount decides."""
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    monkeypatch.setattr(volumes, "_MOUNTS", table)
    assert volumes.is_network_path(Path(path)) is is_network


def test_a_real_local_path_is_local(tmp_path: Path) -> None:
    """BEY-41: a temporary folder of this host is no network mount, nor is a path that does not exist."""
    assert not volumes.is_network_path(tmp_path / "not" / "there")
