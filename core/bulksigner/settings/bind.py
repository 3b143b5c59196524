"""From a tree to typed classes; every failure is collected, none is raised (CFG-08, CFG-11, CFG-14)."""

from __future__ import annotations

import datetime
import difflib
import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import attrs

from bulksigner.contract.settings import Secret
from bulksigner.settings.choices import SOURCES, canonical
from bulksigner.settings.findings import Findings
from bulksigner.settings.grammar import Unreadable, name_type, parse_scalar, quote, write_time_span
from bulksigner.settings.shapes import Kind, Member, members_of
from bulksigner.settings.signing import CertificateChoice, ProfileSeed
from bulksigner.settings.tree import Branch, Leaf, Node, grow, is_index, is_present, show_path, walk

__all__ = ["Binder", "Plain", "structure_block", "unstructure_block", "warn_unknown"]

T = TypeVar("T")
Plain = str | int | bool | list[Any] | None
_Path = tuple[str, ...]


@attrs.frozen
class Binder:
    """Binds classes of settings; `blocks` are the certificate blocks by source, `extras` further keys of profiles."""

    findings: Findings
    blocks: Mapping[str, type[Any]] = attrs.Factory(dict)
    extras: Sequence[type[Any]] = ()

    def bind(self, cls: type[T], node: Node | None, path: _Path, also_known: Collection[str] = ()) -> T:
        """Bind one section; what fails is recorded and stands in with its default.

        Children in `also_known` belong to somebody else; all other unknown ones are warned of.
        """
        branch = self._expect_branch(node, path)
        members = members_of(cls)
        names = {member.key.casefold() for member in members} | {name.casefold() for name in also_known}
        warn_unknown(branch, path, names, [member.key for member in members], self.findings)
        values = {member.name: self._bind_member(member, branch, (*path, member.key)) for member in members}
        return cls(**values)

    def _bind_member(self, member: Member, branch: Branch, path: _Path) -> Any:
        node = branch.child(member.key)
        absent = node is None or (isinstance(node, Leaf) and node.value is None)
        if member.kind is Kind.SECTION:
            if member.optional and not is_present(node):
                return member.make_default() if not member.option.required else None
            return self._bind_nested(member.item, node, path)
        if absent:
            if member.option.required:
                remedy = f"Set it to {_expected(member)}."
                self.findings.refuse(show_path(path), "is missing.", remedy)
                return _stand_in(member)
            return member.make_default()
        if member.kind is Kind.SCALAR:
            return self._bind_scalar(member, node, path)
        if member.kind is Kind.NAMED_SCALARS:
            inner = self._expect_branch(node, path)
            named = {
                spelled: self._bind_scalar(member, child, (*path, spelled))
                for spelled, child in inner.children.values()
                if is_present(child)
            }
            return MappingProxyType(named)
        items = tuple(self._expect_items(node, path))
        if member.kind is Kind.SECTIONS:
            return tuple(self._bind_nested(member.item, item, (*path, index)) for index, item in items)
        bound = tuple(self._bind_scalar(member, item, (*path, index), check=False) for index, item in items)
        if member.option.check is not None and not member.option.check.accepts(bound):
            self._refuse_value(member, None, path, node)
        return bound

    def _bind_nested(self, cls: type[Any], node: Node | None, path: _Path) -> Any:
        if cls is CertificateChoice:
            return self._bind_certificate(node, path)
        return self.bind_profile(node, path) if cls is ProfileSeed else self.bind(cls, node, path)

    def bind_profile(self, node: Node | None, path: _Path) -> ProfileSeed:
        """Bind a profile together with the keys that plugins declared for it."""
        own = {member.key for member in members_of(ProfileSeed)}
        foreign = {member.key for extra in self.extras for member in members_of(extra)}
        seed = self.bind(ProfileSeed, node, path, foreign)
        extras = {extra: self.bind(extra, node, path, own | foreign) for extra in self.extras}
        return attrs.evolve(seed, method=canonical(seed.method), extras=MappingProxyType(extras))

    def _bind_certificate(self, node: Node | None, path: _Path) -> CertificateChoice:
        choice = self.bind(CertificateChoice, node, path, {*self.blocks, *SOURCES})
        source = canonical(choice.source, self.blocks)
        cls = self.blocks.get(source)
        if cls is None or not isinstance(node, Branch):
            return attrs.evolve(choice, source=source)
        return attrs.evolve(choice, source=source, block=self.bind(cls, node.child(source), (*path, source)))

    def _bind_scalar(self, member: Member, node: Node | None, path: _Path, *, check: bool = True) -> Any:
        if not isinstance(node, Leaf):
            origin = node.origin if node is not None else ""
            self.findings.refuse(
                show_path(path), "holds keys where one value belongs.", f"Give {_expected(member)}.", origin
            )
            return _stand_in(member)
        if node.value == "" and member.optional and member.item is not str:
            return None
        try:
            value = parse_scalar(node.value, member.item)
        except Unreadable as error:
            shown = "is not readable" if member.is_secret else f"is {_show_given(node.value)}"
            expected = error.expected + (f", {member.option.check.expected}" if member.option.check else "")
            self.findings.refuse(show_path(path), f"{shown}.", f"Give {expected}.", node.origin)
            return _stand_in(member)
        if isinstance(value, Secret):
            self.findings.keep_secret(value)
        refused = check and member.option.check is not None and not member.option.check.accepts(value)
        if refused and not _says_none(member, value):
            self._refuse_value(member, node.value, path, node)
        return value

    def _refuse_value(self, member: Member, value: Any, path: _Path, node: Node | None) -> None:
        if member.is_secret:
            problem = "is too short or not of the right form (not shown)."
        elif value is None:
            problem = "holds an entry that does not fit."
        else:
            problem = f"is {_show_given(value)}."
        origin = node.origin if node is not None else ""
        self.findings.refuse(show_path(path), problem, f"Give {_expected(member)}.", origin)

    def _expect_branch(self, node: Node | None, path: _Path) -> Branch:
        if isinstance(node, Leaf) and node.value is not None:
            self.findings.refuse(
                show_path(path), "holds one value where keys belong.", "Set the keys below it.", node.origin
            )
        elif isinstance(node, Branch) and node.is_list:
            self.findings.refuse(show_path(path), "holds a list where keys belong.", "Name the keys.", node.origin)
        return node if isinstance(node, Branch) else Branch()

    def _expect_items(self, node: Node | None, path: _Path) -> Iterator[tuple[str, Node]]:
        key = show_path(path)
        if isinstance(node, Leaf):
            self.findings.refuse(
                key,
                "is one value where a list belongs.",
                f"Write a list, or number the entries: {key}[0].",
                node.origin,
            )
        if not isinstance(node, Branch):
            return
        strange = [spelled for spelled, _ in node.children.values() if not is_index(spelled)]
        if strange:
            self.findings.refuse(
                show_path((*path, strange[0])), "is not an index of the list.", "Count from 0.", node.origin
            )
        indices = sorted(int(name) for name in node.children if is_index(name))
        for expected, index in enumerate(indices):
            if index != expected:
                # The index is positional: a gap is more often a forgotten entry than a wish (CFG-05).
                problem = f"is missing, while [{index}] is given."
                self.findings.refuse(f"{key}[{expected}]", problem, "Number the entries from 0 without a gap.")
                break
        for index in indices:
            yield str(index), node.children[str(index)][1]


