"""Walk the chains of receipts and name the first gap, edit or missing file (BEY-03); nothing is changed."""

from __future__ import annotations

import datetime
import enum
import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7

from bulksigner.audit.accounts import Period
from bulksigner.contract.signing import Format, Measured
from bulksigner.files import durable
from bulksigner.formats import dispatch
from bulksigner.formats.model import CheckFailed, Expectation
from bulksigner.jobs.receipts import Head, Receipt, Receipts, UnreadableReceipt
from bulksigner.records.times import write_time

__all__ = ["Fault", "FaultKind", "Note", "Walked", "walk_chains"]

_EVER = (datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC))


class FaultKind(enum.Enum):
    """What can be wrong with a receipt."""

    GAP = "gap"
    EDIT = "edit"
    MISSING = "missing"


class Note(enum.Enum):
    """What a receipt may be besides whole, and is no fault."""

    WAITING = "waiting"
    """Its job has just ended; signature or files are still to come."""
    UNSIGNED = "unsigned"
    """It has no signature of its own; the next receipt vouches for it."""
    REMOVED = "removed"
    """Its files were taken away with its output, by whoever deleted the job."""


@attrs.frozen
class Fault:
    """The first thing that is wrong with a chain."""

    kind: FaultKind
    instance: str
    number: int
    subject: str
    reason: str


@attrs.frozen
class Walked:
    """How many receipts were looked at, what there is to note, and the first fault of each chain."""

    receipts: int
    notes: Counter[Note]
    faults: tuple[Fault, ...]


