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
    stops_signing: bool = False
    """The plugin is lost and checks or approves files, or may do so for all that is known of it."""

    @property
    def is_lost(self) -> bool:
        """Tell whether the plugin was wanted and does not work."""
        return self.state in (PluginState.FAILED, PluginState.BLOCKED)

    @property
    def advice(self) -> str:
        """Say what is wrong, and the way out where the loss stops signing."""
        if not self.stops_signing:
            return self.reason
        way_out = "Mend it, uninstall it, or list it in BULK_SIGNER_DISABLED_PLUGINS to sign without it."
        return f"{self.reason.rstrip('.')}. {way_out}"
