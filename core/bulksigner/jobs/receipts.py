"""Receipts as they are stored: a chain for each instance, each link with the SHA-256 of the one before (BEY-03)."""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import peewee

from bulksigner.contract.errors import BulkSignerError
from bulksigner.jobs.model import Job, utc_now
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.receipt_tables import ReceiptHeadRow, ReceiptRow
from bulksigner.records.store import Store
from bulksigner.records.times import read_time

__all__ = ["SIGNATURE_SUFFIX", "Head", "Link", "Receipt", "Receipts", "UnreadableReceipt"]

SIGNATURE_SUFFIX = ".p7s"
PAGE_SIZE = 200

_NAMES = (
    "instance",
    "number",
    "job_id",
    "completed_at",
    "previous",
    "sha256",
    "content",
    "profile_name",
    "output_path",
    "signature",
    "place",
    "settled_at",
    "removed_at",
)
_COLUMNS = tuple(getattr(ReceiptRow, name) for name in _NAMES)
_FIRST_HEAD = Prepared(
    ReceiptHeadRow.insert({ReceiptHeadRow.instance: slot("instance"), ReceiptHeadRow.number: 0}).on_conflict_ignore()
)
_NEXT = Prepared(
    ReceiptHeadRow.update({ReceiptHeadRow.number: ReceiptHeadRow.number + 1})
    .where(ReceiptHeadRow.instance == slot("instance"))
    .returning(ReceiptHeadRow.number, ReceiptHeadRow.sha256)
)
_CLOSE = Prepared(
    ReceiptHeadRow.update({ReceiptHeadRow.sha256: slot("sha256")}).where(ReceiptHeadRow.instance == slot("instance"))
)
_INSERT = Prepared(ReceiptRow.insert({column: slot(column.name) for column in _COLUMNS[:9]}))
_OPEN = Prepared(
    ReceiptRow.select(*_COLUMNS)
    .where(
        ReceiptRow.settled_at.is_null(),
        (ReceiptRow.instance > slot("instance"))
        | ((ReceiptRow.instance == slot("instance")) & (ReceiptRow.number > slot("number"))),
    )
    .order_by(ReceiptRow.instance, ReceiptRow.number)
    .limit(slot("limit"))
)
_OF_JOB = Prepared(ReceiptRow.select(*_COLUMNS).where(ReceiptRow.job_id == slot("job_id")))
_RANGE = Prepared(
    ReceiptRow.select(*_COLUMNS)
    .where(
        ReceiptRow.instance == slot("instance"),
        ReceiptRow.number >= slot("first"),
        ReceiptRow.number <= slot("last"),
    )
    .order_by(ReceiptRow.number)
    .limit(slot("limit"))
)
_HEADS = Prepared(
    ReceiptHeadRow.select(ReceiptHeadRow.instance, ReceiptHeadRow.number, ReceiptHeadRow.sha256).order_by(
        ReceiptHeadRow.instance
    )
)
_LAST_NUMBERS = Prepared(
    ReceiptRow.select(ReceiptRow.instance, peewee.fn.MAX(ReceiptRow.number)).group_by(ReceiptRow.instance)
)
_SPAN = Prepared(
    ReceiptRow.select(peewee.fn.MIN(ReceiptRow.number), peewee.fn.MAX(ReceiptRow.number)).where(
        ReceiptRow.instance == slot("instance"),
        ReceiptRow.completed_at >= slot("start"),
        ReceiptRow.completed_at < slot("end"),
    )
)
_PLACES = Prepared(ReceiptRow.select(ReceiptRow.place).where(ReceiptRow.place.is_null(False)))
_SIGN = Prepared(
    ReceiptRow.update({ReceiptRow.signature: slot("signature")}).where(
        ReceiptRow.job_id == slot("job_id"), ReceiptRow.signature.is_null()
    )
)
_SETTLE = Prepared(
    ReceiptRow.update({ReceiptRow.place: slot("place"), ReceiptRow.settled_at: slot("at")}).where(
        ReceiptRow.job_id == slot("job_id"), ReceiptRow.removed_at.is_null()
    )
)
_REMOVE = Prepared(ReceiptRow.update({ReceiptRow.removed_at: slot("at")}).where(ReceiptRow.job_id == slot("job_id")))
_IS_UNSETTLED = (ReceiptRow.job_id == slot("job_id")) & ReceiptRow.settled_at.is_null()
_SETTLE_REMOVED = Prepared(ReceiptRow.update({ReceiptRow.settled_at: slot("at")}).where(_IS_UNSETTLED))
_SETTLE_SIGNED = Prepared(
    ReceiptRow.update({ReceiptRow.settled_at: slot("at")}).where(_IS_UNSETTLED, ReceiptRow.signature.is_null(False))
)


