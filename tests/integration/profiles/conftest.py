"""Editors on stores of either engine."""

from __future__ import annotations

import datetime
import types
from collections.abc import Callable
from typing import Any

import pytest

from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.settings import Secret
from bulksigner.plugin_system.manager import discover
from bulksigner.profiles.editor import ProfileEditor
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.store import Store
from bulksigner.settings.schema import CollectedSchema


class Source:
    """A certificate source that declares no block; nothing is opened here."""

    name = "Pfx"
    concurrent = True
    portable = True

    def locator(self, block: object) -> str:
        raise NotImplementedError

    def open(self, block: object) -> Any:
        raise NotImplementedError


@pytest.fixture
def editor_of() -> Callable[[Store], ProfileEditor]:
    """Make an editor of a host with the folders `in` and `out` and a source `Pfx`."""
    module = types.ModuleType("fake_pfx")

    @hookimpl
    def bulksigner_certificate_sources(settings: Any) -> Any:
        return [Source()]

    module.bulksigner_certificate_sources = bulksigner_certificate_sources  # type: ignore[attr-defined]
    entry_point = types.SimpleNamespace(name="local_pfx", value="fake_pfx.plugin", load=lambda: module)
    plugins = discover(entry_points=[entry_point])
    plugins.add_settings(CollectedSchema())
    registry = plugins.providers({})  # type: ignore[arg-type]

    def make(store: Store) -> ProfileEditor:
        sealer = Sealer(Secret(""), lambda: b"")
        return ProfileEditor(ProfileStore(store), registry, sealer, {"in", "out"}, _now, _forget)

    return make


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _forget(_: Any) -> None:
    """Stand in for redaction."""
