"""Directories of this host besides the work roots and the folders: those written to, and those of trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from bulksigner.settings.backups import BackupSettings
from bulksigner.settings.findings import Findings
from bulksigner.settings.folders import find_taken_place, has_share_scheme, is_within, place
from bulksigner.settings.log_files import LogFileSettings
from bulksigner.settings.model import StorageSettings
from bulksigner.settings.retention import RetentionAction, RetentionSettings
from bulksigner.settings.trust import TrustSettings

__all__ = ["find_backup_fault", "resolve_backup", "resolve_log_files", "resolve_retention", "resolve_trust"]

_WORK_ROOTS = ("processing", "output", "error")
_PRODUCTION = "production"
_TEST_KEYS = {True: "Signing:Trust:AllowTestRoots", False: "Signing:TrustLacunaTestRoot"}


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


def resolve_backup(
    given: BackupSettings,
    storage: StorageSettings,
    database: Path | None,
    content_root: Path,
    findings: Findings,
) -> BackupSettings:
    """Make the path absolute and check it; `database` is the SQLite file, None with a server (CFG-175, STA-89)."""
    if given.enabled and database is None:
        findings.refuse(
            "Backup:Enabled",
            "is true, and Database:Provider is PostgreSql.",
            "Remove it; use the server's own backups, such as pg_dump (CLU-72).",
        )
    elif given.enabled and given.disk.path is None:
        findings.refuse("Backup:Disk:Path", "is missing, and Backup:Enabled is true.", "Name a directory.")
    if given.disk.path is None:
        return given
    path = place(given.disk.path, content_root)
    if not _has_storage_failures(findings):
        fault = find_backup_fault(given.disk.path, path, storage, database)
        if fault is not None:
            findings.refuse("Backup:Disk:Path", fault, "Choose a directory of its own, best on another volume.")
    return attrs.evolve(given, disk=attrs.evolve(given.disk, path=path))


def resolve_retention(
    given: RetentionSettings, storage: StorageSettings, database: Path | None, content_root: Path, findings: Findings
) -> RetentionSettings:
    """Make the paths that files are moved to absolute and check them (STA-109, STA-110)."""
    resolved: dict[str, Any] = {}
    for name, part in (("output", given.output), ("error", given.error), ("orphans", given.orphans)):
        key = f"Retention:{name.title()}:MoveTo"
        if part.action is RetentionAction.MOVE and part.move_to is None:
            findings.refuse(key, "is missing, and Action is Move.", "Name a directory.")
        if part.move_to is None:
            continue
        path = place(part.move_to, content_root)
        if not _has_storage_failures(findings):
            fault = find_backup_fault(part.move_to, path, storage, database)
            if fault is not None:
                findings.refuse(key, fault, "Choose a directory of its own.")
        resolved[name] = attrs.evolve(part, move_to=path)
    return attrs.evolve(given, **resolved)


def resolve_trust(
    given: TrustSettings, lacuna_test_root: bool, content_root: Path, environment: str, findings: Findings
) -> TrustSettings:
    """Make paths absolute and refuse what may not be; `lacuna_test_root` is the migrated spelling (CFG-67)."""
    allows = given.allow_test_roots or lacuna_test_root
    key = _TEST_KEYS[given.allow_test_roots]
    if allows and environment.casefold() == _PRODUCTION:
        findings.refuse(
            key,
            f"is true, and the environment is {environment}: anybody can have a certificate of a test root.",
            "Remove it, or start another environment with BULK_SIGNER_ENVIRONMENT.",
        )
    if allows and given.test_roots_path is None:
        findings.refuse(
            "Signing:Trust:TestRootsPath", f"is missing, and {key} is true.", "Name the folder of the test roots."
        )
    if allows and environment.casefold() != _PRODUCTION:
        findings.warn(f"{key} is true: certificates of test roots are taken for good. Never use this for real files.")
    places: dict[str, Any] = {}
    for name, label in (("roots_path", "RootsPath"), ("test_roots_path", "TestRootsPath"), ("crls_path", "CrlsPath")):
        path: Path | None = getattr(given, name)
        if path is None:
            continue
        places[name] = resolved = place(path, content_root)
        if not resolved.is_dir() and (allows or name != "test_roots_path"):
            findings.refuse(
                f"Signing:Trust:{label}",
                f"names {resolved}, which is not a folder that can be read.",
                "Create it, or correct the key.",
            )
    return attrs.evolve(given, allow_test_roots=allows, **places)


def find_backup_fault(given: Path, directory: Path, storage: StorageSettings, database: Path | None) -> str | None:
    """Say why backups and moved files may not go to a place, or None; `directory` is `given` made absolute."""
    if has_share_scheme(str(given)):
        return "has the scheme of a share."
    taken = find_taken_place(directory, storage, (*_WORK_ROOTS, "db"))
    if taken is None and database is not None and is_within(directory, database.parent):
        taken = database.parent
    return None if taken is None else f"({directory}) lies in {taken}."


def _has_storage_failures(findings: Findings) -> bool:
    # Where folders are wrong themselves, whatever lies in them is a consequence.
    return any(failure.key.startswith("Storage:") for failure in findings.failures)


def _check(
    key: str, given: Path, directory: Path, storage: StorageSettings, roots: tuple[str, ...], findings: Findings
) -> None:
    if has_share_scheme(str(given)):
        findings.refuse(key, "has the scheme of a share.", "Name a place on this host.")
        return
    if _has_storage_failures(findings):
        return
    taken = find_taken_place(directory, storage, roots)
    if taken is not None:
        findings.refuse(key, f"({directory}) lies in {taken}.", "Choose a directory of its own.")
