from __future__ import annotations

from pathlib import Path

import pytest

from bulksigner.mounts import file_system_type, network_type

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
def test_network_file_systems_are_recognised(path: str, is_network: bool) -> None:
    """BEY-41: the innermost mount decides."""
    assert (network_type(Path(path), MOUNTS) is not None) is is_network


def test_the_later_mount_hides_the_earlier() -> None:
    """BEY-41: of two mounts on one point the last one counts."""
    later = "43 22 0:38 / /mnt/share rw - ext4 /dev/sdb1 rw\n"
    assert file_system_type(Path("/mnt/share/in"), MOUNTS + later) == "ext4"


def test_a_real_local_path_is_local(tmp_path: Path) -> None:
    """BEY-41: a temporary folder of this host is no network mount, nor is a path that does not exist."""
    assert network_type(tmp_path / "not" / "there") is None


def test_a_list_that_tells_nothing_gives_no_verdict(tmp_path: Path) -> None:
    """BEY-41: where no mount is listed there is nothing to say."""
    assert file_system_type(tmp_path, "") is None
