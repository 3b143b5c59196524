"""What kind of file system holds a path: local, or one of the network, where events and locks do not hold (BEY-41)."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path, PurePath

__all__ = ["file_system_type", "network_type"]

_NETWORK = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4")
) | {"ocfs2", "smb2", "smb3", "smbfs", "virtiofs"}
_NETWORK_FUSE = frozenset(
    f"fuse.{name}" for name in ("blobfuse", "blobfuse2", "ceph", "davfs", "glusterfs", "rclone", "s3fs", "sshfs")
)
_MOUNTS = Path("/proc/self/mountinfo")
_DRIVE_REMOTE = 4


def network_type(path: Path, mounts: str | None = None) -> str | None:
    """Return the type of the network file system that holds `path`, or None for a local or an unknown one.

    `path` need not exist yet; `mounts` is the text of proc(5) `mountinfo`, by default this host's.
    """
    if sys.platform == "win32":
        drive = os.path.splitdrive(path.resolve())[0]
        is_remote = drive.startswith("\\\\") or ctypes.windll.kernel32.GetDriveTypeW(f"{drive}\\") == _DRIVE_REMOTE
        return "network drive" if is_remote else None
    kind = file_system_type(path, mounts)
    return kind if kind in _NETWORK | _NETWORK_FUSE else None


def file_system_type(path: Path, mounts: str | None = None) -> str | None:
    """Return the type of the file system that holds `path`; None on systems that do not tell as Linux does."""
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    nearest, kind = PurePath(), None
    real = path.resolve()
    for line in mounts.splitlines():
        place, _, rest = line.partition(" - ")
        fields = place.split(" ")
        if len(fields) < 5 or not rest:
            continue
        point = PurePath(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        # A later mount on the same point hides the earlier one.
        if real.is_relative_to(point) and len(point.parts) >= len(nearest.parts):
            nearest, kind = point, rest.split(" ")[0]
    return kind
