"""The readiness row on tokens in use."""

from __future__ import annotations

import attrs

from bulksigner.contract.observe import ReadinessRow
from bulksigner_pkcs11.source import Pkcs11Source

__all__ = ["TokensCheck"]


@attrs.frozen
class TokensCheck:
    """Tells how the last signature on each token went; it asks no token, which may be busy or hang."""

    source: Pkcs11Source
    name: str = "tokens"
    gating: bool = False

    def run(self) -> ReadinessRow:
        """Look at the open keys and answer."""
        keys = self.source.open_keys()
        faults = sorted({f"{key.place}: {key.fault}" for key in keys if key.fault is not None})
        if faults:
            return ReadinessRow(self.name, False, self.gating, "; ".join(faults))
        places = sorted({key.place for key in keys})
        return ReadinessRow(self.name, True, self.gating, f"in use: {', '.join(places)}" if places else "none in use")
