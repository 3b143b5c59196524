"""What `bulksigner check` looks at: all that a start would open, with nothing started or migrated (OPS-203)."""

from __future__ import annotations

import io
import logging
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import attrs

from bulksigner.boot import Foundation, open_store
from bulksigner.console.banner import ENABLED
from bulksigner.console.profile_panel import (
    Alert,
    ProfileFacts,
    find_alerts,
    list_folder_warnings,
    list_profiles,
)
from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.observe import ReadinessRow
from bulksigner.contract.signing import Format
from bulksigner.contract.storage import StorageProvider
from bulksigner.encryption.envelope import open_envelope, write_envelope
from bulksigner.encryption.key import EnvelopeKey, read_salt
from bulksigner.formats import self_test
from bulksigner.formats.icp_brasil import read_holder
from bulksigner.health import binding_checks, profile_checks
from bulksigner.intake.abilities import KnowsRemoval
from bulksigner.jobs.model import utc_now
from bulksigner.observability.readiness import Readiness
from bulksigner.observability.redaction import Scrubber
from bulksigner.plugin_system.guard import ANYTHING, describe
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.model import StoredProfile, find_invalidity
from bulksigner.profiles.opened import explain_no_roots, explain_no_services, open_profiles, read_validity
from bulksigner.profiles.rules import make_rules
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.seed import foresee_import, planned_profiles, report_ignored
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.engines import Store
from bulksigner.records.migrate import known_migrations, schema_version
from bulksigner.records.notes import StoredNotes
from bulksigner.settings.encryption import EncryptionSettings
from bulksigner.settings.signing import DEFAULT_NAME, ProfileSeed

__all__ = ["Inspection", "inspect"]


@attrs.frozen
class Inspection:
    """The rows of a check, and the warnings of the settings; `ready` while no gating row is red."""

    rows: tuple[ReadinessRow, ...]
    warnings: tuple[str, ...]

    @property
    def ready(self) -> bool:
        """Tell whether a start would come up ready."""
        return all(row.ok for row in self.rows if row.gating)


def inspect(foundation: Foundation) -> Inspection:
    """Open what the settings name, one thing at a time, and say how each went."""
    scrubber = foundation.scrubber
    alerts: list[Alert] = []
    rows = [
        ReadinessRow(row.name, row.ok, row.gating, scrubber.scrub(row.detail))
        for row in (
            _asked("storage-root", True, partial(_look_at_root, foundation.settings.core.storage.root)),
            *_log_files(foundation),
            _asked("signing-engine", True, _try_formats),
            *_encryption(foundation),
            *_folders(foundation),
            *_database_and_profiles(foundation, alerts),
            *_plugins(foundation, scrubber),
        )
    ]
    settings = foundation.settings
    # The reason of a degraded profile is in its row already.
    told = [scrubber.scrub(alert.text) for alert in alerts if alert.level < logging.CRITICAL]
    return Inspection(tuple(rows), (*settings.warnings, *foundation.plugins.warnings, *told))


def _asked(name: str, gating: bool, look: Callable[[], str]) -> ReadinessRow:
    try:
        return ReadinessRow(name, True, gating, look())
    except ANYTHING as error:  # whatever a provider raises is the verdict of its row, and the other rows follow
        return ReadinessRow(name, False, gating, describe(error))


def _log_files(foundation: Foundation) -> Iterator[ReadinessRow]:
    given = foundation.settings.core.logging.file
    if given.enabled:
        yield _asked("log-files", True, partial(_look_at_root, given.path.parent, "Logging:File:Path"))


def _look_at_root(root: Path, key: str = "Storage:Root") -> str:
    place = next(parent for parent in (root, *root.parents) if os.path.exists(parent))  # noqa: PTH110 - never raises
    if not place.is_dir():
        raise BulkSignerError(f"{place} is not a folder; name another place with {key}")
    if not os.access(place, os.W_OK | os.X_OK):
        raise BulkSignerError(f"{place} is not writable for this account")
    return f"{root} is writable" if place == root else f"{root} will be created in {place}"


def _encryption(foundation: Foundation) -> Iterator[ReadinessRow]:
    given = foundation.settings.core.encryption
    if given.enabled:
        yield _asked("encryption", True, partial(_try_encryption, given))


def _try_encryption(given: EncryptionSettings) -> str:
    """Derive the key as a start does, and write and open an envelope with it."""
    began = time.monotonic()
    key = EnvelopeKey.derive(given.password.reveal(), read_salt(given.salt), given.iterations)
    seconds = time.monotonic() - began
    envelope = io.BytesIO()
    length = write_envelope(io.BytesIO(b"sample"), envelope, key).length
    envelope.seek(0)
    open_envelope(envelope, length, key, lambda _: None)
    key.wipe()
    return f"{ENABLED}; each start spends {seconds:.1f} s on its key"


def _folders(foundation: Foundation) -> Iterator[ReadinessRow]:
    core = foundation.settings.core
    provider = foundation.registry.storage_provider
    for given in core.storage.inputs:
        name = f"input-folder:{given.name}"
        chosen = provider(given.provider or core.storage.provider)
        yield _asked(name, True, partial(_list_folder, chosen, Path(given.path), core.storage.root))


def _list_folder(provider: StorageProvider, path: Path, root: Path) -> str:
    if path.is_relative_to(root) and not os.path.exists(path):  # noqa: PTH110 - never raises
        return f"{path} will be created"
    folder = provider.open(str(path), {})
    count = sum(1 for _ in folder.entries())
    fault = folder.find_removal_fault() if isinstance(folder, KnowsRemoval) else None
    if fault is not None:
        raise BulkSignerError(fault)
    return f"{path} holds {count} file(s)"


