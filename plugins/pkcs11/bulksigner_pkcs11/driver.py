"""The process in which a vendor's library runs (BEY-32); it alone imports the library's wrapper.

One thread makes every call, which is what keeps a library alive that was not initialised for threads (BEY-30).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import pkcs11
from pkcs11 import Attribute, KeyType, Mechanism, ObjectClass, TokenFlag
from pkcs11.exceptions import NoSuchKey, PKCS11Error, SessionClosed, UserAlreadyLoggedIn

from bulksigner_pkcs11.messages import (
    Drop,
    HeldCertificate,
    KeyFacts,
    Login,
    Look,
    OpenKey,
    ReadFlags,
    Ready,
    Sight,
    Sign,
    TokenId,
    Trouble,
)

__all__ = ["run"]

_PSS = {
    "sha1": (Mechanism.SHA_1, pkcs11.MGF.SHA1, 20),
    "sha256": (Mechanism.SHA256, pkcs11.MGF.SHA256, 32),
    "sha512": (Mechanism.SHA512, pkcs11.MGF.SHA512, 64),
}


def run(pipe: Connection, module_path: str) -> None:
    """Answer requests until the pipe closes."""
    # Ctrl+C and a service manager's stop reach the whole group; the service drains first and then closes the pipe.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_service, daemon=True).start()
    bench = _Bench(module_path)
    pipe.send(Ready())
    while True:
        try:
            request = pipe.recv()
        except (EOFError, OSError):
            break
        pipe.send(_answer(bench, request))
    # No finalisation: a library that hangs in it would keep the process, and the token does not need it.
    os._exit(0)


def _answer(bench: _Bench, request: object) -> object:
    try:
        return bench.answer(request)
    except Exception as error:  # noqa: BLE001 - the wrapper of a library may raise anything; the service judges the name
        return Trouble(type(error).__name__, str(error))


def _end_with_service() -> None:
    """End at once when the service is gone, also in the middle of a call that would never return."""
    service = multiprocessing.parent_process()
    if service is not None:
        service.join()
        os._exit(1)


class _Bench:
    """The library, the sessions of logged-in tokens and the keys that are open in them."""

    def __init__(self, module_path: str) -> None:
        self._module_path = module_path
        self._tokens: dict[TokenId, Any] = {}
        self._sessions: dict[TokenId, Any] = {}
        self._keys: dict[int, Any] = {}
        self._last_handle = 0

    def answer(self, request: object) -> object:
        """Do what a request asks; raises what the library's wrapper raises."""
        if isinstance(request, Sign):
            return self._sign(request)
        if isinstance(request, Look):
            return list(self._look())
        if isinstance(request, ReadFlags):
            return int(self._tokens[request.token].slot.get_token().flags)
        if isinstance(request, Login):
            self._login(request)
            return None
        if isinstance(request, OpenKey):
            return self._open(request)
        if isinstance(request, Drop):
            self._drop(request.token)
            return None
        raise TypeError(f"no such request: {type(request).__name__}")

    def _look(self) -> Iterator[Sight]:
        # Loaded by a call, so that its time limit holds for the loading too.
        library = pkcs11.lib(self._module_path)
        for slot in library.get_slots(token_present=True):
            try:
                token = slot.get_token()
                if not token.flags & TokenFlag.TOKEN_INITIALIZED:
                    continue
                found = TokenId(token.label.strip(), token.serial.decode("ascii", "replace").strip())
                self._tokens[found] = token
                certificates = self._certificates(found, token)
            except PKCS11Error:
                # A token that is being taken away, or one of another make: it is not there for us.
                continue
            yield Sight(found, int(token.flags), found in self._sessions, certificates)

    def _certificates(self, found: TokenId, token: Any) -> tuple[HeldCertificate, ...]:
        session = self._sessions.get(found)
        if session is not None:
            try:
                return _read_certificates(session)
            except PKCS11Error:
                # Lost without a word; the token itself may be there again.
                self._drop(found)
        session = token.open()
        try:
            return _read_certificates(session)
        finally:
            session.close()

    def _login(self, request: Login) -> None:
        if request.token in self._sessions:
            return
        token = self._tokens[request.token]
        if request.has_pad:
            session = token.open(user_pin=pkcs11.types.PROTECTED_AUTH)
        else:
            try:
                session = token.open(user_pin=request.pin)
            except UserAlreadyLoggedIn:
                session = token.open()
        self._sessions[request.token] = session

    def _open(self, request: OpenKey) -> KeyFacts:
        session = self._sessions[request.token]
        wanted = {
            Attribute.CLASS: ObjectClass.PRIVATE_KEY,
            Attribute.KEY_TYPE: KeyType.RSA if request.is_rsa else KeyType.EC,
        }
        keys = list(session.get_objects({**wanted, Attribute.ID: request.key_id})) if request.key_id else []
        if not keys and request.modulus is not None:
            keys = list(session.get_objects({**wanted, Attribute.MODULUS: request.modulus}))
        if len(keys) > 1 and request.modulus is not None:
            keys = [key for key in keys if _read(key, Attribute.MODULUS) == request.modulus]
        if not keys:
            raise NoSuchKey("no private key has the id of the certificate")
        key = keys[0]
        if _read(key, Attribute.ALWAYS_AUTHENTICATE):
            raise NoSuchKey("the private key asks for its PIN at every signature, which a service cannot do safely")
        self._last_handle += 1
        self._keys[self._last_handle] = key
        mechanisms = self._tokens[request.token].slot.get_mechanisms()
        return KeyFacts(self._last_handle, frozenset(one.name for one in mechanisms if isinstance(one, Mechanism)))

    def _sign(self, request: Sign) -> bytes:
        key = self._keys.get(request.handle)
        if key is None:
            raise SessionClosed("the session of the key was replaced")
        if not hasattr(key, "sign"):
            raise NoSuchKey("the private key is not meant to sign")
        parameter = None if request.pss_digest is None else _PSS[request.pss_digest]
        return bytes(key.sign(request.data, mechanism=Mechanism[request.mechanism], mechanism_param=parameter))

    def _drop(self, token: TokenId) -> None:
        session = self._sessions.pop(token, None)
        if session is not None:
            self._keys = {handle: key for handle, key in self._keys.items() if key.session is not session}
            # What was lost cannot always be closed; it is not used again.
            with contextlib.suppress(PKCS11Error):
                session.close()


def _read(key: Any, attribute: Attribute) -> Any:
    try:
        return key[attribute]
    except PKCS11Error:
        return None


def _read_certificates(session: Any) -> tuple[HeldCertificate, ...]:
    return tuple(
        HeldCertificate(bytes(_read(one, Attribute.ID) or b""), bytes(value))
        for one in session.get_objects({Attribute.CLASS: ObjectClass.CERTIFICATE})
        if (value := _read(one, Attribute.VALUE))
    )