def warn_unknown(
    branch: Branch, path: _Path, known: Collection[str], suggest: Sequence[str], findings: Findings
) -> None:
    """Warn of every value below a child that is not in `known` (case-folded), naming the nearest of `suggest`."""
    if branch.is_list:
        return
    for folded, (spelled, child) in branch.children.items():
        if folded in known or not is_present(child):
            continue
        leaves = [((), child)] if isinstance(child, Leaf) else walk(child)
        nearest = difflib.get_close_matches(folded, [name.casefold() for name in suggest], n=1, cutoff=0.5)
        match = next((name for name in suggest if nearest and name.casefold() == nearest[0]), None)
        hint = f"; the nearest known key is {show_path((*path, match))}" if match is not None else ""
        for below, leaf in leaves:
            if leaf.value is not None:
                key = show_path((*path, spelled, *below))
                findings.meet_unknown(key, leaf.origin, hint)


def _show_given(value: Any) -> str:
    return f"{type(value).__name__} {quote(value)}" if isinstance(value, bool | float) else quote(value)


def _expected(member: Member) -> str:
    rule = member.option.check.expected if member.option.check is not None else ""
    if member.kind in (Kind.SECTIONS, Kind.SCALARS):
        return f"a list: {rule}" if rule else "a list"
    kind = name_type(member.item)
    return f"{kind}, {rule}" if rule else kind


