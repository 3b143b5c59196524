"""Protected PDF files: which of them can be signed as they are, their protection kept (BEY-11, ISO 32000-2 7.6).

Imported by `pdf_update` alone, as it imports pyHanko.
"""

from __future__ import annotations

from typing import Any

from pyhanko.pdf_utils.crypt import AuthStatus, StandardSecurityHandler
from pyhanko.pdf_utils.crypt.permissions import StandardPermissions

from bulksigner.formats.model import FormatRefused

__all__ = ["open_protected"]

_PLACE = "trailer, /Encrypt"
# Table 22: a signature field may be made where both are allowed.
_NEEDED = StandardPermissions.ALLOW_MODIFICATION_GENERIC | StandardPermissions.ALLOW_ANNOTS_FORM_FILLING


def open_protected(reader: Any, *, ignore_owner_restrictions: bool) -> None:
    """Open an encrypted file without a password, as any reader does; raise `FormatRefused` where that may not be.

    What pyHanko raises of damaged entries is left to the caller.
    """
    if not isinstance(reader.security_handler, StandardSecurityHandler):
        raise FormatRefused(
            "The PDF is encrypted for holders of certificates (trailer, /Encrypt), not by a password.",
            place=_PLACE,
            remedy="Remove its protection before it is signed.",
        )
    result = reader.decrypt("")
    if "/AuthCode" in reader.trailer or reader.security_handler.pdf_mac_enabled:
        raise FormatRefused(
            "The PDF is encrypted and sealed with an authentication code (trailer, /AuthCode); "
            "an update would break the seal.",
            place=_PLACE,
            remedy="Remove its protection before it is signed.",
        )
    if result.status is AuthStatus.FAILED:
        raise FormatRefused(
            "The PDF is encrypted and needs a password to be opened (trailer, /Encrypt).",
            place=_PLACE,
            remedy="Remove its protection before it is signed.",
        )
    allowed = result.permission_flags
    is_restricted = result.status is not AuthStatus.OWNER and allowed is not None and _NEEDED not in allowed
    if is_restricted and not ignore_owner_restrictions:
        raise FormatRefused(
            "The PDF is restricted by its owner (trailer, /Encrypt /P): it may not be changed, so not be signed.",
            place=f"{_PLACE} /P",
            remedy="Ask its owner for a file without restrictions, or set Pdf:IgnoreOwnerRestrictions.",
        )
