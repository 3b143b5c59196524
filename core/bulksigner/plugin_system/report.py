"""What became of each plugin: rows for the command line, the banner and the System page."""

from __future__ import annotations

import enum

import attrs

__all__ = ["PluginRow", "PluginState"]


class PluginState(enum.Enum):
    """How the loading of a plugin ended."""

    LOADED = "loaded"
    FAILED = "failed"
    DISABLED = "disabled"
    BLOCKED = "blocked"
    """The plugin is sound and lacks something of this host; the reason names it."""


@attrs.frozen
class PluginRow:
    """One plugin; `reason` is set unless it is loaded, `provides` lists its providers as `role name`."""

    name: str
    distribution: str
    version: str
    state: PluginState
    reason: str = ""
    provides: tuple[str, ...] = ()

    @property
    def is_lost(self) -> bool:
        """Tell whether the plugin was wanted and does not work."""
        return self.state in (PluginState.FAILED, PluginState.BLOCKED)
