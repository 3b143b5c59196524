"""The service's end of a driver process: one call at a time, each with a limit, and a new process for a lost one."""

from __future__ import annotations

import hmac
import logging
import multiprocessing
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from bulksigner.contract.errors import KeyTrouble, PermanentFailure
from bulksigner_pkcs11 import driver
from bulksigner_pkcs11.messages import Ready, Request, TokenId, Trouble

__all__ = ["LOST", "Driver", "DriverLost", "TokenTrouble"]

_LOG = logging.getLogger("bulksigner.pkcs11")
LOST = "pkcs11.driver-lost"
START_LIMIT_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 60.0
RENEWAL_SECONDS = 60.0
"""The age from which a process may be ended that other tokens are in use in."""

_END_LIMIT_SECONDS = 5.0


class DriverLost(PermanentFailure):
    """Say that the vendor's library hung or ended its process; what it had done of the call nobody knows."""

    default_code = LOST
    default_trouble = KeyTrouble.PERHAPS_USED


class TokenTrouble(Exception):
    """Carry what the library reported, by the name of PKCS #11 for it, such as `PinIncorrect`."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.name)
        self.name = trouble.name
        self.text = trouble.text

    @property
    def told(self) -> str:
        """Return name and text in one line."""
        text = " ".join(self.text.split())
        return f"{self.name}: {text}" if text else self.name


class Driver:
    """One vendor's library in a process of its own, started with the first call and again after each loss.

    The token logins of the process are kept with it: one each, shared by all keys (BEY-30).
    """

    def __init__(self, module_path: str, call_limit_seconds: float) -> None:
        self.module_path = module_path
        self._call_limit_seconds = call_limit_seconds
        self._turn = threading.RLock()
        self._closing = threading.Event()
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._started_at = 0.0
        self._losses = 0
        self._logins: dict[TokenId, tuple[int, bytes]] = {}
        self._login_count = 0
        self._mark_key = secrets.token_bytes(32)
        self.life = 0
        """Counts the processes; a handle of an earlier one means nothing to a later."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Keep the library to the calling thread, for several calls that belong together."""
        with self._turn:
            yield

    def call(self, request: Request, *, life: int | None = None) -> Any:
        """Return the answer to a request; raises `TokenTrouble` with the library's error, and `DriverLost`.

        A request with a handle of an earlier `life` than the present one does not reach the library.
        """
        with self._turn:
            pipe = self._connect()
            if life is not None and life != self.life:
                raise TokenTrouble(Trouble("SessionClosed", "the process that had it is gone"))
            try:
                pipe.send(request)
                if not pipe.poll(self._call_limit_seconds):
                    raise self._lose(f"gave no answer within {self._call_limit_seconds:g} s")
                answer = pipe.recv()
            except (EOFError, OSError) as error:
                raise self._lose(self._how_it_ended()) from error
        if isinstance(answer, Trouble):
            raise TokenTrouble(answer)
        return answer

    def proved(self) -> None:
        """Hear that the library signed for a job: the next loss is the first one again."""
        self._losses = 0

    def is_logged_in(self, token: TokenId, pin: str | None) -> bool:
        """Tell whether the process is logged in to the token; raises `PermanentFailure` for another PIN than that."""
        if token not in self._logins:
            return False
        if not hmac.compare_digest(self._logins[token][1], self._mark(pin)):
            raise PermanentFailure(
                f"the token {token} is in use with the PIN of another profile, and this one's is a different PIN; give "
                "both the same."
            )
        return True

    def logged_in(self, token: TokenId, pin: str | None) -> None:
        """Remember the one login of the process to a token."""
        self._login_count += 1
        self._logins[token] = (self._login_count, self._mark(pin))

    def login_of(self, token: TokenId) -> int:
        """Return the number of the login to a token, which no later login has; 0 where there is none."""
        return self._logins[token][0] if token in self._logins else 0

    def logged_out(self, token: TokenId) -> None:
        """Forget the login of a token that was dropped."""
        self._logins.pop(token, None)

    def renew(self, token: TokenId | None = None) -> bool:
        """End the process where only a fresh one can find a token, and tell whether that was done.

        Some libraries notice tokens only while they are loaded. Other tokens in the same process have to be logged in
        to again, so for their sake it is done once in a while only.
        """
        with self._turn:
            is_shared = bool(self._logins.keys() - {token})
            if self._process is None or (is_shared and time.monotonic() - self._started_at < RENEWAL_SECONDS):
                return False
            self._end()
            return True

    def close(self) -> None:
        """End the process; calls under way fail, later ones are refused."""
        self._closing.set()
        # Outside of the turn: a call that hangs has it.
        process = self._process
        if process is not None:
            with suppress(ValueError):
                process.kill()
        with self._turn:
            self._end()

    def _mark(self, pin: str | None) -> bytes:
        return hmac.digest(self._mark_key, (pin or "").encode(), "sha256")

    def _connect(self) -> Connection:
        if self._closing.is_set():
            raise PermanentFailure("The driver is closed; the service is stopping.")
        if self._process is not None and not self._process.is_alive():
            # It ended between two calls, so no job was in it.
            _LOG.error("The process of the PKCS #11 library %s %s", self.module_path, self._how_it_ended())
            self._end()
        if self._pipe is None:
            self._wait_after_losses()
            self._start()
        if self._pipe is None:
            raise PermanentFailure("The driver is closed; the service is stopping.")
        return self._pipe

    def _wait_after_losses(self) -> None:
        """Wait, longer with each loss since the last signature, before a library is loaded once more."""
        if self._losses > 1 and self._closing.wait(min(LONGEST_PAUSE_SECONDS, 2.0 ** (self._losses - 2))):
            raise PermanentFailure("The driver is closed; the service is stopping.")

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        pipe, far_end = context.Pipe()
        process = context.Process(
            target=driver.run, args=(far_end, self.module_path), name="bulksigner-pkcs11", daemon=True
        )
        try:
            process.start()
        except OSError as error:
            pipe.close()
            raise self._lose(f"gets no process ({error.strerror or error})") from error
        finally:
            far_end.close()
        self._process, self._pipe = process, pipe
        self._started_at = time.monotonic()
        self.life += 1
        try:
            if pipe.poll(START_LIMIT_SECONDS) and isinstance(pipe.recv(), Ready):
                return
        except (EOFError, OSError) as error:
            raise self._lose(self._how_it_ended()) from error
        raise self._lose(f"did not start within {START_LIMIT_SECONDS:g} s")

    def _lose(self, how: str) -> DriverLost:
        self._losses += 1
        self._end()
        if not self._closing.is_set():
            _LOG.error("The process of the PKCS #11 library %s %s; another is started", self.module_path, how)
        return DriverLost(
            f"The PKCS #11 library {self.module_path} {how}. Its process is replaced; look at the token and its "
            "reader, and retry the job."
        )

    def _how_it_ended(self) -> str:
        process = self._process
        if process is None:
            return "ended its process"
        process.join(_END_LIMIT_SECONDS)
        code = process.exitcode
        if code is None:
            return "closed its pipe"
        if code >= 0:
            return f"ended its process with code {code}"
        with suppress(ValueError):
            return f"ended its process with {signal.Signals(-code).name}"
        return f"ended its process with signal {-code}"

    def _end(self) -> None:
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        self._logins.clear()
        if process is not None:
            process.kill()
            process.join(_END_LIMIT_SECONDS)
            # A process in uninterruptible sleep outlives even this.
            with suppress(ValueError):
                process.close()
        if pipe is not None:
            pipe.close()
