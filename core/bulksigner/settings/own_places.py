"""Directories of this host that the product writes to besides its work roots, apart from all it takes in."""

from __future__ import annotations

from pathlib import Path

import attrs

from bulksigner.settings.findings import Findings
from bulksigner.settings.folders import find_taken_place, has_share_scheme, place
from bulksigner.settings.log_files import LogFileSettings
from bulksigner.settings.model import StorageSettings

__all__ = ["resolve_log_files"]

_WORK_ROOTS = ("processing", "output", "error")


def resolve_log_files(
    given: LogFileSettings, storage: StorageSettings, content_root: Path, findings: Findings
) -> LogFileSettings:
    """Make the path absolute and check it; `storage` is resolved already."""
    if not given.enabled and not given.write_to_console:
        findings.refuse(
            "Logging:File:Enabled",
            "is false, as is Logging:File:WriteToConsole, so nobody would ever see a log line.",
            "Set one of them to true (CFG-140).",
        )
    path = place(given.path, content_root)
    if given.enabled:
        _check("Logging:File:Path", given.path, path.parent, storage, _WORK_ROOTS, findings)
    return attrs.evolve(given, path=path)


def _check(
    key: str, given: Path, directory: Path, storage: StorageSettings, roots: tuple[str, ...], findings: Findings
) -> None:
    if has_share_scheme(str(given)):
        findings.refuse(key, "has the scheme of a share.", "Name a place on this host.")
        return
    if any(failure.key.startswith("Storage:") for failure in findings.failures):
        # Where folders are wrong themselves, whatever lies in them is a consequence.
        return
    taken = find_taken_place(directory, storage, roots)
    if taken is not None:
        findings.refuse(key, f"({directory}) lies in {taken}.", "Choose a directory of its own.")
