"""Receipts of completed jobs: a link of the chain in the act of Completed, then signed and written (BEY-03).

The row has the bytes of the file before there is one, so that whatever is left undone at a death is done by the next
life, byte for byte, and the chain is never held while a key signs.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import itertools
import json
import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from bulksigner.contract.signing import Measured
from bulksigner.files import durable
from bulksigner.files.work import WorkRoots
from bulksigner.jobs.model import Job, utc_now
from bulksigner.jobs.receipts import SIGNATURE_SUFFIX, Link, Receipt, Receipts
from bulksigner.pipeline.engine import Engine
from bulksigner.pipeline.tasks import SealTask
from bulksigner.pipeline.work import Work
from bulksigner.plugin_system.guard import ANYTHING, describe
from bulksigner.profiles.model import OpenedProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records.times import write_time

__all__ = ["ReceiptBook"]

log = logging.getLogger(__name__)

SUFFIX = ".receipt.json"
RETRY_SECONDS = 60.0
"""How long a receipt waits whose files could not be written, or whose key does not sign now."""

STOP_LIMIT_SECONDS = 5.0
_LONGEST_NAME = 255
_ROOM_FOR_NUMBER = 6
Answer = tuple[Receipt, Any, BaseException | None]


class ReceiptBook:
    """Writes receipts; what needs a key or a disk is done beside the jobs, in a thread of its own."""

    def __init__(
        self,
        receipts: Receipts,
        engine: Engine,
        profiles: OpenedProfiles,
        roots: WorkRoots,
        *,
        product_version: str,
    ) -> None:
        self._receipts = receipts
        self._engine = engine
        self._profiles = profiles
        self._roots = roots
        self._product_version = product_version
        # The key of a job stays open until its receipt is signed, also when its profile gets another one meanwhile.
        self._held: dict[str, OpenedProfile] = {}
        self._told: set[str] = set()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def draft(self, work: Work) -> Callable[[Job], None]:
        """Return what writes the receipt of a job, in the act that completes it."""
        facts = _facts(work, self._product_version)

        def write(job: Job) -> None:
            self._receipts.add(job, lambda link: _render(facts, job, link))

        return write

    def hand_over(self, work: Work) -> None:
        """Take note that a job with a receipt was completed; returns at once."""
        self._held[work.job.id] = work.opened
        self._wake.set()

    def start(self) -> None:
        """Begin to sign and write, with what the last life left."""
        self._wake.set()
        self._thread = threading.Thread(target=self._run, name="receipts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, unless it takes long; the next life does the rest."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(STOP_LIMIT_SECONDS)

    def settle(self) -> int:
        """Sign and write every receipt that waits; return how many still do."""
        left, last = 0, None
        held = list(self._held)
        while page := self._receipts.open_after(last):
            last = page[-1]
            left += len(page) - self._settle(page)
        if not left:
            # Those of jobs that were deleted before their turn came.
            for job_id in held:
                self._held.pop(job_id, None)
        return left

    def _run(self) -> None:
        wait_seconds: float | None = None
        while True:
            self._wake.wait(wait_seconds)
            is_last = self._stopping.is_set()
            self._wake.clear()
            try:
                left = self.settle()
            except Exception:  # the store may be gone for a while; the receipts are in it
                log.exception("Receipts cannot be written now; trying again in %g s", RETRY_SECONDS)
                left = 1
            if is_last:
                return
            wait_seconds = RETRY_SECONDS if left else None
            if self._stopping.is_set():
                self._wake.set()

    def _settle(self, page: Sequence[Receipt]) -> int:
        signed = self._sign(page)
        places: dict[str, Path | None] = {}
        for receipt in signed:
            try:
                places[receipt.job_id] = None if receipt.removed_at is not None else self._write(receipt)
            except OSError as error:
                self._tell(receipt, f"cannot be written: {error.strerror or error}")
        for job_id in self._receipts.settle(places) if places else ():
            # Its job was deleted meanwhile, with what there was of it then.
            self._take_back(next(one for one in signed if one.job_id == job_id), places[job_id])
        for job_id in places:
            self._held.pop(job_id, None)
            self._told.discard(job_id)
        return len(places)

    def _sign(self, page: Sequence[Receipt]) -> list[Receipt]:
        """Return the receipts that are ready to be written; signatures are stored before any of them is in a file."""
        ready: list[Receipt] = []
        now = utc_now()
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        asked = 0
        for receipt in page:
            wanted = _signer_of(receipt)
            if receipt.signature is not None or wanted is None:
                ready.append(receipt)
                continue
            profile = self._held.get(receipt.job_id) or self._profiles.get(receipt.profile_name)
            if never := _find_end(profile, wanted, now):
                # Nobody signs with that key any more; the next receipt of the chain vouches for this one.
                log.warning("The receipt of job %s stays without a signature: %s", receipt.job_id, never)
                ready.append(receipt)
            elif profile is None or profile.key_reference is None:
                self._tell(receipt, f"waits for its signature: {profile and profile.degraded}")
            elif not_yet := profile.outside_validity(now):
                self._tell(receipt, f"waits for its signature: {not_yet}")
            else:
                task = SealTask(profile.key_reference.profile, receipt.content, now)
                done = functools.partial(_note, answers, receipt)
                try:
                    self._engine.begin(task, done)
                except ANYTHING as refused:  # the engine says at once what it cannot begin
                    done(None, refused)
                asked += 1
        signed: list[Receipt] = []
        for _ in range(asked):
            receipt, signature, error = answers.get()
            if error is None:
                signed.append(attrs.evolve(receipt, signature=signature))
            else:
                self._tell(receipt, f"waits for its signature: {describe(error)}")
        if signed:
            self._receipts.sign({one.job_id: one.signature for one in signed if one.signature is not None})
        return sorted([*ready, *signed], key=lambda one: (one.instance, one.number))

    def _write(self, receipt: Receipt) -> Path:
        """Write the files under a name that nobody has, or find them there; return the path of the receipt."""
        for number in itertools.count(1):
            place = self._roots.output_path(_name(receipt, number))
            written: list[Path] = []
            for path, content in receipt.files(place):
                if not self._put(receipt, path, content):
                    break
                written.append(path)
            else:
                return place
            for path in written:
                durable.remove_file(path)
        raise AssertionError("numbers do not end")

    def _put(self, receipt: Receipt, path: Path, content: bytes) -> bool:
        """Have a file on disk under its name, whole at once; False when another one lies there."""
        # One name a job, so that what a death leaves is replaced by the next try.
        beside = path.with_name(f".{receipt.job_id}.receipt.tmp")
        beside.unlink(missing_ok=True)
        if os.path.lexists(path):
            return _is_there(path, content)
        durable.write_new(beside, lambda out: out.write(content))
        try:
            durable.promote(beside, path)
        except FileExistsError:
            beside.unlink(missing_ok=True)
            return _is_there(path, content)
        return True

    def _take_back(self, receipt: Receipt, place: Path | None) -> None:
        try:
            for path, _ in receipt.files(place) if place is not None else ():
                durable.remove_file(path)
        except OSError as error:
            log.warning("The receipt of deleted job %s stays: %s", receipt.job_id, error)

    def _tell(self, receipt: Receipt, what: str) -> None:
        """Log why a receipt waits, once."""
        if receipt.job_id not in self._told:
            self._told.add(receipt.job_id)
            log.warning("The receipt of job %s %s. It is tried again every %g s", receipt.job_id, what, RETRY_SECONDS)


def _note(answers: queue.SimpleQueue[Answer], receipt: Receipt, value: Any, error: BaseException | None) -> None:
    answers.put((receipt, value, error))


def _is_there(path: Path, content: bytes) -> bool:
    try:
        return durable.measure(path) == Measured(len(content), hashlib.sha256(content).digest())
    except OSError:
        return False


def _name(receipt: Receipt, number: int) -> str:
    """Name a receipt after the output, with a number where that name is taken; after the job where it is too long."""
    name = receipt.output_path.name
    if len(os.fsencode(name)) + len(SUFFIX + SIGNATURE_SUFFIX) + _ROOM_FOR_NUMBER > _LONGEST_NAME:
        name = receipt.job_id
    return f"{name}{SUFFIX}" if number == 1 else f"{name}.receipt-{number}.json"


def _signer_of(receipt: Receipt) -> Mapping[str, str] | None:
    certificate: Mapping[str, str] | None = json.loads(receipt.content)["certificate"]
    return certificate


def _find_end(profile: OpenedProfile | None, wanted: Mapping[str, str], now: datetime.datetime) -> str | None:
    """Say why nothing is signed any more with the certificate that a receipt names, or None."""
    key = None if profile is None else profile.key
    if profile is None or (key is not None and _certificate_facts(key.certificate) != wanted):
        return "the certificate of its profile is another by now"
    ends = profile.certificate_not_after
    # After its end a certificate signs nothing, receipts neither (BEY-21).
    return profile.outside_validity(now) if ends is not None and now > ends else None


@functools.lru_cache(maxsize=64)
def _certificate_facts(certificate: bytes) -> Mapping[str, str]:
    parsed = x509.load_der_x509_certificate(certificate)
    return {
        "thumbprint": parsed.fingerprint(hashes.SHA1()).hex().upper(),  # noqa: S303 - names a certificate (SEC-82)
        "sha256": hashlib.sha256(certificate).hexdigest(),
        "serial": f"{parsed.serial_number:X}",
    }


def _facts(work: Work, product_version: str) -> dict[str, Any]:
    """Gather what a receipt says that needs no transaction."""
    job, key, task = work.job, work.opened.key, work.task
    policy = None if task is None or task.spec is None else task.spec.policy
    signed = None
    if work.is_encrypted and work.signed_measured is not None:
        signed = {"length": work.signed_measured.length, "sha256": work.signed_measured.sha256.hex()}
    checks: list[dict[str, str]] = []
    if work.checked is not None:
        checks.append({"engine": f"bulksigner {product_version}", "verdict": "valid"})
    checks += [{"engine": opinion.engine, "verdict": "valid"} for opinion in work.opinions]
    return {
        "receipt": 1,
        "product": f"bulksigner {product_version}",
        "chain": None,
        "job": job.id,
        "profile": job.profile_name,
        "input": {"name": job.file_name, "length": job.staged_length, "sha256": job.staged_sha256},
        "output": {
            "name": work.require(work.output).name,
            "length": job.output_length,
            "sha256": job.output_sha256,
            "encrypted": job.output_encrypted,
        },
        "signed": signed,
        "format": job.format.value,
        "level": work.opened.stored.policy,
        "policy": None if policy is None else policy.oid,
        "certificate": None if key is None else dict(_certificate_facts(key.certificate)),
        "times": {
            "taken": write_time(job.created_at),
            "staged": None if job.staged_at is None else write_time(job.staged_at),
            "signed": None if task is None else write_time(task.signed_at),
            "completed": None,
        },
        "checks": checks,
        "repair": None if work.checked is None else work.checked.repair,
        "approvals": [],
    }


def _render(facts: Mapping[str, Any], job: Job, link: Link) -> str:
    completed = job.completed_at or job.updated_at
    told = {
        **facts,
        "chain": attrs.asdict(link),
        "times": {**facts["times"], "completed": write_time(completed)},
    }
    return json.dumps(told, indent=2) + "\n"
