"""Recognise network file systems, on which SQLite loses data (BEY-41, CFG-61)."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

__all__ = ["find_network_type"]

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK_TYPES = frozenset(
    ("afs", "ceph", "cifs", "davfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs")
)
_NETWORK_FUSE_TYPES = frozenset(
    f"fuse.{name}" for name in ("blobfuse", "blobfuse2", "ceph", "davfs", "glusterfs", "rclone", "s3fs", "sshfs")
)


def find_network_type(path: Path, mounts: str | None = None) -> str | None:
    """Return the type of the network file system that holds `path`, or None for a local or an unknown one.

    `path` need not exist yet. `mounts` is the text of proc(5) `mountinfo`, by default this host's; other systems than
    Linux have none and answer None.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    nearest, kind = PurePath(), ""
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
    return kind if kind in _NETWORK_TYPES | _NETWORK_FUSE_TYPES else None
