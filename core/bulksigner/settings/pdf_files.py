"""What settings say of PDF files that arrive (CFG-200, CFG-201)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from bulksigner.contract.settings import option

__all__ = ["PdfSettings"]


@attrs.frozen
class PdfSettings:
    """`Pdf`."""

    repair_unsigned: bool = option(
        False,
        help="Take junk off the beginning of PDF files, and make a broken cross-reference anew, where a file has no "
        "signature yet and its profile has signed files checked.",
    )
    ignore_owner_restrictions: bool = option(
        False, help="Sign PDF files that open without a password although their owner forbids changes to them."
    )

    @property
    def options(self) -> Mapping[str, str]:
        """Return the options of a request to sign that say the same."""
        return {name: "true" for name, is_on in attrs.asdict(self).items() if is_on}
