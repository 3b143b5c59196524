"""Who started the service (OPS-17)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["find_host_mode"]

_CONTAINER_MARKERS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def find_host_mode(
    environment: Mapping[str, str] = os.environ,
    *,
    is_windows_service: bool = False,
    container_markers: Sequence[Path] = _CONTAINER_MARKERS,
) -> str:
    """Return `windows-service`, `systemd`, `docker` or `console`; the first that applies."""
    if is_windows_service:
        return "windows-service"
    if environment.get("NOTIFY_SOCKET") or environment.get("INVOCATION_ID"):
        return "systemd"
    if any(marker.exists() for marker in container_markers):
        return "docker"
    return "console"
