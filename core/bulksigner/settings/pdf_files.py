"""What settings say of PDF files that arrive (CFG-200, CFG-201, BEY-11)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from bulksigner.contract.settings import Check, Secret, option

__all__ = ["MOST_PASSWORDS", "PdfFileChoice", "PdfSettings"]

MOST_PASSWORDS = 16
"""Each is tried on every file that needs one, which costs time."""


@attrs.frozen
class PdfFileChoice:
    """`Signing:Profiles[]:Pdf`."""

    passwords: tuple[Secret, ...] = option(
        (),
        help="Passwords of PDF files that do not open without one, tried in this order, as the user's and as the "
        "owner's; the signed file stays encrypted as it was. Stored sealed. `Pades` only.",
        check=Check(
            lambda found: len(found) <= MOST_PASSWORDS and all(found), f"up to {MOST_PASSWORDS}, none of them empty"
        ),
        is_seed=True,
    )


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
