"""Plugins made of functions, offered the way an entry point offers a module."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

from bulksigner.contract.hookspecs import hookimpl
from bulksigner.plugin_system.manager import PluginSet, discover


@attrs.define
class Offered:
    """An entry point whose import is a call."""

    name: str
    importing: Callable[[], Any]
    value: str = "a_plugin.plugin"
    was_imported: bool = False

    def load(self) -> Any:
        self.was_imported = True
        return self.importing()


def make_plugin(name: str, *hooks: Callable[..., Any]) -> Offered:
    """Offer a module with these functions as its hooks."""
    module = types.ModuleType(f"a_plugin_{name}")
    for hook in hooks:
        setattr(module, hook.__name__, hookimpl(hook))
    return Offered(name, lambda: module)


@pytest.fixture(scope="session")
def plugin() -> Callable[..., Offered]:
    """Make a plugin of hooks, or of whatever `importing` gives."""

    def make(name: str, *hooks: Callable[..., Any], importing: Callable[[], Any] | None = None) -> Offered:
        return Offered(name, importing) if importing is not None else make_plugin(name, *hooks)

    return make


@pytest.fixture(scope="session")
def load() -> Callable[..., PluginSet]:
    """Discover exactly these plugins, without any built-in unless given."""

    def discover_these(*offered: Offered, disabled: Sequence[str] = (), **options: Any) -> PluginSet:
        options.setdefault("builtins", ())
        return discover(disabled, entry_points=offered, **options)

    return discover_these
