"""`bulksigner plugins` and `bulksigner version`."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

from bulksigner.boot import lay_foundation, product_version
from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.plugin_system.manager import PluginSet, discover
from bulksigner.settings.variables import HostVariables

__all__ = ["show_plugins", "show_version"]

EXIT_CHECK_FAILED = 1


def show_version() -> int:
    """Print the full version and the plugins found (OPS-204)."""
    print(f"bulksigner {product_version()} (Python {platform.python_version()})")
    for row in _discovered().rows:
        print(f"  {row.name} {row.version} ({row.state.value})")
    return 0


def show_plugins() -> int:
    """Print what is loaded, failed, blocked or switched off; exit 1 when a plugin failed (OPS-241)."""
    scrub: Callable[[str], str] = str
    try:
        foundation = lay_foundation(os.environ)
        plugins, scrub = foundation.plugins, foundation.scrubber.scrub
    except ConfigurationRefused as error:
        # Providers are asked for with settings; without acceptable ones only loading itself can be told.
        print(f"The settings were refused ({len(error.failures)} key(s)); shown is what loads without them.")
        plugins = _discovered()
    rows = plugins.rows
    name_width = max(len(row.name) for row in rows)
    for row in rows:
        provides = ", ".join(row.provides)
        print(f"{row.state.value:<8}  {row.name:<{name_width}}  {row.distribution} {row.version}  {provides}".rstrip())
        if row.reason:
            print(scrub(f"{'':<8}  {'':<{name_width}}  {row.advice}"))
    for line in plugins.warnings:
        print(scrub(f"WARN  {line}"))
    return EXIT_CHECK_FAILED if any(row.is_lost for row in rows) else 0


def _discovered() -> PluginSet:
    return discover(sorted(HostVariables.read(os.environ).disabled_plugins))
