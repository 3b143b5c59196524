"""What settings say of PDF files that arrive (CFG-201)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from bulksigner.contract.settings import option

__all__ = ["PdfSettings"]


@attrs.frozen
class PdfSettings:
    """`Pdf`."""

    ignore_owner_restrictions: bool = option(
        False, help="Sign PDF files that open without a password although their owner forbids changes to them."
    )

    @property
    def options(self) -> Mapping[str, str]:
        """Return the options of a request to sign that say the same."""
        return {"ignore_owner_restrictions": "true"} if self.ignore_owner_restrictions else {}
