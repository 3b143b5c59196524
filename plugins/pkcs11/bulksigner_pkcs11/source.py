"""The certificate source `Pkcs11` and the key it opens."""

from __future__ import annotations

import datetime
import logging
import threading
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from bulksigner.contract.certificate import Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.errors import KeyTrouble, PermanentFailure
from bulksigner.contract.notes import Notes
from bulksigner_pkcs11.channel import Driver, DriverLost, TokenTrouble
from bulksigner_pkcs11.mechanisms import Padding
from bulksigner_pkcs11.pins import PinMemory
from bulksigner_pkcs11.settings import Pkcs11Block
from bulksigner_pkcs11.token import Content, Found, find_key, find_key_again, sign_on_token

__all__ = ["Pkcs11Source", "TokenKey"]

_LOG = logging.getLogger("bulksigner.pkcs11")
# The token names something that is gone and has signed nothing; with a new session it may be asked once more.
_SESSION_GONE = frozenset(
    {"KeyHandleInvalid", "ObjectHandleInvalid", "SessionClosed", "SessionHandleInvalid", "UserNotLoggedIn"}
)


# The token was not there when it was asked; whatever else goes wrong in a signature may come after the key was used.
_NOT_THERE = _SESSION_GONE | {"SlotIDInvalid", "TokenNotPresent", "TokenNotRecognised"}


class TokenKey:
    """A private key that stays on its token; an `OpenedKey`."""

    def __init__(self, source: Pkcs11Source, driver: Driver, block: Pkcs11Block, found: Found) -> None:
        self._source = source
        self._driver = driver
        self._block = block
        self._found = found
        self._is_stale = False
        self._is_closed = False
        self._fault: str | None = None

    @property
    def certificate(self) -> bytes:
        """Return the signer's certificate, DER."""
        return self._found.certificate

    @property
    def chain(self) -> tuple[bytes, ...]:
        """Return the issuers' certificates, DER, nearest first."""
        return self._found.chain

    @property
    def algorithm(self) -> KeyAlgorithm:
        """Return the kind of the private key."""
        return KeyAlgorithm.RSA if isinstance(self._found.public, RSAPublicKey) else KeyAlgorithm.ECDSA

    @property
    def fault(self) -> str | None:
        """Say why the last signature failed, or None while the key signs."""
        return self._fault

    @property
    def place(self) -> str:
        """Name the token."""
        return str(self._found.token)

    def sign(self, data: bytes, digest: Digest) -> bytes:
        """Hash and sign `data`, on the token where it can hash."""
        return self._sign(Content.of(data, digest), Padding.PKCS1)

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        """Sign a digest value made elsewhere."""
        return self._sign(Content(None, value, digest), Padding.PKCS1)

    def sign_pss(self, data: bytes, digest: Digest) -> bytes:
        """Sign by RSASSA-PSS, with MGF1 and a salt of the length of the digest (RFC 8017 8.1)."""
        if self.algorithm is not KeyAlgorithm.RSA:
            raise PermanentFailure("The key cannot sign: PSS is a way of RSA keys.")
        return self._sign(Content.of(data, digest), Padding.PSS)

    def try_again(self) -> None:
        """Find the key anew and have it sign nothing that counts; a PIN that was refused is not tried (BEY-31)."""
        with self._driver.turn():
            if self._is_closed:
                raise PermanentFailure("The key is closed; the service is stopping.")
            self._open_again()
            self._fault = None

    def close(self) -> None:
        """Let go of the key; the driver's process ends with its last one, and the login with that."""
        # Not in the driver's turn: a call that hangs would hold up the end of the service.
        if not self._is_closed:
            self._is_closed = True
            self._source.leave(self._driver)

    def _sign(self, content: Content, padding: Padding) -> bytes:
        with self._driver.turn():
            try:
                signature = self._sign_in_turn(content, padding)
            except TokenTrouble as trouble:
                self._is_stale = True
                self._fault = f"{trouble.told} at {_now()}"
                raise PermanentFailure(
                    f"The token {self.place} failed: {trouble.told}. Look at the token and its reader, and retry "
                    "the job.",
                    trouble=KeyTrouble.UNUSED if trouble.name in _NOT_THERE else KeyTrouble.PERHAPS_USED,
                ) from trouble
            except PermanentFailure as error:
                if not self._is_closed:
                    self._fault = f"{error.message} ({_now()})"
                raise
            # A proof at the opening does not count: some drivers fail at real work only.
            self._driver.proved()
            self._fault = None
            return signature

    def _sign_in_turn(self, content: Content, padding: Padding) -> bytes:
        if self._is_closed:
            raise PermanentFailure("The key is closed; the service is stopping.")
        if self._is_stale:
            self._open_again()
        try:
            return sign_on_token(self._driver, self._found, content, padding)
        except TokenTrouble as trouble:
            if trouble.name not in _SESSION_GONE:
                raise
            _LOG.warning("The session of the token %s is gone (%s); opening another", self.place, trouble.name)
            self._open_again(f" ({trouble.name})")
        return sign_on_token(self._driver, self._found, content, padding)

    def _open_again(self, why: str = "") -> None:
        self._is_stale = True
        try:
            self._found = find_key_again(self._driver, self._block, self._source.memory, self._found)
        except TokenTrouble as trouble:
            raise PermanentFailure(
                f"The token {self.place} failed: {trouble.told}.", trouble=KeyTrouble.UNUSED
            ) from trouble
        except PermanentFailure as error:
            raise _named(self._driver.module_path, error, why) from error
        self._is_stale = False
        _LOG.info("The key on the token %s was found again and is that of the certificate", self.place)


