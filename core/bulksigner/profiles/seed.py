"""Imports the profiles of the settings on the first boot, once for the whole deployment (CFG-81 to CFG-84)."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from bulksigner.contract.errors import ConfigurationRefused, Failure
from bulksigner.contract.settings import Secret
from bulksigner.formats.policies import PolicyTable, shipped_policies
from bulksigner.profiles.deployment import read_fact, record_fact
from bulksigner.profiles.looks import find_unfit_looks
from bulksigner.profiles.mirror import keep_changed, read_columns
from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.opened import explain_no_roots
from bulksigner.profiles.rules import find_absent_policy
from bulksigner.profiles.seal import PDF_PASSWORD, SECRETS_KEY, Sealer, field_of
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.errors import UniqueViolation
from bulksigner.records.events import Event, write_event
from bulksigner.settings.bind import unstructure_block
from bulksigner.settings.cross_check import find_absent_engine
from bulksigner.settings.model import CoreSettings, InputFolder
from bulksigner.settings.signing import DEFAULT_NAME, ProfileSeed

__all__ = ["SeedReport", "foresee_import", "planned_profiles", "report_ignored", "seed_profiles"]

_MARKER = "profiles-seeded"


@attrs.frozen
class SeedReport:
    """What the import did.

    `bound` maps folders to profiles and `unassigned` maps the other folders to the reason; both are empty on later
    boots, when `warnings` count what the settings still hold and nobody reads (OPS-36).
    """

    profiles: tuple[str, ...] = ()
    bound: Mapping[str, str] = attrs.field(factory=dict)
    unassigned: Mapping[str, str] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = ()


@attrs.frozen
class _Draft:
    """A profile before its secrets are sealed; `key` is where the settings have it."""

    key: str
    profile: StoredProfile
    secrets: Mapping[str, Secret]
    pdf_passwords: tuple[Secret, ...] = ()


def seed_profiles(
    profiles: ProfileStore,
    core: CoreSettings,
    sealer: Sealer,
    clock: Callable[[], datetime.datetime],
    *,
    policies: PolicyTable | None = None,
    has_roots: bool = True,
) -> SeedReport:
    """Import all profiles and folder bindings in one transaction, or none, when there is no profile yet.

    Raises `ConfigurationRefused` when a secret would have to be sealed without `Signing:ProfileSecretsKey` (CFG-66), or
    a certificate checked on a host that trusts no root (CFG-68).
    Of instances that boot together one imports; the others find its rows.
    """
    if profiles.all():
        return report_ignored(core)
    drafts = [_draft(key, seed) for key, seed in _list_seeds(core)]
    _refuse(drafts, core.storage.inputs, sealer, policies or shipped_policies(), has_roots)
    bound, unassigned = _bind_folders(drafts, core.storage.inputs)
    folders = {profile: folder for folder, profile in bound.items()}
    ready = [attrs.evolve(_seal(draft, sealer), input_folder=folders.get(draft.profile.name)) for draft in drafts]
    report = SeedReport(tuple(draft.profile.name for draft in drafts), bound, unassigned)
    return report if _import(profiles, ready, report, clock) else report_ignored(core)


def foresee_import(core: CoreSettings, sealer: Sealer, *, policies: PolicyTable, has_roots: bool = True) -> SeedReport:
    """Say what the first start would import and bind, with nothing stored; refuses what that would (OPS-203)."""
    drafts = [_draft(key, seed) for key, seed in _list_seeds(core)]
    _refuse(drafts, core.storage.inputs, sealer, policies, has_roots)
    bound, unassigned = _bind_folders(drafts, core.storage.inputs)
    return SeedReport(tuple(draft.profile.name for draft in drafts), bound, unassigned)


def planned_profiles(core: CoreSettings) -> list[StoredProfile]:
    """Return the profiles that the first start would import, without secrets and folders, in their order."""
    return [_draft(key, seed).profile for key, seed in _list_seeds(core)]


def _list_seeds(core: CoreSettings) -> list[tuple[str, ProfileSeed]]:
    if core.signing.profiles:
        return [(f"Signing:Profiles[{index}]", seed) for index, seed in enumerate(core.signing.profiles)]
    # CFG-83: without profiles the single certificate makes one, which goes by extension and is not validated.
    single = ProfileSeed(
        name=DEFAULT_NAME,
        certificate=core.signing.certificate,
        validate_certificate=False,
        encrypt=core.encryption.enabled,
    )
    return [("Signing", single)]


def _draft(key: str, seed: ProfileSeed) -> _Draft:
    choice = seed.certificate
    plain, secrets = unstructure_block(choice.block) if choice and choice.block is not None else ({}, {})
    extras, has_secret = keep_changed(seed.extras)
    if has_secret:
        raise ConfigurationRefused(
            [Failure(key, "holds a secret among the keys of a plugin.", "Only certificate blocks can store secrets.")]
        )
    profile = StoredProfile(
        id=str(uuid.uuid4()),
        name=seed.name,
        **read_columns(seed),
        certificate_source=choice.source if choice else None,
        certificate_block=plain,
        sealed={},
        extras=extras,
        input_folder=None,
    )
    return _Draft(key, profile, {name: secret for name, secret in secrets.items() if secret}, seed.pdf.passwords)


def _refuse(
    drafts: Sequence[_Draft],
    folders: Iterable[InputFolder],
    sealer: Sealer,
    policies: PolicyTable,
    has_roots: bool,
) -> None:
    """Refuse, with everything at once, what the import may not store."""
    failures = [
        Failure(f"{draft.key}:Policy", f"is {draft.profile.policy}, but {absent}.", "Choose one of these.")
        for draft in drafts
        if (absent := find_absent_policy(draft.profile, policies)) is not None
    ]
    failures += [
        Failure(f"{draft.key}:CrossCheck", f"cannot be followed: {absent}", "")
        for draft in drafts
        if (absent := find_absent_engine(draft.profile.cross_check)) is not None
    ]
    failures += [
        Failure(f"{draft.key}:Appearance", f"cannot be followed: {unfit}", "")
        for draft in drafts
        if (unfit := find_unfit_looks(draft.profile.appearance)) is not None
    ]
    if not has_roots:
        failures += explain_no_roots(draft.profile for draft in drafts)
    with_secrets = [draft.profile.name for draft in drafts if draft.secrets or draft.pdf_passwords]
    if with_secrets and not sealer.has_key:
        failures.append(
            Failure(
                SECRETS_KEY,
                f"is empty, and these profiles carry secrets: {', '.join(with_secrets)}.",
                "Set it to 32 or more random characters and keep it safe.",
            )
        )
    disabled = {draft.profile.name.casefold() for draft in drafts if not draft.profile.enabled}
    failures += [
        Failure(
            f"Storage:Inputs[{index}]:Profile",
            f"names {folder.profile}, which is disabled.",
            "Enable the profile, or choose another for the folder (PIPE-63).",
        )
        for index, folder in enumerate(folders)
        if folder.profile is not None and folder.profile.casefold() in disabled
    ]
    if failures:
        raise ConfigurationRefused(failures)


def _bind_folders(drafts: Sequence[_Draft], folders: Iterable[InputFolder]) -> tuple[dict[str, str], dict[str, str]]:
    """Bind folders in their order, one to a profile (PIPE-57)."""
    names = {draft.profile.name.casefold(): draft.profile.name for draft in drafts}
    bound: dict[str, str] = {}
    unassigned: dict[str, str] = {}
    for folder in folders:
        wanted = folder.profile or DEFAULT_NAME
        name = names.get(wanted.casefold())
        owner = next((other for other, profile in bound.items() if profile == name), None)
        if name is None:
            unassigned[folder.name] = f"there is no profile {wanted}"
        elif owner is not None:
            unassigned[folder.name] = f"the profile {name} already has the folder {owner}"
        else:
            bound[folder.name] = name
    return bound, unassigned


def _seal(draft: _Draft, sealer: Sealer) -> StoredProfile:
    source = draft.profile.certificate_source or ""
    sealed = {}
    for key, secret in draft.secrets.items():
        field = field_of(source, key)
        sealed[field] = sealer.seal(draft.profile.id, field, secret.reveal().encode("utf-8"))
    passwords = sealer.seal_all(draft.profile.id, PDF_PASSWORD, draft.pdf_passwords)
    return attrs.evolve(draft.profile, sealed=sealed, pdf_passwords=passwords)


def _import(
    profiles: ProfileStore, ready: Sequence[StoredProfile], report: SeedReport, clock: Callable[[], datetime.datetime]
) -> bool:
    """Write everything; False when another instance was first."""
    store, token = profiles.store, str(uuid.uuid4())

    def act() -> bool:
        at = clock()
        record_fact(store, _MARKER, token, at)
        for profile in ready:
            profiles.insert(profile, at)
        write_event(store, _describe(report), at)
        return True

    try:
        return store.write(act, settle=lambda: True if read_fact(store, _MARKER) == token else None)
    except UniqueViolation:
        return False


def _describe(report: SeedReport) -> Event:
    parts = [f"{len(report.profiles)} signing profile(s) imported from the settings: {', '.join(report.profiles)}."]
    if report.bound:
        parts.append(f"Folders bound: {', '.join(f'{folder} to {name}' for folder, name in report.bound.items())}.")
    if report.unassigned:
        parts.append(f"Folders left unassigned: {', '.join(report.unassigned)}.")
    facts = {
        "profiles": list(report.profiles),
        "bound": dict(report.bound),
        "unassigned": list(report.unassigned),
    }
    return Event("SigningProfilesSeeded", " ".join(parts), facts)


def report_ignored(core: CoreSettings) -> SeedReport:
    """Count what a later boot finds in the settings and does not read (CFG-81, CFG-50)."""
    warnings = []
    if core.signing.profiles:
        warnings.append(
            f"Signing:Profiles ({len(core.signing.profiles)} entries) is ignored: "
            "profiles were imported on the first boot and are kept in the database."
        )
    elif core.signing.certificate is not None:
        warnings.append("Signing:Certificate is ignored: it was imported on the first boot.")
    named = sum(folder.profile is not None for folder in core.storage.inputs)
    if named:
        warnings.append(
            f"Storage:Inputs[]:Profile ({named} keys) is ignored: "
            "folders were bound on the first boot and are kept in the database."
        )
    return SeedReport(warnings=tuple(warnings))
