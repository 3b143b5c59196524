"""What settings say of receipts (CFG-199)."""

from __future__ import annotations

import attrs

from bulksigner.contract.settings import option

__all__ = ["ReceiptSettings"]


@attrs.frozen
class ReceiptSettings:
    """`Receipts`."""

    enabled: bool = option(
        False,
        help="Write a signed receipt beside each output: what came in, what left, who signed, and the SHA-256 of the "
        "receipt before. One more use of the key for each file.",
    )
