"""Providers by role and name, as the loaded plugins handed them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import attrs

from bulksigner.contract.approval import ApprovalRule
from bulksigner.contract.certificate import CertificateSource
from bulksigner.contract.errors import PermanentFailure, PluginFailed
from bulksigner.contract.intake import IntakeSource
from bulksigner.contract.notes import KeepsNotes, Notes
from bulksigner.contract.observe import BannerRow, ReadinessCheck
from bulksigner.contract.settings import key_name
from bulksigner.contract.signing import SigningMethod
from bulksigner.contract.storage import StorageProvider
from bulksigner.contract.validation import FileValidator
from bulksigner.plugin_system import roles
from bulksigner.plugin_system.guard import guarded
from bulksigner.plugin_system.report import PluginRow
from bulksigner.plugin_system.roles import Role
from bulksigner.settings.choices import explain_absent, list_out_of_use

__all__ = ["DeclaredKeys", "Provided", "Registry", "RegistryBuilder"]

P = TypeVar("P")


@attrs.frozen
class Provided:
    """One provider and the plugin it came from."""

    plugin: str
    role: Role[Any]
    name: str
    provider: Any


@attrs.frozen
class DeclaredKeys:
    """Keys of profiles that a plugin declared; `lost` is the reason why nothing will act on them, or None."""

    plugin: str
    cls: type[Any]
    lost: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the keys as the settings spell them."""
        return tuple(key_name(attribute) for attribute in attrs.fields(self.cls))


class RegistryBuilder:
    """Collects the providers of one plugin after another; a plugin joins with all of its providers or none."""

    def __init__(self) -> None:
        self._provided: dict[str, dict[str, Provided]] = {role.hook: {} for role in roles.ROLES}

    def add(self, offered: Sequence[Provided]) -> None:
        """Take the providers of a plugin; raises `PluginFailed` on a name that is taken."""
        joined = {hook: dict(known) for hook, known in self._provided.items()}
        for one in offered:
            known = joined[one.role.hook].setdefault(one.name.casefold(), one)
            if known is not one:
                raise PluginFailed(f"the {one.role.title} {one.name} is already provided by the plugin {known.plugin}")
        self._provided = joined

    def build(
        self,
        rows: Sequence[PluginRow],
        keys: Sequence[DeclaredKeys],
        banner_rows: Sequence[BannerRow],
        blocks: Mapping[str, type[Any]],
        unchecked: str | None,
    ) -> Registry:
        """Freeze what was collected."""
        return Registry(self._provided, tuple(rows), tuple(keys), tuple(banner_rows), blocks, unchecked)


