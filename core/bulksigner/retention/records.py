"""What the database knows of retention: finished previews and runs, acknowledgements, and who runs now."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

import attrs

from bulksigner.contract.errors import NotAllowed
from bulksigner.records.events import Event, write_event
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import RetentionAcknowledgementRow, RetentionLeaseRow, RetentionRunRow
from bulksigner.records.times import read_time

__all__ = [
    "LEASE",
    "LONGEST_GAP",
    "Acknowledgement",
    "FinishedRun",
    "acknowledge",
    "find_acknowledgement",
    "hold_lease",
    "last_run",
    "record_run",
    "release_lease",
    "take_lease",
]

LEASE = datetime.timedelta(minutes=15)
"""A run that does not renew its lease for so long is taken for dead; one item may take that long."""
LONGEST_GAP = datetime.timedelta(days=90)
"""Between two previews of a policy; after more its acknowledgement has lapsed (STA-71)."""


@attrs.frozen
class FinishedRun:
    """A preview or a run that ended; `tallies` by class, as they are on the wire."""

    id: str
    is_preview: bool
    fingerprint: str
    actor: str
    started_at: datetime.datetime
    ended_at: datetime.datetime
    manifest: str | None
    tallies: Mapping[str, Any]


@attrs.frozen
class Acknowledgement:
    """Who accepted the policy of this fingerprint, seeing which preview."""

    fingerprint: str
    preview_id: str
    actor: str
    at: datetime.datetime


_COLUMNS = tuple(attrs.fields_dict(FinishedRun))
_INSERT_RUN = Prepared(RetentionRunRow.insert({getattr(RetentionRunRow, name): slot(name) for name in _COLUMNS}))
_RUNS = RetentionRunRow.select(*[getattr(RetentionRunRow, name) for name in _COLUMNS])
_NEWEST_FIRST = (RetentionRunRow.ended_at.desc(), RetentionRunRow.id.desc())
_LAST = Prepared(_RUNS.order_by(*_NEWEST_FIRST).limit(1))
_LAST_OF = Prepared(_RUNS.where(RetentionRunRow.is_preview == slot("is_preview")).order_by(*_NEWEST_FIRST).limit(1))
_PREVIEWS = Prepared(
    _RUNS.where(
        RetentionRunRow.is_preview == slot("is_preview"), RetentionRunRow.fingerprint == slot("fingerprint")
    ).order_by(*_NEWEST_FIRST)
)
_INSERT_ACKNOWLEDGEMENT = Prepared(
    RetentionAcknowledgementRow.insert(
        {
            getattr(RetentionAcknowledgementRow, name): slot(name)
            for name in ("fingerprint", "preview_id", "actor", "at")
        }
    )
)
_ACKNOWLEDGEMENT = Prepared(
    RetentionAcknowledgementRow.select(
        RetentionAcknowledgementRow.preview_id, RetentionAcknowledgementRow.actor, RetentionAcknowledgementRow.at
    )
    .where(RetentionAcknowledgementRow.fingerprint == slot("fingerprint"))
    .order_by(RetentionAcknowledgementRow.id.desc())
    .limit(1)
)
_TAKE = Prepared(
    RetentionLeaseRow.update(
        {RetentionLeaseRow.holder: slot("holder"), RetentionLeaseRow.expires_at: slot("expires_at")}
    ).where(RetentionLeaseRow.holder.is_null() | (RetentionLeaseRow.expires_at < slot("now")))
)
_RENEW = Prepared(
    RetentionLeaseRow.update({RetentionLeaseRow.expires_at: slot("expires_at")}).where(
        RetentionLeaseRow.holder == slot("holder")
    )
)
_RELEASE = Prepared(
    RetentionLeaseRow.update({RetentionLeaseRow.holder: None, RetentionLeaseRow.expires_at: None}).where(
        RetentionLeaseRow.holder == slot("holder")
    )
)


def record_run(store: Store, run: FinishedRun) -> None:
    """Write a finished preview or run, and its event."""
    values = attrs.asdict(run, recurse=False) | {"tallies": json.dumps(run.tallies, sort_keys=True)}
    kind = "RetentionPreviewed" if run.is_preview else "RetentionApplied"
    # Samples name files; the event has the numbers.
    counts = {
        name: {key: part for key, part in tally.items() if key != "samples"} for name, tally in run.tallies.items()
    }
    facts = {"runId": run.id, "actor": run.actor, "fingerprint": run.fingerprint, "classes": counts}
    verb = "looked at" if run.is_preview else "applied"
    event = Event(kind, f"Retention policy {verb} by {run.actor}.", facts | {"manifest": run.manifest})

    def act() -> None:
        store.execute(_INSERT_RUN, **values)
        write_event(store, event, run.ended_at)

    store.write(act)


def last_run(store: Store, *, is_preview: bool | None = None) -> FinishedRun | None:
    """Return the newest run of a kind, or of any."""
    if is_preview is None:
        return _first(store.read(lambda: store.execute(_LAST).rows))
    return _first(store.read(lambda: store.execute(_LAST_OF, is_preview=is_preview).rows))


def acknowledge(store: Store, fingerprint: str, preview_id: str, actor: str, at: datetime.datetime) -> None:
    """Record that a person accepts the policy as its newest preview showed it.

    Raises `NotAllowed` for any other preview: of another policy, or one that a newer has replaced.
    """
    newest = _first(store.read(lambda: store.execute(_PREVIEWS, is_preview=True, fingerprint=fingerprint).rows))
    if newest is None:
        raise NotAllowed(
            "There is no preview of the policy as it is now; make one first: bulksigner retention preview."
        )
    if newest.id != preview_id:
        raise NotAllowed(f"The newest preview of the policy as it is now is {newest.id}; look at that one.")
    event = Event(
        "RetentionPolicyAcknowledged",
        f"Retention policy acknowledged by {actor}.",
        {"actor": actor, "fingerprint": fingerprint, "previewId": preview_id},
    )

    def act() -> None:
        store.execute(_INSERT_ACKNOWLEDGEMENT, fingerprint=fingerprint, preview_id=preview_id, actor=actor, at=at)
        write_event(store, event, at)

    store.write(act)


def find_acknowledgement(store: Store, fingerprint: str, now: datetime.datetime) -> Acknowledgement | None:
    """Return the acknowledgement that is in force, or None; it lapses when previews stay away too long (STA-71)."""

    def look() -> tuple[list[Any], list[Any]]:
        accepted = store.execute(_ACKNOWLEDGEMENT, fingerprint=fingerprint).rows
        return accepted, store.execute(_PREVIEWS, is_preview=True, fingerprint=fingerprint).rows

    accepted, previews = store.read(look)
    if not accepted:
        return None
    preview_id, actor, at = accepted[0][0], accepted[0][1], read_time(accepted[0][2])
    until = now
    for run in map(_read, previews):
        if until - run.ended_at > LONGEST_GAP:
            return None
        if run.id == preview_id:
            return None if at is None else Acknowledgement(fingerprint, preview_id, actor, at)
        until = run.ended_at
    return None


def take_lease(store: Store, holder: str, now: datetime.datetime) -> bool:
    """Become the one who runs; False while another does."""
    return store.write(lambda: store.execute(_TAKE, holder=holder, expires_at=now + LEASE, now=now).count) == 1


def hold_lease(store: Store, holder: str, now: datetime.datetime) -> bool:
    """Stay the one who runs; False when another has taken over."""
    return store.write(lambda: store.execute(_RENEW, holder=holder, expires_at=now + LEASE).count) == 1


def release_lease(store: Store, holder: str) -> None:
    """Let the next one run."""
    store.write(lambda: store.execute(_RELEASE, holder=holder))


def _first(rows: list[Any]) -> FinishedRun | None:
    return _read(rows[0]) if rows else None


def _read(row: Any) -> FinishedRun:
    values = dict(zip(_COLUMNS, row, strict=True))
    for name in ("started_at", "ended_at"):
        values[name] = read_time(values[name])
    return FinishedRun(**values | {"is_preview": bool(values["is_preview"]), "tallies": json.loads(values["tallies"])})
