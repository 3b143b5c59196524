"""The host mode of the ready panel."""

from __future__ import annotations

from pathlib import Path

import pytest

from bulksigner.console.host import find_host_mode


@pytest.mark.parametrize(
    ("environment", "is_windows_service", "has_marker", "mode"),
    [
        ({}, False, False, "console"),
        ({"NOTIFY_SOCKET": "", "INVOCATION_ID": ""}, False, False, "console"),
        ({}, False, True, "docker"),
        ({"NOTIFY_SOCKET": "/run/systemd/notify"}, False, False, "systemd"),
        ({"INVOCATION_ID": "8d2c"}, False, True, "systemd"),
        ({"INVOCATION_ID": "8d2c"}, True, True, "windows-service"),
    ],
)
def test_the_first_that_applies(
    tmp_path: Path, environment: dict[str, str], is_windows_service: bool, has_marker: bool, mode: str
) -> None:
    """OPS-17: Windows service, then systemd, then container, else console."""
    marker = tmp_path / "marker"
    if has_marker:
        marker.touch()
    found = find_host_mode(environment, is_windows_service=is_windows_service, container_markers=[marker])
    assert found == mode
