"""The one login of a process to a token (BEY-30, BEY-31)."""

from __future__ import annotations

import enum
from contextlib import suppress

from bulksigner.contract.errors import PermanentFailure
from bulksigner_pkcs11.channel import Driver, TokenTrouble
from bulksigner_pkcs11.messages import Login, ReadFlags, Sight, TokenId
from bulksigner_pkcs11.pins import PinMemory, entered_anew, read_pin

__all__ = ["log_in"]

# The token was not there to judge a PIN, or has none to judge; whatever else goes wrong counts as refused.
_PIN_NOT_JUDGED = frozenset(
    {
        "DeviceRemoved",
        "KeyError",
        "SessionCount",
        "SlotIDInvalid",
        "TokenNotPresent",
        "TokenNotRecognised",
        "UserPinNotInitialized",
    }
)


class _Flag(enum.IntFlag):
    """Flags of CK_TOKEN_INFO."""

    LOGIN_REQUIRED = 0x00000004
    PROTECTED_AUTHENTICATION_PATH = 0x00000100
    USER_PIN_COUNT_LOW = 0x00010000
    USER_PIN_FINAL_TRY = 0x00020000
    USER_PIN_LOCKED = 0x00040000


def log_in(driver: Driver, sight: Sight, variable: str, memory: PinMemory) -> None:
    """Log the process in to a token unless it is; raises `PermanentFailure` with the reason, `DriverLost`.

    The PIN is in `variable`; without one the token's own pad asks a person for it, where it has one.
    """
    token, pin = sight.token, read_pin(variable)
    has_pad = pin is None and bool(sight.flags & _Flag.PROTECTED_AUTHENTICATION_PATH)
    needs_pin = bool(sight.flags & _Flag.LOGIN_REQUIRED)
    if not sight.is_logged_in:
        driver.logged_out(token)
    if driver.is_logged_in(token, pin):
        return
    if needs_pin and pin is None and not has_pad:
        raise PermanentFailure(
            f"the variable {variable}, which should hold the PIN of the token {token}, is empty or not set."
        )
    if not needs_pin:
        pin, has_pad = None, False
    elif reason := _find_lock(sight.flags, token):
        raise PermanentFailure(reason)
    claim = (
        memory.claim(token, variable, pin, was_wrong_pin_last=bool(sight.flags & _Flag.USER_PIN_COUNT_LOW))
        if pin is not None
        else None
    )
    try:
        driver.call(Login(token, pin, has_pad))
    except TokenTrouble as trouble:
        if claim is not None:
            if trouble.name in _PIN_NOT_JUDGED:
                claim.accepted()
            else:
                claim.refused()
        raise PermanentFailure(_tell(driver, token, variable, trouble, has_pad=has_pad)) from trouble
    if claim is not None:
        claim.accepted()
    driver.logged_in(token, pin)


def _find_lock(flags: int, token: TokenId) -> str | None:
    if flags & _Flag.USER_PIN_LOCKED:
        return f"the PIN of the token {token} is locked; unlock it with the vendor's tool and the PUK."
    if flags & _Flag.USER_PIN_FINAL_TRY:
        return (
            f"the token {token} has one try left before its PIN locks, which a service does not take; log in once with "
            "the vendor's tool, and restart."
        )
    return None


def _tell(driver: Driver, token: TokenId, variable: str, trouble: TokenTrouble, *, has_pad: bool) -> str:
    flags = 0
    with suppress(TokenTrouble, PermanentFailure):
        flags = driver.call(ReadFlags(token))
    if trouble.name == "PinLocked" or flags & _Flag.USER_PIN_LOCKED:
        told = f"the PIN of the token {token} is locked ({trouble.name})"
        return f"{told}; unlock it with the vendor's tool and the PUK."
    if has_pad:
        return f"the login at the pad of the token {token} failed ({trouble.told}); enter the PIN when the pad asks."
    if trouble.name in ("PinIncorrect", "PinInvalid", "PinLenRange", "PinExpired"):
        left = " One try is left before it locks." if flags & _Flag.USER_PIN_FINAL_TRY else ""
        return (
            f"the token {token} refused the PIN in the variable {variable} ({trouble.name}); it is not tried again "
            f"until it changes.{left}"
        )
    if trouble.name in _PIN_NOT_JUDGED:
        return f"the token {token} could not be logged in to ({trouble.told})."
    return (
        f"the login to the token {token} failed ({trouble.told}), which counts as a refused PIN: it is not tried again "
        f"until the variable {variable}, or {entered_anew(variable)}, changes."
    )
