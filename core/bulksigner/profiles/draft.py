"""A stored profile with a change laid over it, bound and checked like the settings it came from (CFG-81)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from bulksigner.contract.errors import PermanentFailure, join
from bulksigner.contract.settings import Secret
from bulksigner.plugin_system import roles
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles.change import Objection, ProfileChange
from bulksigner.profiles.mirror import keep_changed, read_columns, write_keys
from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.seal import PDF_PASSWORD, SECRETS_KEY, Sealer, field_of, key_of
from bulksigner.settings.bind import Binder, unstructure_block
from bulksigner.settings.choices import canonical, explain_absent
from bulksigner.settings.findings import Findings
from bulksigner.settings.grammar import quote
from bulksigner.settings.rules import SHORTEST_MASKED, check_profile
from bulksigner.settings.shapes import Kind, members_of
from bulksigner.settings.signing import CertificateChoice, ProfileSeed
from bulksigner.settings.tree import Branch, Duplicate, Leaf, Node, grow, walk

__all__ = ["Draft", "Drafter"]

_WISH, _STORED = "this change", "the stored profile"
_CERTIFICATE, _SOURCE = "Certificate", "Certificate:Source"


@attrs.frozen
class Draft:
    """A profile as it would be stored, and the new secrets by field, which are not sealed yet.

    `pdf_passwords` are all of them where the change is about one, else None.
    """

    profile: StoredProfile
    secrets: Mapping[str, Secret]
    pdf_passwords: tuple[Secret, ...] | None = None


class Drafter:
    """Lays changes over profiles; `keep_secret` is told of every secret before anything uses it (SEC-51)."""

    def __init__(
        self,
        registry: Registry,
        sealer: Sealer,
        keep_secret: Callable[[Secret], None],
        is_encryption_on: bool = False,
        has_timestamps: bool = False,
    ) -> None:
        self.registry = registry
        self.is_encryption_on = is_encryption_on
        self.has_timestamps = has_timestamps
        self.sealer = sealer
        self.keep_secret = keep_secret
        self.blocks = {
            name: block
            for name in registry.names(roles.CERTIFICATE_SOURCE)
            if (block := registry.block_of(name)) is not None
        }
        self.extras = tuple(keys.cls for keys in registry.profile_keys if keys.lost is None)

    def draft(self, before: StoredProfile, change: ProfileChange, objections: list[Objection]) -> Draft:
        """Return the profile after the change; what is wrong with it is added to `objections`.

        The certificate of a profile is bound only when the change is about it: a source whose plugin is away must not
        keep a profile from being disabled.
        """
        return _Drafting(self, before, change, objections).run()


class _Drafting:
    """One change laid over one profile."""

    def __init__(
        self, drafter: Drafter, before: StoredProfile, change: ProfileChange, objections: list[Objection]
    ) -> None:
        self._by = drafter
        self._before = before
        self._change = change
        self._objections = objections
        self._secrets = {path.casefold(): secret for path, secret in change.secrets.items()}
        self._source = self._find_source()
        self._moves_certificate = any(
            path.casefold().partition(":")[0] == _CERTIFICATE.casefold() for path in (*change.values, *change.secrets)
        )

        self._moves_passwords = any(
            f"{PDF_PASSWORD}:".casefold().startswith(f"{path}:".casefold()) or _is_pdf_password(path)
            for path in (*change.values, *change.secrets)
        )

    def run(self) -> Draft:
        tree = self._grow()
        findings = Findings()
        blocks = self._by.blocks if self._moves_certificate else {}
        seed = Binder(findings, blocks, self._by.extras).bind_profile(tree, ())
        check_profile(
            "",
            seed,
            findings,
            is_encryption_on=self._by.is_encryption_on,
            has_timestamps=self._by.has_timestamps,
        )
        for failure in findings.failures:
            self._object(failure.key, join(failure.problem, failure.remedy))
        for key, origin, hint in (*findings.unknown, *self._unknown_resets()):
            if origin == _WISH:
                self._object(key, f"is no key of a profile{hint}.")
        profile = attrs.evolve(
            self._before,
            **read_columns(seed) | {"method": self._choose_method(seed.method)},
            extras=self._choose_extras(seed),
        )
        draft = self._with_certificate(profile, seed.certificate)
        return attrs.evolve(draft, pdf_passwords=seed.pdf.passwords) if self._moves_passwords else draft

    def _object(self, key: str, text: str, code: str = "profile.invalid") -> None:
        self._objections.append(Objection(code, key, text))

    def _find_source(self) -> str:
        """Return the source whose block the change is read for, as its plugin spells it."""
        wished = next((value for path, value in self._change.values.items() if _same(path, _SOURCE)), None)
        return canonical(wished or self._before.certificate_source or CertificateChoice().source, self._by.blocks)

    def _grow(self) -> Branch:
        leaves = {path.casefold(): (path, node) for path, node in self._stored_leaves()}
        for path, node in self._wished_leaves():
            folded = path.casefold()
            for other in [other for other in leaves if f"{other}:".startswith(f"{folded}:")]:
                del leaves[other]
            if node is not None:
                leaves[folded] = (path, node)
        tree = Branch()
        for path, node in leaves.values():
            try:
                tree.insert(path.split(":"), node)
            except Duplicate as taken:
                self._object(":".join(taken.path), "holds keys below it, or is one value; it cannot be both.")
        return tree

    def _stored_leaves(self) -> Iterator[tuple[str, Node]]:
        before = self._before
        core = write_keys(before)
        declared = self._declared()
        extras = {path: value for path, value in before.extras.items() if _first(path) in declared}
        for path, value in (core | extras).items():
            yield from _flatten(path, value)
        if self._moves_passwords:
            yield from self._stored_passwords()
        if not self._moves_certificate or not _same(self._source, before.certificate_source or ""):
            return
        for path, value in before.certificate_block.items():
            yield from _flatten(f"{_CERTIFICATE}:{self._source}:{path}", value)
        for field, envelope in before.sealed.items():
            path = f"{_CERTIFICATE}:{self._source}:{key_of(field)}"
            if path.casefold() in self._secrets or self._is_taken_away(path):
                continue
            try:
                secret = Secret(self._by.sealer.open(before.id, field, envelope).decode("utf-8", "replace"))
            except PermanentFailure as error:
                # SEC-49: a save must not keep what nobody can read any more.
                self._object(path, error.message, "profile.secret-unreadable")
                continue
            self._by.keep_secret(secret)
            yield path, Leaf(secret.reveal(), _STORED)

    def _stored_passwords(self) -> Iterator[tuple[str, Node]]:
        for index, envelope in enumerate(self._before.pdf_passwords):
            path = f"{PDF_PASSWORD}:{index}"
            if path.casefold() in self._secrets or self._is_taken_away(path):
                continue
            try:
                (secret,) = self._by.sealer.open_all(self._before.id, PDF_PASSWORD, (envelope,))
            except PermanentFailure as error:
                # As of a certificate (SEC-49).
                self._object(path, error.message, "profile.secret-unreadable")
                continue
            self._by.keep_secret(secret)
            yield path, Leaf(secret.reveal(), _STORED)

    def _wished_leaves(self) -> Iterator[tuple[str, Node | None]]:
        secret_paths = {path.casefold() for source in self._by.blocks for path in self._secret_paths(source)}
        own_secrets = {path.casefold() for path in self._secret_paths(self._source)}
        for path, value in self._change.values.items():
            folded = path.casefold()
            if folded == "name":
                self._object(path, "stays as it is; make another profile instead.")
            elif value is not None and (folded in secret_paths or _is_pdf_password(path)):
                self._object(path, "is a secret, which is given by prompt, variable or file.", "profile.secret-refused")
            elif value is not None and self._is_of_other_source(folded):
                self._object(path, f"is not read while {_SOURCE} is {self._source}; set that as well.")
            else:
                yield path, None if value is None else Leaf(value, _WISH)
        for path, secret in self._change.secrets.items():
            self._by.keep_secret(secret)
            if _is_pdf_password(path):
                # Others chose it, and a short one as well; it is in no message of ours.
                yield path, Leaf(secret.reveal(), _WISH) if secret else None
                continue
            if path.casefold() not in own_secrets:
                self._object(path, f"is no secret of the source {self._source}.", "profile.secret-refused")
                continue
            if 0 < len(secret.reveal()) < SHORTEST_MASKED:
                self._object(
                    path,
                    f"is shorter than {SHORTEST_MASKED} characters, which logs cannot mask; choose a longer one.",
                    "profile.secret-refused",
                )
            yield path, Leaf(secret.reveal(), _WISH) if secret else None
        if any(self._change.secrets.values()) and not self._by.sealer.has_key:
            self._object(
                SECRETS_KEY,
                "is not set, and a secret is stored sealed with it only. Set it to 32 or more random characters, and "
                "restart the service with it.",
                "profile.secrets-key-missing",
            )

    def _unknown_resets(self) -> Iterator[tuple[str, str, str]]:
        """Yield, as `Findings` has it, what is taken back and is neither a key nor stored for a plugin that is away."""
        away = {_first(path) for path in self._before.extras}
        source = self._before.certificate_source or ""
        for path, value in self._change.values.items():
            first, _, rest = path.partition(":")
            is_of_lost_source = source not in self._by.blocks and _same(rest.partition(":")[0], source)
            if value is not None or first.casefold() in away or is_of_lost_source:
                continue
            probe, findings = Branch(), Findings()
            probe.insert(path.split(":"), Leaf("x", _WISH))
            if _same(first, _CERTIFICATE) and rest and not _same(path, _SOURCE):
                probe.insert(_SOURCE.split(":"), Leaf(self._source, _STORED))
            Binder(findings, self._by.blocks, self._by.extras).bind_profile(probe, ())
            yield from findings.unknown

    def _secret_paths(self, source: str) -> Iterator[str]:
        cls = self._by.blocks.get(source)
        if cls is not None:
            yield from (f"{_CERTIFICATE}:{source}:{path}" for path in _list_secrets(cls))

    def _is_of_other_source(self, folded: str) -> bool:
        first, _, rest = folded.partition(":")
        return first == "certificate" and rest.partition(":")[0] not in ("", "source", self._source.casefold())

    def _is_taken_away(self, path: str) -> bool:
        return any(
            value is None and f"{path}:".casefold().startswith(f"{wished}:".casefold())
            for wished, value in self._change.values.items()
        )

    def _declared(self) -> frozenset[str]:
        return frozenset(
            name.casefold() for keys in self._by.registry.profile_keys if keys.lost is None for name in keys.names
        )

    def _choose_method(self, wished: str) -> str:
        names = self._by.registry.names(roles.SIGNING_METHOD)
        method = next((name for name in names if _same(name, wished)), None)
        if method is None and not _same(wished, self._before.method):
            advice = explain_absent(wished, names, self._by.registry.out_of_use)
            self._object("Method", f"is {quote(wished)}, which nothing loaded here answers to. {advice}")
        return method or wished

    def _choose_extras(self, seed: ProfileSeed) -> dict[str, object]:
        """Return the plugins' keys; those of a plugin that is away stay until they are taken back by name."""
        declared = self._declared()
        away = {
            path: value
            for path, value in self._before.extras.items()
            if _first(path) not in declared and not self._is_taken_away(path)
        }
        kept, has_secret = keep_changed(seed.extras)
        extras = away | kept
        if has_secret:
            self._object("", "A key of a plugin holds a secret, and only certificate blocks can store secrets.")
        elif extras != self._before.extras and (unmet := self._by.registry.unmet(extras)) is not None:
            self._object("", f"The change asks for what nothing here does: {unmet}")
        return extras

    def _with_certificate(self, profile: StoredProfile, choice: CertificateChoice | None) -> Draft:
        if not self._moves_certificate:
            return Draft(profile, {})
        if choice is None:
            return Draft(attrs.evolve(profile, certificate_source=None, certificate_block={}, sealed={}), {})
        names = self._by.registry.names(roles.CERTIFICATE_SOURCE)
        if all(not _same(name, choice.source) for name in names):
            advice = explain_absent(choice.source, names, self._by.registry.out_of_use)
            self._object(_SOURCE, f"is {quote(choice.source)}, which nothing loaded here answers to. {advice}")
        plain, secrets = unstructure_block(choice.block) if choice.block is not None else ({}, {})
        kept: dict[str, bytes] = {}
        fresh: dict[str, Secret] = {}
        for key, secret in secrets.items():
            field = field_of(choice.source, key)
            if secret and f"{_CERTIFICATE}:{choice.source}:{key}".casefold() in self._secrets:
                fresh[field] = secret
            elif secret and field in self._before.sealed:
                kept[field] = self._before.sealed[field]
        moved = attrs.evolve(profile, certificate_source=choice.source, certificate_block=plain, sealed=kept)
        return Draft(moved, fresh)


def _flatten(path: str, value: object) -> Iterator[tuple[str, Node]]:
    node = grow(value, _STORED)
    if isinstance(node, Leaf) or not node.children:
        yield path, node
        return
    for below, leaf in walk(node):
        yield ":".join((path, *below)), leaf


def _list_secrets(cls: type[Any], prefix: str = "") -> Iterator[str]:
    for member in members_of(cls):
        if member.kind is Kind.SECTION:
            yield from _list_secrets(member.item, f"{prefix}{member.key}:")
        elif member.is_secret:
            yield f"{prefix}{member.key}"


def _is_pdf_password(path: str) -> bool:
    """Tell whether a path is an entry of the list, or the list given as one value."""
    return f"{path}:".casefold().startswith(f"{PDF_PASSWORD}:".casefold())


def _first(path: str) -> str:
    return path.partition(":")[0].casefold()


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
