"""Tell local file systems from network ones (BEY-41)."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

__all__ = ["is_network_path"]

_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "virtiofs"}
)
_MOUNTS = Path("/proc/self/mountinfo")
_DRIVE_REMOTE = 4


def is_network_path(path: Path) -> bool:
    """Tell whether a path, or its nearest parent that exists, lies on a network file system."""
    place = os.path.realpath(path)
    if sys.platform == "win32":
        drive = os.path.splitdrive(place)[0]
        return drive.startswith("\\\\") or ctypes.windll.kernel32.GetDriveTypeW(f"{drive}\\") == _DRIVE_REMOTE
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    return _kind_at(place, mounts) in _NETWORK


def _kind_at(place: str, mounts: str) -> str:
    # proc(5): the mount point is field 5, the type follows the lone hyphen; of equal mount points the last one counts.
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind
