"""The other end of the engine's pipe: one warm process that opens keys by reference and signs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

import attrs

from bulksigner.contract.certificate import CertificateSource, OpenedKey
from bulksigner.contract.errors import BulkSignerError, StepFailed
from bulksigner.contract.settings import Settings
from bulksigner.contract.signing import Measured, SigningMethod
from bulksigner.formats.model import Checked
from bulksigner.pipeline.engine import CheckTask, SignTask, check_here, sign_here
from bulksigner.plugin_system.manager import discover
from bulksigner.profiles.model import KeyReference

__all__ = ["Answer", "Broken", "WorkerBoot", "run"]


@attrs.frozen
class WorkerBoot:
    """What a worker needs to sign as the service does: the plugins that take part in signing, and bound settings."""

    plugins: frozenset[str]
    settings: Settings


@attrs.frozen
class Broken:
    """A call that failed: code and text of the fault, and the trace of one nobody expected."""

    message: str
    code: str | None
    trace: str = ""


Answer = Measured | Checked | Broken | None


class _Bench:
    """Keys and methods of one worker process."""

    def __init__(
        self, source_named: Callable[[str], CertificateSource], method_named: Callable[[str], SigningMethod]
    ) -> None:
        self._source_named = source_named
        self._method_named = method_named
        self._keys: dict[KeyReference, OpenedKey] = {}

    def open(self, reference: KeyReference) -> OpenedKey:
        key = self._keys.get(reference)
        if key is None:
            key = self._source_named(reference.source).open(reference.block)
            self._keys[reference] = key
        return key

    def do(self, call: object) -> Answer:
        if isinstance(call, SignTask):
            return sign_here(call, self._method_named(call.method), self.open(call.reference))
        if isinstance(call, CheckTask):
            return check_here(call)
        if isinstance(call, KeyReference):
            self.open(call)
            return None
        raise StepFailed(f"A worker was asked for something it does not know: {type(call).__name__}.")


def run(pipe: Connection, boot: WorkerBoot) -> None:
    """Serve calls from the pipe until it closes; the service at the other end may die at any moment."""
    # Ctrl+C and a service manager's stop reach the whole group; the service drains first and then closes the pipe.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_service, name="service-watch", daemon=True).start()
    registry = discover(only=boot.plugins).signing_providers(boot.settings)
    bench = _Bench(registry.certificate_source, registry.signing_method)
    while True:
        try:
            call = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = bench.do(call)
        except BulkSignerError as error:
            answer = Broken(error.message, error.code)
        except Exception as error:  # noqa: BLE001 - a fault in a plugin or library ends this job, not the worker
            answer = Broken(f"{type(error).__name__}: {error}", None, traceback.format_exc())
        try:
            pipe.send(answer)
        except (BrokenPipeError, OSError):
            return


def _end_with_the_service() -> None:
    """End this process once the service is gone, however it went.

    The next start settles the job under way; an orphan that still signs would write into its folder meanwhile (CLU-06).
    """
    service = multiprocessing.parent_process()
    if service is not None:
        service.join()
        os._exit(0)
