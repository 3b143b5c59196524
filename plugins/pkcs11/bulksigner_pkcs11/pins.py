"""PINs: from the environment only, each value tried once, and a refused one remembered as a salted hash (BEY-31)."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from bulksigner.contract.errors import BulkSignerError, PermanentFailure
from bulksigner.contract.notes import Notes
from bulksigner_pkcs11.messages import TokenId

__all__ = ["Claim", "PinMemory", "entered_anew", "read_pin"]

_LOG = logging.getLogger("bulksigner.pkcs11")
_LOOK_AGAIN_SECONDS = 0.2
_TRYING, _REFUSED = "trying", "refused"


def read_pin(variable: str) -> str | None:
    """Return the PIN that a variable holds, or None where it is empty or not set."""
    return os.environ.get(variable) or None


def entered_anew(variable: str) -> str:
    """Name the variable that marks an unchanged PIN as entered anew, for a token that was unlocked meanwhile."""
    return f"{variable}_ENTERED"


@attrs.frozen
class _Remembered:
    """One value that was tried: how it stands, since when, and what tells it from others."""

    state: str
    at: float
    salt: str
    hash: str

    @classmethod
    def make(cls, state: str, entry: str) -> _Remembered:
        salt = secrets.token_hex(16)
        return cls(state, time.time(), salt, _hash(entry, salt))

    @classmethod
    def read(cls, note: str) -> _Remembered:
        return cls(**json.loads(note))

    def is_of(self, entry: str) -> bool:
        return hmac.compare_digest(self.hash, _hash(entry, self.salt))

    def write(self) -> str:
        return json.dumps(attrs.asdict(self))


def _hash(entry: str, salt: str) -> str:
    # A PIN has few digits: what makes guessing it dear is the work, not the salt.
    return hashlib.scrypt(entry.encode(), salt=bytes.fromhex(salt), n=2**14, r=8, p=1).hex()


@contextmanager
def _database_failures(what: str) -> Iterator[None]:
    """Turn what the notes raise into the reason of a key that does not sign."""
    try:
        yield
    except PermanentFailure:
        raise
    except BulkSignerError as error:
        raise PermanentFailure(f"{what}: {error.message}") from error


@attrs.frozen
class Claim:
    """The right to try a value, told to everybody before the token hears of it: a crash in it counts as refused."""

    notes: Notes | None
    name: str
    note: str

    def accepted(self) -> None:
        """Forget the value: the token took it, or never came to judge it."""
        self._settle(None)

    def refused(self) -> None:
        """Remember the value as refused."""
        if self.notes is not None:
            self._settle(attrs.evolve(_Remembered.read(self.note), state=_REFUSED).write())

    def _settle(self, note: str | None) -> None:
        if self.notes is None:
            return
        try:
            self.notes.swap(self.name, self.note, note)
        except BulkSignerError as error:
            # The token has given its answer; the note that stays behind is the careful one.
            _LOG.error(
                "How the login to a token ended could not be recorded: %s. Should its PIN be taken for refused later, "
                "set the variable of the PIN's name with _ENTERED behind it to a new text",
                error.message,
            )


class PinMemory:
    """What is known of tried PINs, in the operational store as soon as the plugin was given its notes."""

    def __init__(self, patience_seconds: float) -> None:
        self.notes: Notes | None = None
        self._patience_seconds = patience_seconds
        """How long another process may be trying the same value before the try counts as one that ended badly."""

    def claim(self, token: TokenId, variable: str, pin: str, *, was_wrong_pin_last: bool) -> Claim:
        """Return the right to try the PIN, once; raises `PermanentFailure` for a value that was refused before."""
        if self.notes is None:
            if was_wrong_pin_last:
                raise PermanentFailure(
                    f"the last PIN that the token {token} was given was wrong, and without a database nothing tells "
                    "which; it is not tried here. Start the service."
                )
            return Claim(None, "", "")
        entry = f"{pin}\0{os.environ.get(entered_anew(variable), '')}"
        name = f"pin:{token.serial}:{token.label}"
        fresh = _Remembered.make(_TRYING, entry).write()
        with _database_failures(f"the PIN of the token {token} is not tried, as what was tried before cannot be read"):
            while True:
                note = self.notes.read(name)
                known = None if note is None else _Remembered.read(note)
                if known is not None and known.is_of(entry):
                    if known.state == _TRYING and 0 <= time.time() - known.at < self._patience_seconds:
                        time.sleep(_LOOK_AGAIN_SECONDS)
                        continue
                    raise PermanentFailure(_tell(token, variable, known))
                if self.notes.swap(name, note, fresh):
                    return Claim(self.notes, name, fresh)


def _tell(token: TokenId, variable: str, known: _Remembered) -> str:
    at = datetime.datetime.fromtimestamp(known.at, datetime.UTC)
    return (
        f"the token {token} refused the PIN in the variable {variable} at {at:%Y-%m-%dT%H:%M:%SZ}; it is not tried "
        "again, so that the token does not lock. Put the right PIN there and restart. If this one is right and the "
        f"token was at fault, set {entered_anew(variable)} to a new text, such as the date."
    )
