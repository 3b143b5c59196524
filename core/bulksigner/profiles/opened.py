"""Opens the keys of all profiles at boot and holds them; a profile that fails is a row with a reason (PERF-01)."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from cryptography import x509

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import BulkSignerError, ConfigurationRefused, Failure, PermanentFailure
from bulksigner.contract.settings import Secret
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles.model import KeyReference, OpenedProfile, StoredProfile
from bulksigner.profiles.seal import SECRETS_KEY, Sealer, key_of
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.errors import StoreFailed
from bulksigner.settings.bind import structure_block

__all__ = ["OpenedProfiles", "open_profiles"]

_LOG = logging.getLogger("bulksigner.profiles")


class OpenedProfiles:
    """The profiles of this process by name and by folder."""

    def __init__(self, profiles: Sequence[OpenedProfile], warnings: Sequence[str] = ()) -> None:
        self.all = tuple(profiles)
        self.warnings = tuple(warnings)
        self._by_name = {profile.name.casefold(): profile for profile in self.all}
        self._by_folder = {profile.stored.input_folder: profile for profile in self.all if profile.stored.input_folder}

    def get(self, name: str) -> OpenedProfile | None:
        """Return a profile by its name in any case (CFG-86), or None."""
        return self._by_name.get(name.casefold())

    def bound(self, folder: str) -> OpenedProfile | None:
        """Return the profile of an input folder, or None (PIPE-60)."""
        return self._by_folder.get(folder)

    def close(self) -> None:
        """Let go of every key; one that will not close does not keep the others open."""
        for profile in self.all:
            if profile.key is not None:
                try:
                    profile.key.close()
                except Exception as error:  # noqa: BLE001 - a driver may raise anything, and the service stops anyway
                    _LOG.warning("The key of profile '%s' did not close: %s", profile.name, type(error).__name__)


def _keep_nothing(secret: Secret) -> None:
    """Stand in where no redaction is."""


def open_profiles(
    profiles: ProfileStore,
    registry: Registry,
    sealer: Sealer,
    keep_secret: Callable[[Secret], None] = _keep_nothing,
) -> OpenedProfiles:
    """Open every profile; those that cannot sign are degraded, with a Critical line each (OPS-33).

    `keep_secret` is told of each unsealed secret before anything uses it, for redaction (SEC-51).
    Raises `ConfigurationRefused` when secrets are stored and `Signing:ProfileSecretsKey` is not set (CFG-66). A
    database that does not answer gives no profiles and a warning.
    """
    try:
        stored = profiles.all()
    except StoreFailed as error:
        warning = f"The profiles could not be read: {error.message}"
        if not sealer.has_key:
            warning += f" Whether {SECRETS_KEY}, which is not set, is needed could not be checked."
        _LOG.warning("%s", warning)
        return OpenedProfiles((), (warning,))
    with_secrets = [profile.name for profile in stored if profile.sealed]
    if with_secrets and not sealer.has_key:
        raise ConfigurationRefused(
            [
                Failure(
                    SECRETS_KEY,
                    f"is empty, and these stored profiles have secrets: {', '.join(with_secrets)}.",
                    "Set it to the key they were sealed with.",
                )
            ]
        )
    opener = _Opener(registry, sealer, keep_secret)
    return OpenedProfiles([opener.open_or_degrade(profile) for profile in stored])


@attrs.frozen
class _Opener:
    registry: Registry
    sealer: Sealer
    keep_secret: Callable[[Secret], None]

    def open_or_degrade(self, stored: StoredProfile) -> OpenedProfile:
        try:
            return self._open(stored)
        except BulkSignerError as error:
            _LOG.critical("Profile '%s' is degraded: %s", stored.name, error.message)
            return OpenedProfile(stored, degraded=error.message)

    def _open(self, stored: StoredProfile) -> OpenedProfile:
        if stored.damage is not None:
            raise PermanentFailure(stored.damage)
        unmet = self.registry.unmet(stored.extras)
        if unmet is not None:
            raise PermanentFailure(unmet)
        extras = self._bind_extras(stored)
        method = self.registry.signing_method(stored.method)
        with self.registry.guard(method):
            needs_certificate = method.needs_certificate
        if not needs_certificate:
            return OpenedProfile(stored, extras=extras)
        if stored.certificate_source is None:
            raise PermanentFailure("no certificate is configured; choose one for this profile.")
        source = self.registry.certificate_source(stored.certificate_source)
        block = self._bind_block(stored, source.name)
        with self.registry.guard(source):
            locator, is_portable, key = source.locator(block), source.portable, source.open(block)
            if not isinstance(key, OpenedKey):
                raise PermanentFailure(f"the source {source.name} opened something that is no key.")
            begins, ends = _read_validity(key.certificate)
        reference = KeyReference(stored.name, source.name, block, is_portable)
        return OpenedProfile(stored, key, reference, None, begins, ends, extras, locator)

    def _bind_block(self, stored: StoredProfile, source: str) -> object:
        secrets: dict[str, Secret] = {}
        for field, envelope in stored.sealed.items():
            secret = Secret(_decode(field, self.sealer.open(stored.id, field, envelope)))
            self.keep_secret(secret)
            secrets[key_of(field)] = secret
        cls = self.registry.block_of(source)
        return None if cls is None else structure_block(cls, stored.certificate_block, secrets)

    def _bind_extras(self, stored: StoredProfile) -> Mapping[type[Any], object]:
        """Bind the keys of each loaded plugin; keys the profile does not set take their defaults."""
        bound: dict[type[Any], object] = {}
        for declared in self.registry.profile_keys:
            if declared.lost is None:
                names = {name.casefold() for name in declared.names}
                own = {path: one for path, one in stored.extras.items() if _first(path) in names}
                bound[declared.cls] = structure_block(declared.cls, own, {})
        return bound


def _first(path: str) -> str:
    return path.partition(":")[0].casefold()


def _read_validity(certificate: bytes) -> tuple[datetime.datetime, datetime.datetime]:
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        return parsed.not_valid_before_utc, parsed.not_valid_after_utc
    except (ValueError, x509.InvalidVersion) as error:
        raise PermanentFailure("the certificate of the key cannot be read.") from error


def _decode(field: str, value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PermanentFailure(f"the stored secret {field} is no text.") from error
