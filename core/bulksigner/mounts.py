"""What holds a path: a local file system or one of the network (BEY-41), and whether it is still there (BEY-40)."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path, PurePath

__all__ = ["MountMark", "file_system_type", "network_type"]

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


class MountMark:
    """Remembers what a folder was mounted from, to tell a folder whose mount is gone from an empty one (BEY-40)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._device: int | None = None
        self._point: Path | None = None

    def find_loss(self) -> str | None:
        """Say that the mount is gone; None while it stands, came back, or the folder is not there to be asked.

        The first call that finds the folder remembers it.
        """
        try:
            device = self._path.stat().st_dev
        except OSError:
            return None
        if device == self._device:
            return None
        if self._point is not None and not _is_mount(self._point):
            return (
                f"{self._path} is not mounted any more: what was mounted at {self._point} is gone, and another folder "
                f"shows in its place"
            )
        self._device, self._point = device, _mount_point(self._path)
        return None


def _mount_point(path: Path) -> Path:
    real = path.resolve()
    return next((place for place in (real, *real.parents) if _is_mount(place)), real)


def _is_mount(path: Path) -> bool:
    return os.path.ismount(path)  # `Path.is_mount` does not know Windows before Python 3.12
