"""Parsed settings before they have types: one tree for each source, merged per leaf (CFG-01, CFG-10).

Lists are branches whose keys are `0`, `1`, …: a file's list and the indexed variables of the environment then merge
by the same rule (CFG-05).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

__all__ = [
    "Branch",
    "Duplicate",
    "Leaf",
    "Node",
    "grow",
    "is_index",
    "is_present",
    "merge",
    "prune",
    "show_path",
    "walk",
]

_INDEX = re.compile(r"0|[1-9][0-9]{0,5}")


class Duplicate(Exception):
    """One source spells the same key twice; `path` is the key, `origins` where each spelling stands."""

    def __init__(self, path: Sequence[str], origins: Sequence[str]) -> None:
        super().__init__(show_path(path))
        self.path = tuple(path)
        self.origins = tuple(origins)


@attrs.frozen
class Leaf:
    """A value as its source gave it, and where that is: a file path, or `variable <name>`."""

    value: Any
    origin: str


@attrs.define
class Branch:
    """Children by case-folded key, each with the spelling that was met first (CFG-04)."""

    children: dict[str, tuple[str, Node]] = attrs.Factory(dict)
    is_list: bool = False
    origin: str = ""

    def child(self, key: str) -> Node | None:
        """Return the child of that name, whatever its spelling, or None."""
        found = self.children.get(key.casefold())
        return None if found is None else found[1]

    def at(self, path: Sequence[str]) -> Node | None:
        """Return what stands at `path`, or None."""
        node: Node | None = self
        for segment in path:
            node = node.child(segment) if isinstance(node, Branch) else None
        return node

    def insert(self, path: Sequence[str], node: Node, above: tuple[str, ...] = ()) -> None:
        """Put a node at `path`, making the branches in between; raises `Duplicate` where the place is taken.

        `above` is the path of this branch itself, for the exception.
        """
        branch = self
        for depth, segment in enumerate(path[:-1], start=1):
            _, inner = branch.children.setdefault(segment.casefold(), (segment, Branch(origin=node.origin)))
            if isinstance(inner, Leaf):
                raise Duplicate((*above, *path[:depth]), (inner.origin, node.origin))
            branch = inner
        taken = branch.child(path[-1])
        if isinstance(taken, Branch) and isinstance(node, Branch) and not (taken.is_list or node.is_list):
            for spelled, child in node.children.values():
                taken.insert((spelled,), child, (*above, *path))
            return
        if taken is not None:
            raise Duplicate((*above, *path), (taken.origin, node.origin))
        branch.children[path[-1].casefold()] = (path[-1], node)


Node = Leaf | Branch


def is_index(segment: str) -> bool:
    """Tell whether a key segment is a list index: decimal, without leading zeros."""
    return _INDEX.fullmatch(segment) is not None


def show_path(path: Sequence[str]) -> str:
    """Render a path as people write it: `Storage:Inputs[0]:Name`."""
    shown = ""
    for segment in path:
        shown += f"[{segment}]" if is_index(segment) and shown else f":{segment}" if shown else segment
    return shown


def grow(parsed: Any, origin: str, path: tuple[str, ...] = ()) -> Node:
    """Turn what a parser returned into a tree.

    A key with `:` in it stands for the path it spells, as in the files this product migrates from. Raises `Duplicate`
    for two spellings of one key.
    """
    if isinstance(parsed, dict):
        branch = Branch(origin=origin)
        for key, value in parsed.items():
            segments = str(key).split(":")
            branch.insert(segments, grow(value, origin, (*path, *segments)), path)
        return branch
    if isinstance(parsed, list):
        items = {str(index): (str(index), grow(item, origin, (*path, str(index)))) for index, item in enumerate(parsed)}
        return Branch(items, is_list=True, origin=origin)
    return Leaf(parsed, origin)


def merge(under: Branch, over: Branch, on_list: Callable[[tuple[str, ...], Branch, Branch], None]) -> Branch:
    """Lay one tree over another, leaf by leaf; a null inherits (CFG-11).

    `on_list` is told of every list to which both contribute.
    """
    return _merge(under, over, (), on_list)


def _merge(
    under: Branch,
    over: Branch,
    path: tuple[str, ...],
    on_list: Callable[[tuple[str, ...], Branch, Branch], None],
) -> Branch:
    if under.is_list and over.is_list and under.children and over.children:
        on_list(path, under, over)
    children = dict(under.children)
    for key, (spelled, node) in over.children.items():
        below = children.get(key)
        if below is None:
            children[key] = (spelled, node)
        elif isinstance(node, Branch) and isinstance(below[1], Branch):
            children[key] = (below[0], _merge(below[1], node, (*path, below[0]), on_list))
        elif is_present(node) or (isinstance(node, Branch) and isinstance(below[1], Leaf)):
            children[key] = (below[0], node)
    return Branch(children, is_list=under.is_list or over.is_list, origin=over.origin or under.origin)


def is_present(node: Node | None) -> bool:
    """Tell whether at least one leaf at or below the node is not null (CFG-11)."""
    if isinstance(node, Leaf):
        return node.value is not None
    return node is not None and any(is_present(child) for _, child in node.children.values())


def walk(branch: Branch, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """Yield every leaf with its path, in the order of the sources."""
    for spelled, node in branch.children.values():
        here = (*path, spelled)
        if isinstance(node, Leaf):
            yield here, node
        else:
            yield from walk(node, here)


def prune(branch: Branch, drops: Callable[[tuple[str, ...], Leaf], bool], path: tuple[str, ...] = ()) -> Branch:
    """Copy the tree without the leaves for which `drops` says yes, and without the mappings that this empties."""
    kept: dict[str, tuple[str, Node]] = {}
    for key, (spelled, node) in branch.children.items():
        here = (*path, spelled)
        if isinstance(node, Leaf):
            if not drops(here, node):
                kept[key] = (spelled, node)
            continue
        smaller = prune(node, drops, here)
        if smaller.children or not node.children or branch.is_list:
            kept[key] = (spelled, smaller)
    return Branch(kept, is_list=branch.is_list, origin=branch.origin)