def _says_none(member: Member, value: Any) -> bool:
    """Tell whether an empty text was given where having none is allowed (CFG-11)."""
    return not member.option.required and not value and value == member.make_default()


def _stand_in(member: Member) -> Any:
    """Return something of the declared type, so that later rules can still look for failures of their own."""
    if not member.option.required:
        return member.make_default()
    if member.optional:
        return None
    if member.kind is not Kind.SCALAR:
        return ()
    if issubclass(member.item, enum.Enum):
        return next(iter(member.item))
    blanks: dict[type[Any], Callable[[], Any]] = {Secret: lambda: Secret("")}
    return blanks.get(member.item, member.item)()


def unstructure_block(block: object) -> tuple[dict[str, Plain], dict[str, Secret]]:
    """Split a block into plain values fit for JSON, and its secrets; keys of nested classes are joined by `:`."""
    plain: dict[str, Plain] = {}
    secrets: dict[str, Secret] = {}
    _unstructure(block, "", plain, secrets)
    return plain, secrets


def _unstructure(block: object, prefix: str, plain: dict[str, Plain], secrets: dict[str, Secret]) -> None:
    for member in members_of(type(block)):
        value = getattr(block, member.name)
        key = prefix + member.key
        if isinstance(value, Secret):
            secrets[key] = value
        elif value is None:
            # A null would inherit the default when it is read again (CFG-11).
            plain[key] = None if member.option.required or member.make_default() is None else ""
        elif member.kind is Kind.SECTION:
            _unstructure(value, f"{key}:", plain, secrets)
        elif member.kind is Kind.SECTIONS:
            if not value:
                plain[key] = []
            for index, item in enumerate(value):
                _unstructure(item, f"{key}:{index}:", plain, secrets)
        elif member.kind is Kind.NAMED_SCALARS:
            plain.update({f"{key}:{name}": _write_scalar(item) for name, item in value.items()})
        elif member.item is Secret:
            secrets.update({f"{key}:{index}": item for index, item in enumerate(value)})
        else:
            plain[key] = [_write_scalar(item) for item in value] if isinstance(value, tuple) else _write_scalar(value)


def _write_scalar(value: Any) -> str | int | bool:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, datetime.timedelta):
        return write_time_span(value)
    return str(value) if isinstance(value, Path | datetime.date) else value


def structure_block(cls: type[T], plain: Mapping[str, Any], secrets: Mapping[str, Secret]) -> T:
    """Bind what `unstructure_block` gave; raises `ConfigurationRefused` when it no longer fits the class."""
    tree = Branch()
    for key, value in plain.items():
        tree.insert(key.split(":"), grow(value, "the stored profile"))
    for key, secret in secrets.items():
        tree.insert(key.split(":"), Leaf(secret.reveal(), "the stored profile"))
    findings = Findings()
    bound = Binder(findings).bind(cls, tree, ())
    findings.raise_failures()
    return bound
