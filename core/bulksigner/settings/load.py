"""From files and environment to one immutable, typed object, or one refusal (CFG-01, CFG-12, CFG-17)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

from bulksigner.contract.errors import Failure
from bulksigner.contract.settings import Secret, Settings
from bulksigner.settings import reserved
from bulksigner.settings.choices import Installed, explain_absent
from bulksigner.settings.databases import locate_database
from bulksigner.settings.encryption import resolve_encryption
from bulksigner.settings.findings import Findings
from bulksigner.settings.folders import check_folders, resolve_storage
from bulksigner.settings.grammar import quote
from bulksigner.settings.model import CoreSettings, DatabaseProvider
from bulksigner.settings.own_places import resolve_backup, resolve_log_files, resolve_retention, resolve_trust
from bulksigner.settings.rules import check_rules, list_certificates
from bulksigner.settings.schema import CollectedSchema
from bulksigner.settings.sources import read_environment, read_files
from bulksigner.settings.tree import merge
from bulksigner.settings.variables import HostVariables

__all__ = ["LoadedSettings", "check_choices", "check_seed_choices", "load"]


@attrs.frozen
class LoadedSettings:
    """The settings of this process; `warnings` and `notices` are for the log once there is one."""

    core: CoreSettings
    plugins: Settings
    warnings: tuple[str, ...]
    secrets: tuple[Secret, ...]
    files_read: tuple[Path, ...]
    content_root: Path
    environment: str
    notices: tuple[str, ...] = ()


def load(schema: CollectedSchema, variables: HostVariables, environ: Mapping[str, str]) -> LoadedSettings:
    """Read, merge, bind and check every setting; raises `ConfigurationRefused` with all failures at once."""
    findings = Findings()
    for failure in variables.failures():
        findings.refuse(failure.key, failure.problem, failure.remedy)
    files = read_files(_list_directories(variables, findings), variables.environment, findings)
    sections = schema.first_segments() | reserved.first_segments()
    own = read_environment(environ, sections, schema.single_keys(), findings)
    own = schema.drop_file_only(own, findings)
    tree = merge(files.tree, own, lambda _path, _under, _over: None)
    tree = reserved.refuse_reserved(tree, schema, findings)
    core, plugins = schema.bind(tree, findings)
    core = _resolve(core, variables, findings)
    core = attrs.evolve(core, encryption=resolve_encryption(core.encryption, environ, findings))
    check_rules(core, findings)
    findings.raise_failures()
    return LoadedSettings(
        core=core,
        plugins=plugins,
        warnings=tuple(findings.warnings),
        secrets=tuple(findings.secrets),
        files_read=files.read,
        content_root=variables.content_root,
        environment=variables.environment,
        notices=tuple(findings.notices),
    )


def _list_directories(variables: HostVariables, findings: Findings) -> list[Path]:
    directories = [variables.content_root] if variables.content_root.is_dir() else []
    chosen = variables.config_dir
    if chosen is None:
        return directories
    if not chosen.is_dir():
        findings.refuse(
            "BULK_SIGNER_CONFIG_DIR",
            f"names {chosen}, which is not a directory that can be read.",
            "Create it, or correct the variable.",
        )
    elif not directories or not chosen.samefile(directories[0]):
        directories.append(chosen)
    return directories


def _resolve(core: CoreSettings, variables: HostVariables, findings: Findings) -> CoreSettings:
    content_root, signing = variables.content_root, core.signing
    storage = resolve_storage(core.storage, content_root)
    resolved = attrs.evolve(core, storage=storage)
    database = locate_database(resolved, content_root, findings)
    check_folders(core.storage, storage, database if isinstance(database, Path) else None, findings)
    if core.database.provider is DatabaseProvider.SQLITE and core.connection_strings.default in findings.secrets:
        # The path of a file is no secret, and masking it would blot it out of every log line that names it.
        findings.secrets.remove(core.connection_strings.default)
    log_files = resolve_log_files(core.logging.file, storage, content_root, findings)
    file = database if isinstance(database, Path) else None
    trust = resolve_trust(signing.trust, signing.trust_lacuna_test_root, content_root, variables.environment, findings)
    return attrs.evolve(
        resolved,
        signing=attrs.evolve(signing, trust=trust),
        database_location=database,
        logging=attrs.evolve(core.logging, file=log_files),
        backup=resolve_backup(core.backup, storage, file, content_root, findings),
        retention=resolve_retention(core.retention, storage, file, content_root, findings),
    )


def check_choices(core: CoreSettings, installed: Installed) -> list[Failure]:
    """Check the names that select storage, once plugins have handed over what they have (CFG-16, OPS-56)."""
    chosen = [("Storage:Provider", core.storage.provider)]
    chosen += [
        (f"Storage:Inputs[{index}]:Provider", folder.provider)
        for index, folder in enumerate(core.storage.inputs)
        if folder.provider != core.storage.provider
    ]
    return _absent(((key, value, installed.storage_providers) for key, value in chosen), installed.out_of_use)


def check_seed_choices(core: CoreSettings, installed: Installed) -> list[Failure]:
    """Check the names that the profiles of the settings select; only an import reads these (CFG-81)."""
    methods = [
        (f"Signing:Profiles[{index}]:Method", seed.method, installed.signing_methods)
        for index, seed in enumerate(core.signing.profiles)
    ]
    sources = [(f"{key}:Source", choice.source, installed.sources) for key, choice in list_certificates(core)]
    return _absent((*methods, *sources), installed.out_of_use)


def _absent(chosen: Iterable[tuple[str, str, frozenset[str]]], out_of_use: tuple[str, ...]) -> list[Failure]:
    return [
        Failure(
            key, f"is {quote(value)}, which nothing loaded here answers to.", explain_absent(value, known, out_of_use)
        )
        for key, value, known in chosen
        if value not in known
    ]
