"""The durable queue: births in, claims out, oldest first (PIPE-02, PIPE-06, PIPE-08, PIPE-65, PIPE-66)."""

from __future__ import annotations

import datetime
import enum
import functools
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import attrs
import peewee

from bulksigner.contract.errors import RaceLost
from bulksigner.jobs.model import PATH_LIMIT, Birth, Changed, Job, Owner, new_id, path_key, utc_now
from bulksigner.jobs.names import name_key
from bulksigner.jobs.rows import COLUMNS, IS_ACTIVE, NAMES, job_values, read_job, write_history_lines
from bulksigner.jobs.states import BIRTHS, TERMINAL, Actor, JobStatus, find_transition
from bulksigner.jobs.store import Jobs, change_of
from bulksigner.records.engines import Act, EngineKind, Store, is_picked
from bulksigner.records.events import write_event
from bulksigner.records.prepared import Prepared, literal, slot
from bulksigner.records.tables import HistoryRow, JobCountRow, JobRow, PipelineStateRow

__all__ = ["Enqueued", "Outcome", "Queue", "Wake"]

_CLAIMED = "Processing started"
_FIRST = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LATE = datetime.timedelta(seconds=60)
_LOOK_ALL_SECONDS = 300.0
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

# Where a trigger would slow down every birth.
_COUNT_ENDED = Prepared(
    JobCountRow.insert(
        {
            JobCountRow.profile_name: slot("profile_name"),
            JobCountRow.status: slot("status"),
            JobCountRow.shard: 0,
            JobCountRow.total: 1,
        }
    ).on_conflict(
        conflict_target=[JobCountRow.profile_name, JobCountRow.status, JobCountRow.shard],
        update={JobCountRow.total: JobCountRow.total + 1},
    )
)
# Without a row, which no migration leaves behind, there is a pause too.
_NO_PAUSE = peewee.fn.EXISTS(
    PipelineStateRow.select(peewee.SQL("1")).where(PipelineStateRow.id == 1, PipelineStateRow.paused == slot("paused"))
)


@functools.cache
def _claim(kind: EngineKind, *, is_chosen: bool, heeds_pause: bool, held_count: int) -> Prepared:
    is_open = JobRow.status == literal(JobStatus.QUEUED)
    if heeds_pause:
        is_open &= _NO_PAUSE
    if is_chosen:
        is_open &= JobRow.id.in_([slot(name) for name in _CHOSEN])
    if held_count:
        is_open &= _is_not_held(held_count)
        is_open &= JobRow.queued_at >= slot("since")
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


def _is_not_held(count: int) -> Any:
    return JobRow.profile_name.not_in([slot(f"held_{number}") for number in range(count)])


@functools.cache
def _waiting_beside_held(held_count: int) -> Prepared:
    return _waiting((JobRow.status == literal(JobStatus.QUEUED)) & _is_not_held(held_count))


def _waiting(condition: Any) -> Prepared:
    return Prepared(
        JobRow.select(JobRow.id, JobRow.original_path)
        .where(condition)
        .order_by(JobRow.queued_at, JobRow.id)
        .limit(slot("limit"))
        .offset(slot("offset"))
    )