def _database_and_profiles(foundation: Foundation, alerts: list[Alert]) -> Iterator[ReadinessRow]:
    location = foundation.settings.core.database_location
    if isinstance(location, Path) and not location.exists():
        yield ReadinessRow("database", True, True, f"{location} will be created on the first start")
        yield from _seed_rows(foundation, alerts)
        return
    try:
        store = open_store(foundation.settings)
    except BulkSignerError as error:
        yield ReadinessRow("database", False, True, error.message)
        return
    try:
        yield from _stored_rows(foundation, store, alerts)
    finally:
        store.close()


def _stored_rows(foundation: Foundation, store: Store, alerts: list[Alert]) -> Iterator[ReadinessRow]:
    newest = known_migrations()[-1].version
    try:
        store.probe()
        version = schema_version(store)
    except BulkSignerError as error:
        yield ReadinessRow("database", False, True, error.message)
        return
    known = version <= newest
    detail = f"{store.label}, schema version {version}" + ("" if known else f", but this build knows only {newest}")
    yield ReadinessRow("database", known, True, detail)
    if version < newest:
        yield from _seed_rows(foundation, alerts)
        return
    core = foundation.settings.core
    sealer = Sealer(core.signing.profile_secrets_key, partial(deployment_salt, store, utc_now))
    foundation.registry.hand_notes(partial(StoredNotes, store, utc_now))
    is_encryption_on = foundation.settings.core.encryption.enabled
    profiles = open_profiles(
        ProfileStore(store),
        foundation.registry,
        sealer,
        policies=foundation.policies,
        is_encryption_on=is_encryption_on,
    )
    if not profiles.all:
        yield from _seed_rows(foundation, alerts)
        return
    configured = {given.name for given in core.storage.inputs}
    if not foundation.trust:
        for failure in explain_no_roots(profile.stored for profile in profiles.all):
            yield ReadinessRow("trust-set", False, True, failure.line())
    if not core.signing.timestamps:
        for failure in explain_no_services(profile.stored for profile in profiles.all):
            yield ReadinessRow("timestamps", False, True, failure.line())
    try:
        for profile in profiles.all:
            fault = profile.find_fault(utc_now())
            detail = fault or f"opens ({profile.locator}){_holder(profile.key)}"
            row = ReadinessRow(f"signing-profile:{profile.name}", fault is None, False, detail)
            yield row if profile.keyless is None else next(profile_checks(profile)).run()
        for profile in profiles.all:
            yield from (check.run() for check in binding_checks(profile, configured))
        alerts += find_alerts(
            list_profiles(profiles, configured),
            now=utc_now(),
            folder_warnings=list_folder_warnings(report_ignored(core)),
        )
    finally:
        profiles.close()


def _seed_rows(foundation: Foundation, alerts: list[Alert]) -> Iterator[ReadinessRow]:
    """Try the keys that the first start would import, and foresee what it would say of profiles and folders."""
    core = foundation.settings.core
    seeds = core.signing.profiles or (ProfileSeed(name=DEFAULT_NAME, certificate=core.signing.certificate),)
    for seed, planned in zip(seeds, planned_profiles(core), strict=True):
        yield _asked(f"signing-profile:{seed.name}", False, partial(_try_key, foundation, seed, planned))
    facts = [
        ProfileFacts(
            seed.name,
            seed.format,
            None,
            verify=seed.verify,
            enabled=seed.enabled,
            method=seed.method,
            validate_certificate=bool(core.signing.profiles) and seed.validate_certificate,
            policy=seed.policy,
            xml_flavor=seed.xml.flavor,
            xml_sha1_until=seed.xml.sha1_until,
            xml_sign_element=seed.xml.sign_element,
        )
        for seed in seeds
    ]
    report = foresee_import(
        core,
        Sealer(core.signing.profile_secrets_key, bytes),
        policies=foundation.policies,
        has_roots=bool(foundation.trust),
    )
    alerts += find_alerts(facts, now=utc_now(), folder_warnings=list_folder_warnings(report))


def _try_key(foundation: Foundation, seed: ProfileSeed, planned: StoredProfile) -> str:
    unmet = foundation.registry.unmet(planned.extras)
    if unmet is not None:
        raise BulkSignerError(unmet)
    method = foundation.registry.signing_method(planned.method)
    with foundation.registry.guard(method):
        if not method.needs_certificate:
            return f"needs no key: the method {planned.method} signs"
    choice = seed.certificate
    if choice is None:
        raise BulkSignerError("no certificate is configured")
    source = foundation.registry.certificate_source(choice.source)
    with foundation.registry.guard(source):
        key: OpenedKey = source.open(choice.block)
        try:
            certificate, holder = key.certificate, _holder(key)
            rules = make_rules(planned, key, foundation.policies)
        finally:
            key.close()
    now = utc_now()
    fault = find_invalidity(seed.name, *read_validity(certificate), now) or rules.find_fault(now)
    if fault is not None:
        raise BulkSignerError(fault)
    return f"opens ({source.locator(choice.block)}){holder}"


def _holder(key: OpenedKey | None) -> str:
    """Say whose certificate it is, a CPF masked (ICP-26)."""
    told = "" if key is None else read_holder(key.certificate).describe()
    return f"; {told}" if told else ""


def _try_formats() -> str:
    fault = self_test.find_fault(tuple(Format))
    if fault is not None:
        raise BulkSignerError(f"the self-test failed: {fault}")
    return "signs and checks"


def _plugins(foundation: Foundation, scrubber: Scrubber) -> Iterator[ReadinessRow]:
    for row in foundation.plugins.rows:
        if row.reason:
            yield ReadinessRow(f"plugin:{row.name}", not row.is_lost, row.stops_signing, row.advice)
    yield from Readiness(foundation.registry.readiness_checks, scrubber).report().rows
