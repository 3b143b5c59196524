"""The other end of the engine's pipe: one warm process that opens keys by reference and signs."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import BulkSignerError, KeyTrouble, StepFailed
from bulksigner.contract.settings import Secret, Settings
from bulksigner.contract.signing import Format
from bulksigner.encryption.key import EnvelopeKey
from bulksigner.formats.self_test import find_fault
from bulksigner.jobs.model import utc_now
from bulksigner.observability import logs
from bulksigner.observability.crashes import forbid_core_files, tell_crashes
from bulksigner.observability.redaction import Scrubber, list_block_secrets
from bulksigner.pipeline.tasks import KEYED, carry_out
from bulksigner.plugin_system.guard import ANYTHING
from bulksigner.plugin_system.manager import discover
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles.model import KeyReference

if TYPE_CHECKING:
    from bulksigner.trust.stamping import StampingPlan

__all__ = ["Broken", "FindFault", "Forget", "KeyAbsent", "Lesson", "WorkerBoot", "run"]


log = logging.getLogger(__name__)

SOON_SECONDS = 0.02
"""Answers of a chain wait for each other for so long, as each message costs the service more than a small signature."""

GARBAGE_LIMIT = 2_000
"""Objects that a call may leave behind before they are collected."""


@attrs.frozen
class WorkerBoot:
    """What a worker needs to sign and to log as the service does: plugins that take part in signing, and settings."""

    plugins: frozenset[str]
    settings: Settings
    formats: tuple[Format, ...] = tuple(Format)
    secrets: tuple[Secret, ...] = ()
    log_level: int = logging.WARNING
    log_levels: Mapping[str, int] = attrs.field(factory=dict)
    log_sinks: logs.Sinks = attrs.field(factory=logs.Sinks)
    envelope_key: EnvelopeKey | None = None
    """Handed over derived: it travels through the pipe that starts the worker and is in no file (ENC-06, ENC-19)."""
    stamping: StampingPlan | None = None
    """The time-stamp services; each worker asks them itself, as a stamp belongs into the file that it writes."""


@attrs.frozen
class FindFault:
    """Ask for the outcome of the worker's self-test."""


@attrs.frozen
class Lesson:
    """Ask a worker to open a key by its reference; `certificate` (DER) is that of the key in force."""

    reference: KeyReference
    certificate: bytes


@attrs.frozen
class Forget:
    """Ask a worker to let go of the key of a profile."""

    profile: str


@attrs.frozen
class Broken:
    """A call that failed: code and text of the fault, and the trace of one nobody expected."""

    message: str
    code: str | None
    trace: str = ""
    trouble: KeyTrouble | None = None


@attrs.frozen
class KeyAbsent:
    """Answer that the key of a profile is not open in this worker; nothing was signed."""


_NOT_BEGUN = Broken("What had to be done before has failed.", None)


class _Bench:
    """Keys and methods of one worker process."""

    def __init__(self, registry: Registry, scrubber: Scrubber, fault: str | None, boot: WorkerBoot) -> None:
        self._registry = registry
        self._envelope_key = boot.envelope_key
        self._stamping = None if boot.stamping is None else boot.stamping.open(utc_now)
        self._scrubber = scrubber
        self._fault = fault
        self._keys: dict[str, OpenedKey] = {}

    def open(self, lesson: Lesson) -> None:
        reference = lesson.reference
        for secret in list_block_secrets(reference.block, os.environ):
            self._scrubber.register(secret)
        source = self._registry.certificate_source(reference.source)
        # Should it not open, the key of an earlier block must not sign.
        self._keys.pop(reference.profile, None)
        with self._registry.guard(source):
            key = source.open(reference.block)
            found = key.certificate
        if found != lesson.certificate:
            # What lies behind the settings was replaced since the service opened it; that is in force when it says so.
            key.close()
            raise StepFailed("another certificate is there now than the one in force; reopen the profile to use it")
        self._keys[reference.profile] = key

    def do(self, call: Any) -> Any:
        if isinstance(call, Lesson):
            self.open(call)
            return None
        if isinstance(call, FindFault):
            return self._fault
        if isinstance(call, Forget):
            key = self._keys.pop(call.profile, None)
            return None if key is None else key.close()
        if isinstance(call, KEYED) and call.profile not in self._keys:
            return KeyAbsent()
        return carry_out(call, self._registry, self._keys, self._envelope_key, self._stamping)


def run(pipe: Connection, boot: WorkerBoot) -> None:
    """Serve calls from the pipe until None comes or it closes; the service at the other end may die at any moment."""
    # Ctrl+C and a service manager's stop reach the whole group; the service drains first and then closes the pipe.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_service, daemon=True).start()
    scrubber = Scrubber(boot.secrets)
    tell_crashes(scrubber)
    forbid_core_files()
    logs.configure(boot.log_level, boot.log_levels, scrubber, sinks=boot.log_sinks)
    try:
        _serve(pipe, boot, scrubber)
    except ANYTHING:
        # Told here, as the process would print it with whatever secret it quotes.
        log.critical("A signing worker process ends with an error that nobody expected", exc_info=True)
        sys.exit(1)


def _serve(pipe: Connection, boot: WorkerBoot, scrubber: Scrubber) -> None:
    registry = discover(only=boot.plugins).signing_providers(boot.settings)
    # Before the first call, so that no job pays for the first use of a format.
    bench = _Bench(registry, scrubber, find_fault(boot.formats), boot)
    _tame_collector()
    while True:
        try:
            chain = pickle.loads(pipe.recv_bytes())  # noqa: S301 - the service is at the other end
        except (EOFError, OSError):
            return
        if chain is None:
            return
        try:
            for answers in _answers(bench, chain):
                pipe.send_bytes(pickle.dumps(answers, pickle.HIGHEST_PROTOCOL))
        except OSError:
            return
        if gc.get_count()[0] > GARBAGE_LIMIT:
            gc.collect()


def _tame_collector() -> None:
    """Collect garbage between calls, not in them, and never look again at what stays for life.

    The objects of a PDF hold each other in cycles: left to itself the collector runs through them while they are in
    use, and lets those of many files pile up before it finds them.
    """
    gc.collect()
    gc.freeze()
    gc.disable()


def _answers(bench: _Bench, chain: Sequence[object]) -> Iterator[list[object]]:
    """Carry out the calls of a chain, up to one that fails; yield their answers together, or at once after a long call.

    A worker that is lost takes the chain with it as far as it was not answered.
    """
    began = time.monotonic()
    answers: list[object] = []
    is_stopped = False
    for call in chain:
        answer = _NOT_BEGUN if is_stopped else _answer(bench, call)
        is_stopped = is_stopped or isinstance(answer, Broken | KeyAbsent)
        answers.append(answer)
        if not is_stopped and time.monotonic() - began > SOON_SECONDS:
            yield answers
            answers = []
    if answers:
        yield answers


def _answer(bench: _Bench, call: object) -> object:
    try:
        return bench.do(call)
    except BulkSignerError as error:
        return Broken(error.message, error.code, trouble=error.trouble)
    except ANYTHING as error:  # a fault in a library ends this job, not the worker
        return Broken(f"{type(error).__name__}: {error}", None, traceback.format_exc())


def _end_with_service() -> None:
    """End at once when the service is gone, also in the middle of a call that would never return."""
    service = multiprocessing.parent_process()
    if service is not None:
        service.join()
        os._exit(1)