@attrs.frozen
class Registry:
    """Every provider by role and name; names match without regard to case (CFG-04).

    `unchecked` is set when a plugin was lost that checks or approves files, or may have done so for all that is known
    of it, and it cannot be told which profiles rely on it: then no profile may sign.
    """

    _provided: Mapping[str, Mapping[str, Provided]]
    rows: tuple[PluginRow, ...]
    profile_keys: tuple[DeclaredKeys, ...]
    banner_rows: tuple[BannerRow, ...]
    _blocks: Mapping[str, type[Any]]
    unchecked: str | None

    def certificate_source(self, name: str) -> CertificateSource:
        """Return a certificate source; raises `PermanentFailure` with the way to get it."""
        return self._find(roles.CERTIFICATE_SOURCE, name)

    def signing_method(self, name: str) -> SigningMethod:
        """Return a signing method; raises `PermanentFailure` with the way to get it."""
        return self._find(roles.SIGNING_METHOD, name)

    def storage_provider(self, name: str) -> StorageProvider:
        """Return a storage provider; raises `PermanentFailure` with the way to get it."""
        return self._find(roles.STORAGE_PROVIDER, name)

    @property
    def validators(self) -> tuple[FileValidator, ...]:
        """Return the file validators in the order of their plugins."""
        return self._all(roles.FILE_VALIDATOR)

    @property
    def approval_rules(self) -> tuple[ApprovalRule, ...]:
        """Return the approval rules in the order of their plugins."""
        return self._all(roles.APPROVAL_RULE)

    @property
    def intake_sources(self) -> tuple[IntakeSource, ...]:
        """Return the intake sources in the order of their plugins."""
        return self._all(roles.INTAKE_SOURCE)

    @property
    def readiness_checks(self) -> tuple[ReadinessCheck, ...]:
        """Return the readiness checks in the order of their plugins."""
        return self._all(roles.READINESS_CHECK)

    @property
    def signing_plugins(self) -> frozenset[str]:
        """Name the plugins that a signing worker process must load (PERF-06)."""
        hooks = {role.hook for role in roles.SIGNING_ROLES}
        return frozenset(one.plugin for one in self._each() if one.role.hook in hooks)

    @property
    def out_of_use(self) -> tuple[str, ...]:
        """Say of each plugin that is installed and not loaded why: one of them may be what is missed."""
        return tuple(f"{row.name} is {row.state.value}: {row.reason}" for row in self.rows if row.reason)

    def hand_notes(self, notes_of: Callable[[str], Notes]) -> None:
        """Give each provider that keeps notes those of its plugin; raises `PermanentFailure` where one breaks."""
        for one in self._each():
            if isinstance(one.provider, KeepsNotes):
                with self.guard(one.provider):
                    one.provider.take_notes(notes_of(one.plugin))

    def block_of(self, source: str) -> type[Any] | None:
        """Return the class of a source's certificate block; None where its plugin declared none."""
        return self._blocks.get(source.casefold())

    def names(self, role: Role[Any]) -> tuple[str, ...]:
        """List the names that a role can be chosen by."""
        return tuple(one.name for one in self._provided[role.hook].values())

    def guard(self, provider: object, *, passing: tuple[type[Exception], ...] = ()) -> AbstractContextManager[None]:
        """Guard a call of a provider that this registry handed out."""
        plugin, title = self._origin(provider)
        return guarded(plugin, title, passing=passing)

    def describe(self, provider: object) -> str:
        """Name a provider and its plugin for an error's text."""
        plugin, title = self._origin(provider)
        return f"{title} of the plugin {plugin}"

    def unmet(self, extras: Mapping[str, object]) -> str | None:
        """Say why the keys that a profile sets beyond the core's own cannot be honoured, or None.

        A key asks for something unless its value is false or absent. Fails closed: a key that no loaded plugin
        declares stands for a check that would not be made.
        """
        declared = {name.casefold(): keys for keys in self.profile_keys for name in keys.names}
        for path, value in extras.items():
            if value is None or value is False:
                continue
            key = path.partition(":")[0]
            keys = declared.get(key.casefold())
            if keys is None:
                return f"the profile sets {key}, which no loaded plugin knows.{list_out_of_use(self.out_of_use)}"
            if keys.lost is not None:
                return f"the profile sets {key}, and the plugin {keys.plugin} does not work: {keys.lost}"
        return self.unchecked

    def _origin(self, provider: object) -> tuple[str, str]:
        for one in self._each():
            if one.provider is provider:
                return one.plugin, f"{one.role.title} {one.name}"
        return "unknown", type(provider).__name__

    def _each(self) -> Iterator[Provided]:
        for known in self._provided.values():
            yield from known.values()

    def _all(self, role: Role[P]) -> tuple[P, ...]:
        return tuple(one.provider for one in self._provided[role.hook].values())

    def _find(self, role: Role[P], name: str) -> P:
        found = self._provided[role.hook].get(name.casefold())
        if found is None:
            advice = explain_absent(name, self.names(role), self.out_of_use)
            raise PermanentFailure(f"No loaded plugin provides the {role.title} {name}. {advice}")
        provider: P = found.provider
        return provider