@attrs.frozen
class Link:
    """The place of a receipt in its chain; `previous` is the SHA-256 of the receipt before, None for the first."""

    instance: str
    number: int
    previous: str | None


@attrs.frozen
class Head:
    """The end of a chain: how many receipts it has, and the SHA-256 of the last."""

    instance: str
    number: int
    sha256: str | None


@attrs.frozen
class Receipt:
    """One receipt as stored; `content` are the bytes of its file, `signature` those of the CMS beside it."""

    instance: str
    number: int
    job_id: str
    completed_at: datetime.datetime
    previous: str | None
    sha256: str
    content: bytes = attrs.field(repr=False)
    profile_name: str
    output_path: Path
    signature: bytes | None = attrs.field(repr=False)
    place: Path | None
    settled_at: datetime.datetime | None
    removed_at: datetime.datetime | None

    def files(self, place: Path) -> Iterator[tuple[Path, bytes]]:
        """Yield the files of the receipt at a place, with what is in them: the signature first, if there is one."""
        if self.signature is not None:
            yield place.with_name(place.name + SIGNATURE_SUFFIX), self.signature
        yield place, self.content


class UnreadableReceipt(BulkSignerError):
    """Report a row that holds something which was never written there."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"The row of receipt {number} cannot be read: {reason}")
        self.number = number


class Receipts:
    """Reads receipts, and writes what becomes of them."""

    def __init__(self, store: Store, clock: Callable[[], datetime.datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock

    def add(self, job: Job, write: Callable[[Link], str]) -> None:
        """Give a job the next link of its instance's chain, in the act under way; `write` makes the text of it.

        The link is held from here to the commit, so that no two receipts get the same one.
        """
        instance = job.owner_identity or ""
        self._store.execute(_FIRST_HEAD, instance=instance)
        number, previous = self._store.execute(_NEXT, instance=instance).rows[0]
        content = write(Link(instance, number, previous))
        sha256 = hashlib.sha256(content.encode("ascii")).hexdigest()
        self._store.execute(
            _INSERT,
            instance=instance,
            number=number,
            job_id=job.id,
            completed_at=job.completed_at or job.updated_at,
            previous=previous,
            sha256=sha256,
            content=content,
            profile_name=job.profile_name,
            output_path=job.output_path or "",
        )
        self._store.execute(_CLOSE, instance=instance, sha256=sha256)

    def open_after(self, last: Receipt | None) -> list[Receipt]:
        """Return the next receipts that are not signed or whose files are not written yet, a page."""
        instance, number = ("", 0) if last is None else (last.instance, last.number)
        return self._read(_OPEN, instance=instance, number=number, limit=PAGE_SIZE)

    def of_job(self, job_id: str) -> Receipt | None:
        """Return the receipt of a job, also of one that is gone, or None."""
        found = self._read(_OF_JOB, job_id=job_id)
        return found[0] if found else None

    def sign(self, signatures: dict[str, bytes]) -> None:
        """Record signatures, by job."""

        def act() -> None:
            for job_id, signature in signatures.items():
                self._store.execute(_SIGN, job_id=job_id, signature=base64.b64encode(signature).decode("ascii"))

        self._store.write(act)

    def settle(self, places: dict[str, Path | None]) -> list[str]:
        """Record, by job, where files are, None where there are none; return the jobs whose receipt was removed."""
        now = self._clock()

        def act() -> list[str]:
            removed = []
            for job_id, place in places.items():
                text = None if place is None else str(place)
                if not self._store.execute(_SETTLE, job_id=job_id, place=text, at=now).count:
                    self._store.execute(_SETTLE_REMOVED, job_id=job_id, at=now)
                    removed.append(job_id)
            return removed

        return self._store.write(act)

    def remove(self, job_id: str) -> None:
        """Record that the files of a receipt are taken away; the receipt stays in its chain.

        One without its signature stays open until it has that: at the end of a chain nothing else vouches for it.
        """
        now = self._clock()

        def act() -> None:
            self._store.execute(_REMOVE, job_id=job_id, at=now)
            self._store.execute(_SETTLE_SIGNED, job_id=job_id, at=now)

        self._store.write(act)

    def heads(self) -> list[Head]:
        """Return the end of each chain."""
        rows = self._store.read(lambda: self._store.execute(_HEADS).rows)
        return [Head(*row) for row in rows]

    def last_numbers(self) -> dict[str, int]:
        """Return the highest number among the rows of each instance."""
        rows = self._store.read(lambda: self._store.execute(_LAST_NUMBERS).rows)
        return dict(rows)

    def span(self, instance: str, start: datetime.datetime, end: datetime.datetime) -> tuple[int, int] | None:
        """Return the first and the last number of the jobs that were completed in a period, None without any."""
        rows = self._store.read(lambda: self._store.execute(_SPAN, instance=instance, start=start, end=end).rows)
        first, last = rows[0]
        return None if first is None else (first, last)

    def walk(self, instance: str, first: int, last: int) -> Iterator[Receipt]:
        """Yield what there is of a chain from one number to another, in order. Raises `UnreadableReceipt`."""
        while page := self._rows(_RANGE, instance=instance, first=first, last=last, limit=PAGE_SIZE):
            for row in page:
                try:
                    receipt = _receipt(row)
                except (AttributeError, TypeError, ValueError) as error:
                    raise UnreadableReceipt(row[1], str(error)) from error
                yield receipt
            first = page[-1][1] + 1

    def places(self) -> frozenset[str]:
        """Return the paths of all files that were written, signatures included."""
        rows = self._store.read(lambda: self._store.execute(_PLACES).rows)
        return frozenset(path for (place,) in rows for path in (place, place + SIGNATURE_SUFFIX))

    def _read(self, prepared: Prepared, **values: object) -> list[Receipt]:
        return [_receipt(row) for row in self._rows(prepared, **values)]

    def _rows(self, prepared: Prepared, **values: object) -> Sequence[tuple[Any, ...]]:
        return self._store.read(lambda: self._store.execute(prepared, **values).rows)


def _receipt(row: tuple[Any, ...]) -> Receipt:
    values = dict(zip(_NAMES, row, strict=True))
    completed_at = read_time(values["completed_at"])
    assert completed_at is not None
    return Receipt(
        **values
        | {
            "completed_at": completed_at,
            "content": values["content"].encode("utf-8", "surrogateescape"),
            "output_path": Path(values["output_path"]),
            "signature": _decode(values["signature"]),
            "place": _place(values["place"]),
            "settled_at": read_time(values["settled_at"]),
            "removed_at": read_time(values["removed_at"]),
        }
    )


def _place(text: str | None) -> Path | None:
    place = None if text is None else Path(text)
    if place is not None and not place.name:
        raise ValueError(f"'{text}' is not the path of a file")
    return place


def _decode(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        # Somebody has edited the row; what is no signature is seen as one that does not fit.
        return text.encode("utf-8", "surrogateescape")
