"""The durable queue: births in, claims out, oldest first (PIPE-02, PIPE-06, PIPE-08, PIPE-65, PIPE-66)."""

from __future__ import annotations

import datetime
import enum
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import peewee

from bulksigner.contract.errors import RaceLost
from bulksigner.jobs.model import PATH_LIMIT, Birth, Changed, Job, Owner, path_key, utc_now
from bulksigner.jobs.names import name_key
from bulksigner.jobs.rows import COLUMNS, NAMES, job_values, read_job, write_history, write_history_lines
from bulksigner.jobs.states import BIRTHS, TERMINAL, Actor, JobStatus, find_transition
from bulksigner.jobs.store import Jobs, change_of
from bulksigner.records.engines import Act, EngineKind, Store, is_picked
from bulksigner.records.events import write_event
from bulksigner.records.prepared import Prepared, literal, slot
from bulksigner.records.tables import HistoryRow, JobRow, PipelineStateRow

__all__ = ["Enqueued", "Outcome", "Queue", "Wake"]

_CLAIMED = "Processing started"
_CHOSEN = [f"chosen_{number}" for number in range(32)]
"""The slots of a claim of chosen jobs: no more can be claimed at once than `Pipeline:MaxConcurrency` may be."""

_INSERT = Prepared(
    JobRow.insert({getattr(JobRow, name): slot(name) for name in (*NAMES, "path_key", "name_key")}).on_conflict_ignore()
)
_NOTE_PARENT = Prepared(
    HistoryRow.insert_from(
        JobRow.select(JobRow.id, slot("at"), JobRow.status, slot("message")).where(JobRow.id == slot("parent_id")),
        [HistoryRow.job_id, HistoryRow.at, HistoryRow.status, HistoryRow.message],
    )
)
_COUNT_PARENT = Prepared(
    JobRow.update({JobRow.row_version: JobRow.row_version + slot("steps")}).where(
        JobRow.id == slot("parent_id"), JobRow.row_version == slot("row_version")
    )
)


# Without a row, which no migration leaves behind, there is a pause too.
_NO_PAUSE = peewee.fn.EXISTS(
    PipelineStateRow.select(peewee.SQL("1")).where(PipelineStateRow.id == 1, PipelineStateRow.paused == slot("paused"))
)


def _claim(kind: EngineKind, *, is_chosen: bool, heeds_pause: bool) -> Prepared:
    is_open = JobRow.status == literal(JobStatus.QUEUED)
    if heeds_pause:
        is_open &= _NO_PAUSE
    if is_chosen:
        is_open &= JobRow.id.in_([slot(name) for name in _CHOSEN])
    oldest = JobRow.select(JobRow.id).where(is_open).order_by(JobRow.queued_at, JobRow.id).limit(slot("limit"))
    return Prepared(
        JobRow.update(
            {
                JobRow.status: literal(JobStatus.PROCESSING),
                JobRow.updated_at: slot("now"),
                JobRow.row_version: JobRow.row_version + 1,
                JobRow.owner_identity: slot("identity"),
                JobRow.owner_incarnation: slot("incarnation"),
            }
        )
        .where(is_picked(kind, JobRow.id, oldest))
        .returning(*COLUMNS)
    )


_CLAIM = {
    (kind, is_chosen, heeds_pause): _claim(kind, is_chosen=is_chosen, heeds_pause=heeds_pause)
    for kind in EngineKind
    for is_chosen in (False, True)
    for heeds_pause in (False, True)
}
_WAITING = Prepared(
    JobRow.select(JobRow.id, JobRow.original_path)
    .where(JobRow.status == literal(JobStatus.QUEUED))
    .order_by(JobRow.queued_at, JobRow.id)
    .limit(slot("limit"))
    .offset(slot("offset"))
)
_CLAIMED_AT = Prepared(
    JobRow.select(*COLUMNS).where(
        JobRow.status == literal(JobStatus.PROCESSING),
        JobRow.owner_identity == slot("identity"),
        JobRow.owner_incarnation == slot("incarnation"),
        JobRow.updated_at == slot("now"),
    )
)


class Outcome(enum.Enum):
    """What became of a birth; the value is the wire name (PIPE-35)."""

    ENQUEUED = "Enqueued"
    ALREADY_ACTIVE = "AlreadyActive"
    PATH_TOO_LONG = "PathTooLong"