class Pkcs11Source:
    """Opens keys on tokens; one process for each vendor's library, shared by every profile that uses it."""

    name = "Pkcs11"
    concurrent = True
    # One login a token: the key stays in the service's own process, and its driver in one child (PERF-06, BEY-30).
    portable = False

    def __init__(self, call_limit_seconds: float) -> None:
        self._call_limit_seconds = call_limit_seconds
        self.memory = PinMemory(patience_seconds=call_limit_seconds + 5.0)
        self._drivers: dict[str, Driver] = {}
        self._users: dict[Driver, int] = {}
        self._guard = threading.Lock()

    def take_notes(self, notes: Notes) -> None:
        """Remember refused PINs in the operational store from now on."""
        self.memory.notes = notes

    def locator(self, block: object) -> str:
        """Name the library and the certificate."""
        settings = _block(block)
        return f"module={settings.module_path}, thumbprint={settings.thumbprint.lower()}"

    def open(self, block: object) -> OpenedKey:
        """Open the key that the block names; what is wrong becomes the reason of a degraded profile (OPS-113)."""
        settings = _block(block)
        path = settings.module_path
        if not Path(path).is_file():
            raise PermanentFailure(
                f"PKCS #11 library {path}: no such file on this host; check Certificate:Pkcs11:ModulePath."
            )
        driver = self._take(path)
        try:
            key = TokenKey(self, driver, settings, find_key(driver, settings, self.memory))
        except BaseException as error:
            self.leave(driver)
            if isinstance(error, PermanentFailure):
                raise _named(path, error) from error
            raise
        return key

    def _take(self, path: str) -> Driver:
        with self._guard:
            driver = self._drivers.get(path)
            if driver is None:
                driver = self._drivers[path] = Driver(path, self._call_limit_seconds)
                self._users[driver] = 0
            self._users[driver] += 1
            return driver

    def leave(self, driver: Driver) -> None:
        """Give a driver back; its process ends with the last of its keys."""
        with self._guard:
            self._users[driver] -= 1
            if self._users[driver]:
                return
            del self._users[driver]
            del self._drivers[driver.module_path]
        driver.close()


def _block(block: object) -> Pkcs11Block:
    if not isinstance(block, Pkcs11Block):
        raise PermanentFailure(f"The source Pkcs11 was given settings of another kind ({type(block).__name__}).")
    return block


def _named(path: str, error: PermanentFailure, why: str = "") -> PermanentFailure:
    if isinstance(error, DriverLost):
        # It was lost while the key was looked for, and no file was before it.
        error.trouble = KeyTrouble.UNUSED
        return error
    return PermanentFailure(
        f"PKCS #11 library {path}{why}: {error.message}", code=error.code, trouble=KeyTrouble.UNUSED
    )


def _now() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"