class _Wrong(Exception):
    """Report a fault of the receipt that is looked at."""

    def __init__(self, kind: FaultKind, subject: object, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.subject = str(subject)
        self.reason = reason


def walk_chains(receipts: Receipts, period: Period) -> Walked:
    """Walk the chain of each instance, in a period only those receipts whose jobs were completed in it."""
    count, notes, faults = 0, Counter[Note](), list[Fault]()
    # Before the heads: what a service adds meanwhile is behind none of them.
    lasts = receipts.last_numbers()
    heads = {head.instance: head for head in receipts.heads()}
    for instance in sorted(heads.keys() | lasts.keys()):
        head = heads.get(instance) or Head(instance, 0, None)
        walk = _Walk(receipts, head)
        fault = walk.find_fault(period)
        if fault is None and lasts.get(instance, 0) > head.number:
            reason = f"the chain is said to end with receipt {head.number}, and this one is behind it"
            fault = Fault(FaultKind.EDIT, instance, head.number + 1, "the database", reason)
        count += walk.count
        notes += walk.notes
        if fault is not None:
            faults.append(fault)
    return Walked(count, notes, tuple(faults))


@attrs.define
class _Walk:
    """The walk along one chain, up to what was its end when it began."""

    receipts: Receipts
    head: Head
    count: int = 0
    notes: Counter[Note] = attrs.field(factory=Counter)
    unvouched: int | None = None
    """The first receipt without a signature that no signed one follows."""

    def find_fault(self, period: Period) -> Fault | None:
        first, last = 1, self.head.number
        if period.start is not None or period.end is not None:
            span = self.receipts.span(self.head.instance, period.start or _EVER[0], period.end or _EVER[1])
            if span is None:
                return self._find_hole(period)
            first, last = span
        expected = first
        previous: str | None = None
        try:
            if first > 1:
                before = next(self.receipts.walk(self.head.instance, first - 1, first - 1), None)
                if before is None:
                    expected -= 1
                    raise _missing_row(expected)
                previous = before.sha256
            for receipt in self.receipts.walk(self.head.instance, first, last):
                if receipt.number != expected:
                    raise _missing_row(expected)
                self._look(receipt, previous)
                previous = receipt.sha256
                expected += 1
            if expected <= last:
                raise _missing_row(expected)
            if last < self.head.number and not self._has(last + 1):
                # It may have been the last of the period, or the end of the chain was cut off.
                expected = last + 1
                raise _missing_row(expected)
            if last == self.head.number and previous != self.head.sha256:
                expected = last
                raise _Wrong(FaultKind.EDIT, "the database", "the last receipt is not the one that was written last")
            if last == self.head.number and self.unvouched is not None:
                expected = self.unvouched
                reason = "it has no signature, and no signed receipt follows that would vouch for it"
                raise _Wrong(FaultKind.EDIT, "the database", reason)
        except UnreadableReceipt as error:
            return Fault(FaultKind.EDIT, self.head.instance, error.number, "the database", error.message)
        except _Wrong as wrong:
            return Fault(wrong.kind, self.head.instance, expected, wrong.subject, wrong.reason)
        return None

    def _find_hole(self, period: Period) -> Fault | None:
        """See that a period without receipts never had one: those before and those after it are neighbours."""
        instance = self.head.instance
        before = None if period.start is None else self.receipts.span(instance, _EVER[0], period.start)
        after = None if period.end is None else self.receipts.span(instance, period.end, _EVER[1])
        number = 1 if before is None else before[1] + 1
        if number >= (self.head.number + 1 if after is None else after[0]):
            return None
        wrong = _missing_row(number)
        return Fault(wrong.kind, instance, number, wrong.subject, wrong.reason)

    def _has(self, number: int) -> bool:
        return any(True for _ in self.receipts.walk(self.head.instance, number, number))

    def _look(self, receipt: Receipt, previous: str | None) -> None:
        self.count += 1
        subject = f"the receipt of job {receipt.job_id} in the database"
        if hashlib.sha256(receipt.content).hexdigest() != receipt.sha256:
            raise _Wrong(FaultKind.EDIT, subject, "its content is not what its SHA-256 was taken of")
        told = _read(receipt, subject)
        link = {"instance": receipt.instance, "number": receipt.number, "previous": receipt.previous}
        if told.get("chain") != link or told.get("job") != receipt.job_id:
            raise _Wrong(FaultKind.EDIT, subject, "its content names another place in the chain, or another job")
        if not _fits_columns(told, receipt):
            raise _Wrong(FaultKind.EDIT, subject, "its row names another profile, output or time than its content")
        if receipt.previous != previous:
            raise _Wrong(FaultKind.EDIT, subject, "it does not follow on the one before: either was replaced")
        if receipt.signature is not None:
            _check_signature(receipt, told, subject)
            self.unvouched = None
        elif receipt.settled_at is not None:
            self.notes[Note.UNSIGNED] += 1
            self.unvouched = self.unvouched or receipt.number
        if receipt.removed_at is not None:
            self.notes[Note.REMOVED] += 1
        elif receipt.place is None and receipt.settled_at is not None:
            raise _Wrong(FaultKind.EDIT, subject, "its files were written, and the row does not say where")
        elif receipt.place is None:
            self.notes[Note.WAITING] += 1
        else:
            for path, content in receipt.files(receipt.place):
                _compare(path, content)


def _missing_row(number: int) -> _Wrong:
    return _Wrong(FaultKind.GAP, "the database", f"there is no receipt with the number {number}")


def _read(receipt: Receipt, subject: str) -> dict[str, Any]:
    try:
        told = json.loads(receipt.content)
    except ValueError as error:
        raise _Wrong(FaultKind.EDIT, subject, f"its content is no JSON: {error}") from error
    if not isinstance(told, dict):
        raise _Wrong(FaultKind.EDIT, subject, "its content is no receipt")
    return told


def _fits_columns(told: dict[str, Any], receipt: Receipt) -> bool:
    times, output = told.get("times"), told.get("output")
    if not isinstance(times, dict) or not isinstance(output, dict):
        return False
    said = (times.get("completed"), told.get("profile"), output.get("name"))
    return said == (write_time(receipt.completed_at), receipt.profile_name, receipt.output_path.name)


def _check_signature(receipt: Receipt, told: dict[str, Any], subject: str) -> None:
    """Check the CMS with the certificate that the receipt names, as a signed file is checked."""
    signature = receipt.signature or b""
    named = told.get("certificate")
    wanted = named.get("sha256") if isinstance(named, dict) else None
    try:
        found = [one.public_bytes(Encoding.DER) for one in pkcs7.load_der_pkcs7_certificates(signature)]
    except ValueError as error:
        raise _Wrong(FaultKind.EDIT, subject, f"its signature is no CMS: {error}") from error
    signer = next((one for one in found if hashlib.sha256(one).hexdigest() == wanted), None)
    if signer is None:
        raise _Wrong(FaultKind.EDIT, subject, "its signature is not by the certificate that it names")
    content = Measured(len(receipt.content), hashlib.sha256(receipt.content).digest())
    try:
        dispatch.check(io.BytesIO(signature), Expectation(Format.CADES, signer, content), detached=True)
    except CheckFailed as error:
        raise _Wrong(FaultKind.EDIT, subject, f"its signature does not hold: {error.message}") from error


def _compare(path: Path, content: bytes) -> None:
    try:
        measured = durable.measure(path)
    except FileNotFoundError as error:
        raise _Wrong(FaultKind.MISSING, path, "the file is not there") from error
    except OSError as error:
        raise _Wrong(FaultKind.MISSING, path, f"the file cannot be read: {error.strerror or error}") from error
    if measured != Measured(len(content), hashlib.sha256(content).digest()):
        raise _Wrong(FaultKind.EDIT, path, "the file is not what was written")