@attrs.frozen
class Enqueued:
    """The outcome of one birth; `job` is the new job or the one that has the path, `changed` only of a new one."""

    outcome: Outcome
    job: Job | None
    changed: Changed | None


class Wake:
    """Tells a waiting worker that there is something to claim (PIPE-64); a signal given early is not lost."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._listener: Callable[[], None] | None = None

    def set(self) -> None:
        """Give the signal."""
        self._event.set()
        if self._listener is not None:
            self._listener()

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Have `listener` called at each signal, in the thread that gives it; it must be quick."""
        self._listener = listener

    def take(self) -> bool:
        """Take the signal; False when none was given."""
        is_given = self._event.is_set()
        if is_given:
            self._event.clear()
        return is_given


class Queue:
    """Makes jobs and hands them to workers."""

    def __init__(self, store: Store, clock: Callable[[], datetime.datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock
        self._jobs = Jobs(store, clock)
        self.wake = Wake()

    def enqueue(self, births: Sequence[Birth]) -> list[Enqueued]:
        """Make the jobs in one transaction, then wake the worker; answers stand in the order of `births`.

        A path that an active job has answers `ALREADY_ACTIVE` (PIPE-02), one over 850 characters `PATH_TOO_LONG`
        (PIPE-03); neither disturbs the others. Raises `RaceLost`, for all of them, for a birth whose parent has changed
        since it was read.
        """
        now = self._clock()
        keys = [path_key(birth.original_path) for birth in births]
        # In one order for all, so that two batches with the same paths cannot wait for each other.
        order = sorted(range(len(births)), key=keys.__getitem__)
        # The ids in that order too: what is claimed together then lies together in the table and its indexes, and a
        # commit writes half as many pages of them.
        ids = sorted(str(uuid.uuid4()) for _ in births)
        jobs = {index: _new_job(births[index], job_id, now) for index, job_id in zip(order, ids, strict=True)}

        def act() -> list[Enqueued]:
            answers = {index: self._bear(births[index], jobs[index], keys[index]) for index in order}
            return [answers[index] for index in range(len(births))]

        def settle() -> list[Enqueued] | None:
            answers = [self._found(birth, jobs[index]) for index, birth in enumerate(births)]
            return answers if any(answer.changed for answer in answers) else None

        answers = self._store.write(act, settle=settle)
        if any(answer.changed is not None and answer.changed.wakes for answer in answers):
            self.wake.set()
        return answers

    def claim(self, limit: int, owner: Owner) -> list[Changed]:
        """Take up to `limit` of the oldest queued jobs and wait for it; see `claiming`."""
        return self._store.carry_out(self.claiming(limit, owner))

    def claiming(
        self, limit: int, owner: Owner, chosen: Sequence[str] | None = None, *, heeds_pause: bool = False
    ) -> Act[list[Changed]]:
        """Return the act that takes up to `limit` of the oldest queued jobs for `owner`, in one statement (PERF-08).

        With `chosen`, 1 to 32 ids, only those of them that are still queued (PIPE-129). With `heeds_pause` none during
        a pause, for which the same statement looks (CLU-55).
        """
        statement = _CLAIM[self._store.kind, chosen is not None, heeds_pause]
        # Unused places repeat the last id.
        places = {name: chosen[min(place, len(chosen) - 1)] for place, name in enumerate(_CHOSEN)} if chosen else {}
        find_transition(JobStatus.QUEUED, "claim", Actor.WORKER)
        now = self._clock()
        mine = {"identity": owner.identity, "incarnation": owner.incarnation, "now": now}

        def changes(rows: Sequence[Sequence[Any]]) -> list[Changed]:
            # RETURNING promises no order.
            claimed = sorted(map(read_job, rows), key=lambda job: (job.queued_at or now, job.id))
            return [Changed(job, change_of(job, "claim", JobStatus.QUEUED, _CLAIMED), wakes=False) for job in claimed]

        def act() -> list[Changed]:
            claimed = changes(self._store.execute(statement, limit=limit, paused=False, **mine, **places).rows)
            if claimed:
                write_history_lines(self._store, [changed.job for changed in claimed], _CLAIMED)
            return claimed

        def settle() -> list[Changed] | None:
            return changes(self._store.execute(_CLAIMED_AT, **mine).rows) or None

        # A claim that waited for the server could come after another service has taken the database over (DEP-26).
        return Act("claim", act, settle, is_prompt=True)

    def waiting(self, offset: int, limit: int) -> list[tuple[str, str]]:
        """Return ids and input paths of queued jobs in the order in which they are claimed (PIPE-129)."""
        rows = self._store.read(lambda: self._store.execute(_WAITING, offset=offset, limit=limit).rows)
        return [(row[0], row[1]) for row in rows]

    def _bear(self, birth: Birth, job: Job | None, key: str) -> Enqueued:
        if job is None:
            return Enqueued(Outcome.PATH_TOO_LONG, None, None)
        # With no step it only sees the parent and keeps it from being removed: a birth that is refused leaves no trace.
        self._count_parent(birth, steps=0)
        if self._store.execute(_INSERT, path_key=key, name_key=name_key(job.file_name), **job_values(job)).count != 1:
            holder = self._jobs.active_for(job.original_path)
            if holder is None:
                raise RuntimeError(f"job {job.id} was refused and no active job has its path: its id is taken")
            return Enqueued(Outcome.ALREADY_ACTIVE, holder, None)
        self._count_parent(birth, steps=1)
        write_history(self._store, job.id, job.created_at, job.status, birth.message)
        if birth.parent_job_id is not None and birth.parent_message is not None:
            self._store.execute(
                _NOTE_PARENT, at=job.created_at, message=birth.parent_message, parent_id=birth.parent_job_id
            )
        if birth.operational_event is not None:
            write_event(self._store, birth.operational_event, job.created_at)
        return _born(birth, job)

    def _count_parent(self, birth: Birth, *, steps: int) -> None:
        """Refuse the child of a job that was deleted meanwhile, or is being deleted, also by another process."""
        if birth.parent_row_version is None:
            return
        values = {"parent_id": birth.parent_job_id, "row_version": birth.parent_row_version, "steps": steps}
        if self._store.execute(_COUNT_PARENT, **values).count != 1:
            raise RaceLost(f"Job {birth.parent_job_id} is no longer as it was read; nothing was recorded.")

    def _found(self, birth: Birth, job: Job | None) -> Enqueued:
        """Tell what became of a birth whose commit had no answer."""
        if job is None:
            return Enqueued(Outcome.PATH_TOO_LONG, None, None)
        if self._jobs.get(job.id) is not None:
            return _born(birth, job)
        return Enqueued(Outcome.ALREADY_ACTIVE, self._jobs.active_for(job.original_path), None)


def _new_job(birth: Birth, new_id: str, now: datetime.datetime) -> Job | None:
    """Return the job of a birth; None where its path is too long for one."""
    if len(birth.original_path) > PATH_LIMIT:
        return None
    status = BIRTHS[birth.event]
    return Job(
        id=birth.id or new_id,
        file_name=birth.file_name,
        original_path=birth.original_path,
        input_folder=birth.input_folder,
        profile_name=birth.profile_name,
        certificate_source=None,
        format=birth.format,
        source=birth.source,
        status=status,
        created_at=now,
        queued_at=now if status is JobStatus.QUEUED else None,
        updated_at=now,
        completed_at=now if status in TERMINAL else None,
        parent_job_id=birth.parent_job_id,
        error_code=birth.error_code,
        error_message=birth.error_message,
        owner_identity=None,
        owner_incarnation=None,
        sign_call_started_at=None,
        staged_length=None,
        staged_sha256=None,
        staged_etag=None,
        staged_at=None,
        output_path=None,
        output_sha256=None,
        output_length=None,
        output_modified_at=None,
        path_released=birth.path_released,
        input_diverged=False,
        row_version=1,
        metadata=birth.metadata,
        sidecar_sha256=birth.sidecar_sha256,
    )


def _born(birth: Birth, job: Job) -> Enqueued:
    change = change_of(job, birth.event, None, birth.message)
    return Enqueued(Outcome.ENQUEUED, job, Changed(job, change, wakes=job.status is JobStatus.QUEUED))
