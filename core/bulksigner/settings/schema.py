"""Every key there is: the core's own sections, and what plugins declare (CFG-16)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import attrs

from bulksigner.contract.codes import CODES, ErrorCode
from bulksigner.contract.errors import PluginFailed
from bulksigner.contract.settings import Settings
from bulksigner.settings.bind import Binder
from bulksigner.settings.findings import Findings
from bulksigner.settings.model import CoreSettings
from bulksigner.settings.shapes import Kind, Member, members_of
from bulksigner.settings.signing import CertificateChoice, ProfileSeed
from bulksigner.settings.tree import Branch, Leaf, is_index, is_present, prune

__all__ = ["BoundSettings", "CollectedSchema", "KeyRow"]

ANY_INDEX = "[]"
ANY_NAME = "<name>"
T = TypeVar("T")


@attrs.frozen
class KeyRow:
    """One key of the schema; the segments `[]` and `<name>` stand for any index and any name."""

    segments: tuple[str, ...]
    member: Member

    @property
    def path(self) -> str:
        """Return the key as the documentation spells it: `Storage:Inputs[]:Name`."""
        return ":".join(self.segments).replace(f":{ANY_INDEX}", ANY_INDEX)

    @property
    def variable(self) -> str | None:
        """Return the name of the environment variable, with 0 for an index, or None where there is none (CFG-05)."""
        if not self.member.option.in_environment:
            return None
        indexed = (*self.segments, ANY_INDEX) if self.member.kind is Kind.SCALARS else self.segments
        return "__".join("0" if segment == ANY_INDEX else segment for segment in indexed)

    def matches(self, path: Sequence[str]) -> bool:
        """Tell whether a concrete path is this key, or an entry of its list."""
        own = (*self.segments, ANY_INDEX) if self.member.kind is Kind.SCALARS else self.segments
        if len(path) != len(own) and len(path) != len(self.segments):
            return False
        return all(
            is_index(segment) if wanted == ANY_INDEX else wanted in (ANY_NAME, segment) or _same(wanted, segment)
            for wanted, segment in zip(own, path, strict=False)
        )


@attrs.frozen
class BoundSettings(Settings):
    """The sections of plugins, by class; it travels to worker processes, so it holds a plain mapping."""

    values: Mapping[type[Any], Any] = attrs.Factory(dict)

    def __getitem__(self, section: type[T]) -> T:
        return self.values[section]  # type: ignore[no-any-return]

    def __contains__(self, section: object) -> bool:
        return section in self.values

    def __iter__(self) -> Iterator[type[Any]]:
        return iter(self.values)


@attrs.define
class CollectedSchema:
    """Collects declarations (contract.settings.Schema); one that collides with another raises `PluginFailed`."""

    sections: dict[str, type[Any]] = attrs.Factory(dict)
    blocks: dict[str, type[Any]] = attrs.Factory(dict)
    extras: list[type[Any]] = attrs.Factory(list)
    codes: dict[str, ErrorCode] = attrs.Factory(dict)

    def section(self, path: str, cls: type[Any]) -> None:
        """Declare a section; `path` may lie below one of the core's, such as `Storage:AzureFiles`."""
        _members(cls)
        if cls in self.sections.values():
            raise PluginFailed(f"The class {cls.__qualname__} is declared for two sections.")
        self._refuse_collision(path)
        self.sections[path] = cls

    def certificate_block(self, source: str, cls: type[Any]) -> None:
        """Declare the block of a certificate source; one class belongs to one source."""
        _members(cls)
        if any(_same(source, other) for other in (*self.blocks, "Source")) or cls in self.blocks.values():
            raise PluginFailed(f"The certificate block {source} ({cls.__qualname__}) is declared already.")
        self.blocks[source] = cls

    def profile_keys(self, cls: type[Any]) -> None:
        """Declare further keys of `Signing:Profiles[]`."""
        taken = {member.key.casefold() for known in (ProfileSeed, *self.extras) for member in members_of(known)}
        for member in _members(cls):
            if member.key.casefold() in taken:
                raise PluginFailed(f"The profile key {member.key} of {cls.__qualname__} is declared already.")
        self.extras.append(cls)

    def error_code(self, code: str, status: int | None, title: str) -> None:
        """Declare an error code of a plugin (API-76)."""
        if code in self.codes or code in CODES:
            raise PluginFailed(f"The error code {code} is declared already.")
        self.codes[code] = ErrorCode(code, status, title)

    def rows(self) -> Iterator[KeyRow]:
        """Yield every key, the core's first, in the order of declaration."""
        yield from _list_rows(members_of(CoreSettings), (), self.blocks, self.extras)
        for path, cls in self.sections.items():
            yield from _list_rows(members_of(cls), tuple(path.split(":")))

    def first_segments(self) -> frozenset[str]:
        """Return the case-folded names of the sections, which decide what variables are read (CFG-06)."""
        return frozenset(row.segments[0].casefold() for row in self.rows() if len(row.segments) > 1)

    def single_keys(self) -> frozenset[str]:
        """Return the case-folded names of the keys that stand in no section (CFG-06)."""
        return frozenset(row.segments[0].casefold() for row in self.rows() if len(row.segments) == 1)

    def find(self, path: Sequence[str]) -> KeyRow | None:
        """Return the key that a concrete path names, or None."""
        return next((row for row in self.rows() if row.matches(path)), None)

    def bind(self, tree: Branch, findings: Findings) -> tuple[CoreSettings, BoundSettings]:
        """Bind a whole tree; every failure and warning goes to `findings`."""
        values: dict[type[Any], Any] = {}
        for path, cls in self.sections.items():
            segments = tuple(path.split(":"))
            node = tree.at(segments)
            required = any(member.option.required for member in members_of(cls))
            values[cls] = None if required and not is_present(node) else Binder(findings).bind(cls, node, segments)
        own = prune(tree, lambda path, _: self._is_of_plugin(path))
        core = Binder(findings, self.blocks, self.extras).bind(CoreSettings, own, ())
        return core, BoundSettings(values)

    def drop_file_only(self, variables: Branch, findings: Findings) -> Branch:
        """Copy the environment's tree without the keys that only files can set, warning of each (CFG-129)."""

        def is_dropped(path: tuple[str, ...], leaf: Leaf) -> bool:
            row = self.find(path)
            if row is None or row.member.option.in_environment:
                return False
            findings.warn(f"{row.path} can be set in files only; the {leaf.origin} has no effect.")
            return True

        return prune(variables, is_dropped)

    def _is_of_plugin(self, path: Sequence[str]) -> bool:
        return any(
            all(_same(one, other) for one, other in zip(section.split(":"), path, strict=False))
            for section in self.sections
            if len(section.split(":")) <= len(path)
        )

    def _refuse_collision(self, path: str) -> None:
        segments = path.split(":")
        for known in self.rows():
            if all(_same(one, other) for one, other in zip(segments, known.segments, strict=False)):
                raise PluginFailed(f"The section {path} collides with the known key {known.path}.")


def _members(cls: type[Any]) -> tuple[Member, ...]:
    try:
        return members_of(cls)
    except TypeError as error:
        raise PluginFailed(f"A plugin declares settings that cannot be bound: {error}.") from None


def _list_rows(
    members: Sequence[Member],
    prefix: tuple[str, ...],
    blocks: Mapping[str, type[Any]] = MappingProxyType({}),
    extras: Sequence[type[Any]] = (),
) -> Iterator[KeyRow]:
    for member in members:
        path = (*prefix, member.key)
        if member.kind is Kind.SECTIONS:
            path = (*path, ANY_INDEX)
        if member.kind is Kind.NAMED_SCALARS:
            yield KeyRow((*path, ANY_NAME), member)
        elif member.kind in (Kind.SCALAR, Kind.SCALARS):
            yield KeyRow(path, member)
        else:
            yield from _list_rows(members_of(member.item), path, blocks, extras)
        if member.item is CertificateChoice:
            for source, cls in blocks.items():
                yield from _list_rows(members_of(cls), (*path, source))
        elif member.item is ProfileSeed:
            for extra in extras:
                yield from _list_rows(members_of(extra), path)


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