_WAITING = _waiting(JobRow.status == literal(JobStatus.QUEUED))
_CLAIMED_AT = Prepared(
    JobRow.select(*COLUMNS).where(
        JobRow.status == literal(JobStatus.PROCESSING),
        IS_ACTIVE,
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


@attrs.define
class _Held:
    """The profiles whose jobs are not claimed, and from where on the queue has others (BEY-20).

    What stands before `since` was seen to be theirs, so that a claim does not read a long row of jobs that wait.
    """

    places: dict[str, str]
    since: datetime.datetime = _FIRST
    look_all_at: float = 0.0

    @classmethod
    def of(cls, names: Collection[str]) -> _Held:
        """Take the names; their number is rounded up, so that few statements are made."""
        ordered = sorted(names)
        count = max(4, 1 << (len(ordered) - 1).bit_length())
        return cls({f"held_{number}": ordered[min(number, len(ordered) - 1)] for number in range(count)})

    def begin(self) -> datetime.datetime:
        """Return from when on this claim looks; now and then at all, for clocks that were set back."""
        if time.monotonic() >= self.look_all_at:
            self.since, self.look_all_at = _FIRST, time.monotonic() + _LOOK_ALL_SECONDS
        return self.since

    def seen(self, claimed: Sequence[Job], limit: int, now: datetime.datetime) -> None:
        """Move on behind what was passed over; a job may be stored somewhat later than it says."""
        oldest = claimed[0].queued_at if len(claimed) == limit else None
        self.since = max(self.since, min(oldest or now, now) - _LATE)


class Queue:
    """Makes jobs and hands them to workers."""

    def __init__(self, store: Store, clock: Callable[[], datetime.datetime] = utc_now) -> None:
        self._store = store
        self._clock = clock
        self._jobs = Jobs(store, clock)
        self.wake = Wake()
        self._held: _Held | None = None

    def hold(self, profiles: Collection[str]) -> None:
        """Claim no jobs of these profiles from now on, and those of all others (BEY-20)."""
        self._held = _Held.of(profiles) if profiles else None
        self.wake.set()

    def enqueue(self, births: Sequence[Birth]) -> list[Enqueued]:
        """Make the jobs in one transaction, then wake the worker; answers stand in the order of `births`.

        A path that an active job has answers `ALREADY_ACTIVE` (PIPE-02), one over 850 characters `PATH_TOO_LONG`
        (PIPE-03); neither disturbs the others. Raises `RaceLost`, for all of them, for a birth whose parent has changed
        since it was read.
        """
        now = self._clock()
        jobs = [None if len(birth.original_path) > PATH_LIMIT else _new_job(birth, now) for birth in births]
        keys = [path_key(birth.original_path) for birth in births]
        # In one order for all, so that two batches with the same paths cannot wait for each other.
        order = sorted(range(len(births)), key=keys.__getitem__)

        def act() -> list[Enqueued]:
            given = [(births[index], job, keys[index]) for index in order if (job := jobs[index]) is not None]
            born = self._bear(given)
            return [self._answer(birth, job, born) for birth, job in zip(births, jobs, strict=True)]

        def settle() -> list[Enqueued] | None:
            answers = [self._found(birth, job) for birth, job in zip(births, jobs, strict=True)]
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
        held = self._held
        held_count = 0 if held is None else len(held.places)
        statement = _claim(
            self._store.kind, is_chosen=chosen is not None, heeds_pause=heeds_pause, held_count=held_count
        )
        # Unused places repeat the last id.
        places = {name: chosen[min(place, len(chosen) - 1)] for place, name in enumerate(_CHOSEN)} if chosen else {}
        find_transition(JobStatus.QUEUED, "claim", Actor.WORKER)
        now = self._clock()
        mine = {"identity": owner.identity, "incarnation": owner.incarnation, "now": now}
        passed_over = {} if held is None else {**held.places, "since": held.begin()}

        def changes(rows: Sequence[Sequence[Any]]) -> list[Changed]:
            # RETURNING promises no order.
            claimed = sorted(map(read_job, rows), key=lambda job: (job.queued_at or now, job.id))
            return [Changed(job, change_of(job, "claim", JobStatus.QUEUED, _CLAIMED), wakes=False) for job in claimed]

        def act() -> list[Changed]:
            rows = self._store.execute(statement, limit=limit, paused=False, **mine, **places, **passed_over).rows
            claimed = changes(rows)
            if held is not None and chosen is None:
                held.seen([changed.job for changed in claimed], limit, now)
            if claimed:
                write_history_lines(self._store, [changed.job for changed in claimed], _CLAIMED)
            return claimed

        def settle() -> list[Changed] | None:
            return changes(self._store.execute(_CLAIMED_AT, **mine).rows) or None

        # A claim that waited for the server could come after another service has taken the database over (DEP-26).
        return Act("claim", act, settle, is_prompt=True)

    def waiting(self, offset: int, limit: int) -> list[tuple[str, str]]:
        """Return ids and input paths of queued jobs in the order in which they are claimed (PIPE-129)."""
        held = self._held
        statement, places = (_WAITING, {}) if held is None else (_waiting_beside_held(len(held.places)), held.places)
        rows = self._store.read(lambda: self._store.execute(statement, offset=offset, limit=limit, **places).rows)
        return [(row[0], row[1]) for row in rows]

    def _bear(self, given: Sequence[tuple[Birth, Job, str]]) -> set[str]:
        """Insert births, jobs and path keys in the act under way; return the ids of those that were not refused."""
        for birth, _, _ in given:
            # With no step it only sees the parent and keeps it from being removed: a birth that is refused leaves no
            # trace.
            self._count_parent(birth, steps=0)
        rows = [{**job_values(job), "path_key": key, "name_key": name_key(job.file_name)} for _, job, key in given]
        if self._store.execute_each(_INSERT, rows) != len(rows):
            given = [one for one in given if self._jobs.get(one[1].id) == one[1]]
        lines: dict[str, list[Job]] = {}
        for birth, job, _ in given:
            lines.setdefault(birth.message, []).append(job)
            self._count_parent(birth, steps=1)
            if job.completed_at is not None and self._store.kind is EngineKind.SQLITE:
                self._store.execute(_COUNT_ENDED, profile_name=job.profile_name, status=job.status)
            if birth.parent_job_id is not None and birth.parent_message is not None:
                self._store.execute(
                    _NOTE_PARENT, at=job.created_at, message=birth.parent_message, parent_id=birth.parent_job_id
                )
            if birth.operational_event is not None:
                write_event(self._store, birth.operational_event, job.created_at)
        for message, jobs in lines.items():
            write_history_lines(self._store, jobs, message)
        return {job.id for _, job, _ in given}

    def _answer(self, birth: Birth, job: Job | None, born: Collection[str]) -> Enqueued:
        if job is None:
            return Enqueued(Outcome.PATH_TOO_LONG, None, None)
        if job.id in born:
            return _born(birth, job)
        holder = self._jobs.active_for(job.original_path)
        if holder is None:
            raise RuntimeError(f"job {job.id} was refused and no active job has its path: its id is taken")
        return Enqueued(Outcome.ALREADY_ACTIVE, holder, None)

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


def _new_job(birth: Birth, now: datetime.datetime) -> Job:
    status = BIRTHS[birth.event]
    return Job(
        id=birth.id or new_id(),
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
