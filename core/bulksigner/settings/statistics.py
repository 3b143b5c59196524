"""What settings say of the figures that are kept of completed jobs."""

from __future__ import annotations

import attrs

from bulksigner.contract.settings import option

__all__ = ["StatisticsSettings"]


@attrs.frozen
class StatisticsSettings:
    """`Statistics`."""

    enabled: bool = option(True, help="Keep what the stages of each completed job took, and show figures of it.")
