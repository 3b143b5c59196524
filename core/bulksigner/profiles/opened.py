"""Opens the keys of profiles and holds them; a profile that fails is a row with a reason (PERF-01)."""

from __future__ import annotations

import datetime
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
from cryptography import x509

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import BulkSignerError, ConfigurationRefused, Failure, PermanentFailure
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import PdfChoice
from bulksigner.formats.policies import PolicyTable, shipped_policies
from bulksigner.observability.redaction import list_block_secrets
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles.looks import bind_looks
from bulksigner.profiles.model import KeyHold, KeyReference, OpenedProfile, StoredProfile
from bulksigner.profiles.rules import make_rules
from bulksigner.profiles.seal import PDF_PASSWORD, SECRETS_KEY, Sealer, key_of
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.errors import StoreFailed
from bulksigner.settings.bind import structure_block
from bulksigner.settings.cross_check import find_absent_engine
from bulksigner.settings.signatures import asks_for_stamp

__all__ = [
    "OpenedProfiles",
    "ProfileOpener",
    "explain_no_roots",
    "explain_no_services",
    "open_profiles",
    "read_validity",
]

_LOG = logging.getLogger("bulksigner.profiles")


@attrs.frozen
class _View:
    """The profiles at one moment, by name and by folder."""

    all: tuple[OpenedProfile, ...]
    by_name: Mapping[str, OpenedProfile]
    by_folder: Mapping[str, OpenedProfile]


def _view(profiles: Sequence[OpenedProfile]) -> _View:
    return _View(
        tuple(profiles),
        {profile.name.casefold(): profile for profile in profiles},
        {profile.stored.input_folder: profile for profile in profiles if profile.stored.input_folder},
    )


class OpenedProfiles:
    """The profiles of this process by name and by folder; edits replace them all at once."""

    def __init__(self, profiles: Sequence[OpenedProfile], warnings: Sequence[str] = ()) -> None:
        self.warnings = tuple(warnings)
        self._closings: list[weakref.finalize[..., KeyHold]] = []
        self._forget: Callable[[KeyReference], None] = _forget_nothing
        self._now = _view(())
        self.replace(profiles)

    @property
    def all(self) -> tuple[OpenedProfile, ...]:
        """Return every profile, in the order of their names."""
        return self._now.all

    def get(self, name: str) -> OpenedProfile | None:
        """Return a profile by its name in any case (CFG-86), or None."""
        return self._now.by_name.get(name.casefold())

    def bound(self, folder: str) -> OpenedProfile | None:
        """Return the profile of an input folder, or None (PIPE-60)."""
        return self._now.by_folder.get(folder)

    def when_closed(self, forget: Callable[[KeyReference], None]) -> None:
        """Have `forget` called with the reference of each key that is closed, in whatever thread let go of it last."""
        self._forget = forget

    def replace(self, profiles: Sequence[OpenedProfile]) -> None:
        """Take these from now on; a key that none of them has is closed when the last job that uses it has ended."""
        known = {id(profile.hold) for profile in self._now.all}
        self._closings = [closing for closing in self._closings if closing.alive]
        for profile in profiles:
            if profile.key is not None and profile.hold is not None and id(profile.hold) not in known:
                closing = weakref.finalize(profile.hold, self._close, profile.key, profile.name, profile.key_reference)
                # At the end of the process a driver may be gone already; `close` comes before.
                closing.atexit = False
                self._closings.append(closing)
        self._now = _view(profiles)

    def close(self) -> None:
        """Let go of every key; one that will not close does not keep the others open."""
        for closing in self._closings:
            closing()

    def _close(self, key: OpenedKey, name: str, reference: KeyReference | None) -> None:
        if reference is not None:
            self._forget(reference)
        try:
            key.close()
        except Exception as error:  # noqa: BLE001 - a driver may raise anything, and nobody waits for this key
            _LOG.warning("The key of profile '%s' did not close: %s", name, type(error).__name__)


def _forget_nothing(reference: KeyReference) -> None:
    """Stand in where no engine is."""


def _keep_nothing(secret: Secret) -> None:
    """Stand in where no redaction is."""


