"""What a class of settings looks like: its keys, in order, with the shape of each (contract.settings)."""

from __future__ import annotations

import datetime
import enum
import functools
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from bulksigner.contract.settings import OPTION, Option, Secret, key_name

__all__ = ["Kind", "Member", "members_of"]

_SCALARS = (bool, int, str, Secret, Path, datetime.timedelta, datetime.date)


class Kind(enum.Enum):
    """How a key is written."""

    SCALAR = enum.auto()
    SECTION = enum.auto()
    SCALARS = enum.auto()
    SECTIONS = enum.auto()
    NAMED_SCALARS = enum.auto()


@attrs.frozen
class Member:
    """One key of a class of settings; `item` is the scalar type or the nested class."""

    name: str
    key: str
    kind: Kind
    item: Any
    optional: bool
    option: Option
    default: Any

    @property
    def is_secret(self) -> bool:
        """Tell whether the value may never be shown."""
        return self.item is Secret

    def make_default(self) -> Any:
        """Return the default; only where the key has one."""
        return self.default.factory() if isinstance(self.default, attrs.Factory) else self.default  # type: ignore[arg-type]


def members_of(cls: Any) -> tuple[Member, ...]:
    """Return the keys of a class made with `option`; other attributes are left out.

    Raises `TypeError` for a class or a type that settings cannot have.
    """
    return _read_members(cls)


@functools.cache
def _read_members(cls: Any) -> tuple[Member, ...]:
    if not attrs.has(cls):
        raise TypeError(f"{cls.__qualname__} is not an attrs class")
    hints = typing.get_type_hints(cls)
    return tuple(
        _read_member(cls, attribute, hints[attribute.name])
        for attribute in attrs.fields(cls)
        if OPTION in attribute.metadata
    )


def _read_member(cls: type[Any], attribute: attrs.Attribute[Any], hint: Any) -> Member:
    parts = [part for part in typing.get_args(hint) if part is not types.NoneType]
    optional = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    if optional and len(parts) == 1 and len(typing.get_args(hint)) == 2:
        hint = parts[0]
        parts = list(typing.get_args(hint))
    origin = typing.get_origin(hint)
    kind, item = None, hint
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        item = parts[0]
        kind = Kind.SCALARS if _is_scalar(item) else Kind.SECTIONS if attrs.has(item) else None
    elif origin is Mapping and parts[0] is str and _is_scalar(parts[1]):
        kind, item = Kind.NAMED_SCALARS, parts[1]
    elif _is_scalar(hint):
        kind = Kind.SCALAR
    elif isinstance(hint, type) and attrs.has(hint):
        kind = Kind.SECTION
    if kind is None:
        raise TypeError(f"{cls.__qualname__}.{attribute.name} has the type {hint}, which settings cannot have")
    option: Option = attribute.metadata[OPTION]
    return Member(attribute.name, key_name(attribute), kind, item, optional, option, attribute.default)


def _is_scalar(kind: Any) -> bool:
    return isinstance(kind, type) and (kind in _SCALARS or issubclass(kind, enum.Enum))
