"""Protected PDF files: which of them can be signed as they are, their protection kept (BEY-11, ISO 32000-2 7.6).

Imported by `pdf_update` alone, as it imports pyHanko.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyhanko.pdf_utils.crypt import AuthResult, AuthStatus, StandardSecurityHandler
from pyhanko.pdf_utils.crypt.permissions import StandardPermissions

from bulksigner.contract.settings import Secret
from bulksigner.formats.model import FormatRefused, PdfRules
from bulksigner.formats.pdf_crypt import encode_passwords

__all__ = ["open_protected"]

_PLACE = "trailer, /Encrypt"
# Table 22: a signature field may be made where both are allowed.
_NEEDED = StandardPermissions.ALLOW_MODIFICATION_GENERIC | StandardPermissions.ALLOW_ANNOTS_FORM_FILLING


def open_protected(reader: Any, rules: PdfRules) -> None:
    """Open an encrypted file without a password, as any reader does, or by one of the profile's.

    The owner's password lifts the owner's restrictions. Raises `FormatRefused` where the file may not be opened or not
    be changed; what pyHanko raises of damaged entries is left to the caller.
    """
    handler = reader.security_handler
    if not isinstance(handler, StandardSecurityHandler):
        raise FormatRefused(
            "The PDF is encrypted for holders of certificates (trailer, /Encrypt), not by a password.",
            place=_PLACE,
            remedy="Remove its protection before it is signed.",
        )
    result = _try_passwords(reader, rules.choice.passwords)
    if "/AuthCode" in reader.trailer or handler.pdf_mac_enabled:
        raise FormatRefused(
            "The PDF is encrypted and sealed with an authentication code (trailer, /AuthCode); "
            "an update would break the seal.",
            place=_PLACE,
            remedy="Remove its protection before it is signed.",
        )
    if result.status is AuthStatus.FAILED:
        raise _refuse_closed(len(rules.choice.passwords))
    if not _may_be_changed(result) and not rules.ignore_owner_restrictions:
        raise FormatRefused(
            "The PDF is restricted by its owner (trailer, /Encrypt /P): it may not be changed, so not be signed.",
            place=f"{_PLACE} /P",
            remedy="Ask its owner for a file without restrictions, give the profile the owner's password "
            "(Pdf:Passwords), or set Pdf:IgnoreOwnerRestrictions.",
        )


def _try_passwords(reader: Any, passwords: Sequence[Secret]) -> AuthResult:
    """Leave the reader opened by the first password that lets the file be changed, else by the first that opens it."""
    revision = reader.security_handler.revision.value
    if revision is None:
        raise FormatRefused(
            "The PDF is encrypted by a method that was never made a standard (trailer, /Encrypt /R).",
            place=f"{_PLACE} /R",
            remedy="Have it encrypted by a newer program, or remove its protection before it is signed.",
        )
    best: tuple[AuthResult, bytes] | None = None
    for password in encode_passwords(passwords, revision):
        result = reader.decrypt(password)
        if result.status is not AuthStatus.FAILED and _may_be_changed(result):
            return result
        if best is None or best[0].status is AuthStatus.FAILED:
            best = (result, password)
    assert best is not None
    return reader.decrypt(best[1])


def _may_be_changed(result: AuthResult) -> bool:
    allowed = result.permission_flags
    return result.status is AuthStatus.OWNER or allowed is None or _NEEDED in allowed


def _refuse_closed(count: int) -> FormatRefused:
    if count:
        return FormatRefused(
            "The PDF is encrypted and needs a password to be opened (trailer, /Encrypt), which is none of the "
            f"profile's ({count}).",
            place=_PLACE,
            remedy="Add its password to Pdf:Passwords of the profile.",
        )
    return FormatRefused(
        "The PDF is encrypted and needs a password to be opened (trailer, /Encrypt).",
        place=_PLACE,
        remedy="Give the profile its password (Pdf:Passwords), or remove its protection before it is signed.",
    )