def open_profiles(
    profiles: ProfileStore,
    registry: Registry,
    sealer: Sealer,
    keep_secret: Callable[[Secret], None] = _keep_nothing,
    *,
    policies: PolicyTable | None = None,
    is_encryption_on: bool = False,
) -> OpenedProfiles:
    """Open every profile; those that cannot sign are degraded, which the panel of the start tells (OPS-33).

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
    with_secrets = [profile.name for profile in stored if profile.sealed or profile.pdf_passwords]
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
    opener = ProfileOpener(registry, sealer, keep_secret, is_encryption_on, policies or shipped_policies())
    return OpenedProfiles([opener.open(profile) for profile in stored])


def explain_no_roots(profiles: Iterable[StoredProfile]) -> list[Failure]:
    """Return the refusals of a host that trusts no root, where profiles ask for checks or for time stamps (CFG-68)."""
    profiles = list(profiles)
    stamped = [profile.name for profile in profiles if asks_for_stamp(profile.policy)]
    failures = [_explain_unchecked(profiles)]
    if stamped:
        failures.append(
            Failure(
                "Signing:Trust:RootsPath",
                f"names no root, and these profiles ask for time stamps: {', '.join(stamped)}.",
                "Name a folder with the roots of the time-stamp services.",
            )
        )
    return [failure for failure in failures if failure is not None]


def explain_no_services(profiles: Iterable[StoredProfile]) -> list[Failure]:
    """Return the refusal of a host that names no time-stamp service, where stored profiles ask for time stamps."""
    stamped = [profile.name for profile in profiles if asks_for_stamp(profile.policy)]
    if not stamped:
        return []
    return [
        Failure(
            "Signing:Timestamps",
            f"names no service, and these profiles ask for time stamps: {', '.join(stamped)}.",
            "Name one, such as Signing:Timestamps[0]:Url, or run: bulksigner profiles set NAME Policy=AD-RB",
        )
    ]


def _explain_unchecked(profiles: Iterable[StoredProfile]) -> Failure | None:
    asking = [profile.name for profile in profiles if profile.validate_certificate and profile.certificate_source]
    if not asking:
        return None
    return Failure(
        "Signing:Trust:RootsPath",
        f"names no root, and these profiles have ValidateCertificate: {', '.join(asking)}.",
        "Name a folder with the roots to be trusted, or set ValidateCertificate to false: in the settings before "
        "the first start, later with bulksigner profiles set NAME ValidateCertificate=false.",
    )


@attrs.frozen
class ProfileOpener:
    """Opens profiles, at boot and again when they were edited."""

    registry: Registry
    sealer: Sealer
    keep_secret: Callable[[Secret], None] = _keep_nothing
    is_encryption_on: bool = False
    policies: PolicyTable = attrs.field(factory=shipped_policies)

    def open(self, stored: StoredProfile) -> OpenedProfile:
        """Open one profile; one that cannot sign is degraded, with the reason."""
        try:
            return self.open_or_raise(stored)
        except BulkSignerError as error:
            return _degrade(stored, error)

    def open_or_raise(self, stored: StoredProfile) -> OpenedProfile:
        """Open one profile; raises `BulkSignerError` with the reason where it cannot sign."""
        prepared = self._prepare(stored)
        return self._with_key(prepared) if self._needs_key(stored) else prepared

    def renew(self, before: OpenedProfile, stored: StoredProfile) -> OpenedProfile:
        """Return a profile after an edit; its key is opened only where the edit, or a degraded state, asks for it.

        A changed certificate that does not open leaves the one in force, as it would be until a restart (CFG-85).
        """
        try:
            prepared = self._prepare(stored)
            if not self._needs_key(stored):
                return prepared
        except BulkSignerError as error:
            return _degrade(stored, error)
        if before.key is None or not _is_same_certificate(before.row, stored):
            try:
                return self._with_key(prepared)
            except BulkSignerError as error:
                if before.key is None:
                    return _degrade(stored, error)
                pending = (
                    f"its changed certificate does not open: {error.message} Jobs are signed with the one in force "
                    f"({before.locator}). Mend it, then run: bulksigner profiles set {stored.name} --reopen"
                )
                _LOG.critical("Profile '%s': %s", stored.name, pending)
        else:
            pending = before.pending or ""
        in_force = before.stored
        try:
            rules = make_rules(stored, before.key, self.policies)
        except BulkSignerError as error:
            return _degrade(stored, error)
        return attrs.evolve(
            before,
            stored=attrs.evolve(
                stored,
                certificate_source=in_force.certificate_source,
                certificate_block=in_force.certificate_block,
                sealed=in_force.sealed,
                certificate_version=in_force.certificate_version,
            ),
            extras=prepared.extras,
            pdf=prepared.pdf,
            rules=rules,
            refused=stored if pending else None,
            pending=pending or None,
        )

    def _prepare(self, stored: StoredProfile) -> OpenedProfile:
        if stored.damage is not None:
            raise PermanentFailure(stored.damage)
        unmet = self.registry.unmet(stored.extras)
        if unmet is not None:
            raise PermanentFailure(unmet)
        if stored.encrypt and not self.is_encryption_on:
            # Never in plaintext because a setting was lost: its files are asked to be encrypted (CFG-91).
            raise PermanentFailure(
                "its outputs are to be encrypted, and Encryption:Enabled is false. Enable it again with its password "
                f"and salt, or run: bulksigner profiles set {stored.name} Encrypt=false"
            )
        lost = find_absent_engine(stored.cross_check)
        if lost is not None:
            raise PermanentFailure(lost)
        return OpenedProfile(stored, extras=self._bind_extras(stored), pdf=self._choose_pdf(stored))

    def _choose_pdf(self, stored: StoredProfile) -> PdfChoice | None:
        passwords = self.sealer.open_all(stored.id, PDF_PASSWORD, stored.pdf_passwords)
        for password in passwords:
            self.keep_secret(password)
        looks = bind_looks(stored.appearance)
        return PdfChoice(passwords, looks) if passwords or looks is not None else None

    def _needs_key(self, stored: StoredProfile) -> bool:
        method = self.registry.signing_method(stored.method)
        with self.registry.guard(method):
            return bool(method.needs_certificate)

    def _with_key(self, prepared: OpenedProfile) -> OpenedProfile:
        stored = prepared.stored
        if stored.certificate_source is None:
            raise PermanentFailure("no certificate is configured; choose one for this profile.")
        source = self.registry.certificate_source(stored.certificate_source)
        block = self._bind_block(stored, source.name)
        with self.registry.guard(source):
            locator, is_portable, key = source.locator(block), source.portable, source.open(block)
            if not isinstance(key, OpenedKey):
                raise PermanentFailure(f"the source {source.name} opened something that is no key.")
            try:
                begins, ends = read_validity(key.certificate)
                rules = make_rules(stored, key, self.policies)
            except BulkSignerError:
                key.close()
                raise
        return attrs.evolve(
            prepared,
            key=key,
            key_reference=KeyReference(_name_key(stored), source.name, block, is_portable),
            certificate_not_before=begins,
            certificate_not_after=ends,
            rules=rules,
            locator=locator,
            hold=KeyHold(),
        )

    def _bind_block(self, stored: StoredProfile, source: str) -> object:
        secrets: dict[str, Secret] = {}
        for field, envelope in stored.sealed.items():
            secret = Secret(_decode(field, self.sealer.open(stored.id, field, envelope)))
            # Here already: a block that cannot be bound may be told of with its values.
            self.keep_secret(secret)
            secrets[key_of(field)] = secret
        cls = self.registry.block_of(source)
        block = None if cls is None else structure_block(cls, stored.certificate_block, secrets)
        for secret in list_block_secrets(block, os.environ):
            self.keep_secret(secret)
        return block

    def _bind_extras(self, stored: StoredProfile) -> Mapping[type[Any], object]:
        """Bind the keys of each loaded plugin; keys the profile does not set take their defaults."""
        bound: dict[type[Any], object] = {}
        for declared in self.registry.profile_keys:
            if declared.lost is None:
                names = {name.casefold() for name in declared.names}
                own = {path: one for path, one in stored.extras.items() if _first(path) in names}
                bound[declared.cls] = structure_block(declared.cls, own, {})
        return bound


def _degrade(stored: StoredProfile, error: BulkSignerError) -> OpenedProfile:
    return OpenedProfile(stored, degraded=error.message)


def _is_same_certificate(one: StoredProfile, other: StoredProfile) -> bool:
    return one.certificate_version == other.certificate_version and one.certificate_source == other.certificate_source


def _name_key(stored: StoredProfile) -> str:
    version = stored.certificate_version
    return stored.name if version == 1 else f"{stored.name} (certificate {version})"


def _first(path: str) -> str:
    return path.partition(":")[0].casefold()


def read_validity(certificate: bytes) -> tuple[datetime.datetime, datetime.datetime]:
    """Return from when to when a certificate (DER) is valid; raises `PermanentFailure` for one that is unreadable."""
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
