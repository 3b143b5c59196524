"""The state machine, as a table; `jobs.store` reads it and nothing else changes a status (PIPE-06 to PIPE-33)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import attrs

from bulksigner.contract.errors import NotAllowed

__all__ = ["ACTIVE", "BIRTHS", "TERMINAL", "TRANSITIONS", "Actor", "JobStatus", "Transition", "find_transition"]


class JobStatus(enum.Enum):
    """Where a job is; the value is the wire name."""

    QUEUED = "Queued"
    PROCESSING = "Processing"
    VERIFYING = "Verifying"
    AWAITING_SIGNER = "AwaitingSigner"
    AWAITING_APPROVAL = "AwaitingApproval"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"


class Actor(enum.Enum):
    """Who moves a job along."""

    WORKER = "worker"
    APPROVER = "approver"
    CLOCK = "clock"
    OPERATOR = "operator"
    POLLER = "poller"
    RECOVERY = "recovery"
    TAKEOVER = "takeover"


Q, P, V = JobStatus.QUEUED, JobStatus.PROCESSING, JobStatus.VERIFYING
AA, AS = JobStatus.AWAITING_APPROVAL, JobStatus.AWAITING_SIGNER
DONE, FAILED, CANCELED = JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED

TERMINAL = frozenset((DONE, FAILED, CANCELED))
ACTIVE = frozenset(JobStatus) - TERMINAL


@attrs.frozen
class Transition:
    """One row: from each status of `sources`, `event` leads to `target` when one of `actors` brings it."""

    event: str
    sources: tuple[JobStatus, ...]
    target: JobStatus
    actors: frozenset[Actor]


def _row(event: str, sources: Iterable[JobStatus], target: JobStatus, *actors: Actor) -> Transition:
    return Transition(event, tuple(sources), target, frozenset(actors))


TRANSITIONS = (
    _row("claim", [Q], P, Actor.WORKER),  # sets the owner
    _row("park", [P], AA, Actor.WORKER),  # the profile has an approval rule, not yet met
    _row("release", [AA], Q, Actor.APPROVER),  # the verdict releases: back to the common queue
    _row("veto", [AA, Q], CANCELED, Actor.APPROVER),  # also once released, until claimed
    _row("expire", [AA], CANCELED, Actor.CLOCK),  # the wait budget ran out
    _row("dispatch", [P], AS, Actor.WORKER),  # a remote method took the file; the slot is freed
    _row("sign", [P], V, Actor.WORKER),  # signed here
    _row("fetch", [AS], V, Actor.POLLER),  # remote signature downloaded
    _row("complete", [V], DONE, Actor.WORKER, Actor.POLLER),
    _row("fail", [P, V, AS], FAILED, Actor.WORKER, Actor.POLLER),
    _row("overtaken", [P], CANCELED, Actor.WORKER),  # a remote document moved on before it was signed
    _row("give_back", [P], Q, Actor.WORKER),  # key not used: no remote answer (PIPE-121), profile held (BEY-20)
    _row("cancel", [Q, AA, AS], CANCELED, Actor.OPERATOR),
    _row("interrupt", [P, V], FAILED, Actor.RECOVERY, Actor.TAKEOVER),  # the process that had it is gone
    _row("requeue", [P], Q, Actor.RECOVERY, Actor.TAKEOVER),  # key not used; at boot remote documents only (PIPE-26)
    _row("settle_signed", [P, V], DONE, Actor.WORKER, Actor.RECOVERY, Actor.TAKEOVER),  # key used, signed (PIPE-28)
    _row(
        "settle_moved", [P, V], CANCELED, Actor.WORKER, Actor.RECOVERY, Actor.TAKEOVER
    ),  # key used, moved on (PIPE-28)
)

BIRTHS: Mapping[str, JobStatus] = MappingProxyType(
    {"enqueue": Q, "already_processed": FAILED, "metadata_invalid": FAILED, "no_remote_action": FAILED}
)

_BY_SOURCE = {(source, row.event): row for row in TRANSITIONS for source in row.sources}


def find_transition(source: JobStatus, event: str, by: Actor) -> Transition:
    """Return the row for an event, or raise `NotAllowed` naming what is allowed instead."""
    row = _BY_SOURCE.get((source, event))
    if row is None:
        allowed = sorted(name for status, name in _BY_SOURCE if status is source)
        raise NotAllowed(
            f"A job in {source.value} knows no event {event!r}; allowed: {', '.join(allowed) or 'none, it is final'}."
        )
    if by not in row.actors:
        actors = ", ".join(sorted(actor.value for actor in row.actors))
        raise NotAllowed(f"The event {event!r} of a job in {source.value} belongs to: {actors}; not to: {by.value}.")
    return row
