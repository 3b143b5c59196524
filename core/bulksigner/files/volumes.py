"""What kind of place a file lies in."""

from __future__ import annotations

from pathlib import Path

from bulksigner.mounts import network_type

__all__ = ["is_on_this_host"]


def is_on_this_host(path: Path) -> bool:
    """Tell whether a path lies on a disk of this host, so that it never waits for another one (BEY-41)."""
    return network_type(path) is None
