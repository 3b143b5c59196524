"""From candidate to job, or the reason why not: the one service behind every door (PIPE-34)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bulksigner.contract.errors import ProviderError
from bulksigner.contract.signing import Format
from bulksigner.files.durable import is_disk_full
from bulksigner.intake.abilities import Measures
from bulksigner.intake.admission import Admission
from bulksigner.intake.offers import Offer, Outcome, OutcomeKind
from bulksigner.intake.turned_away import ALREADY_PROCESSED, METADATA_INVALID
from bulksigner.jobs.model import PATH_LIMIT, Birth, JobSource
from bulksigner.jobs.states import ACTIVE, JobStatus

if TYPE_CHECKING:
    from bulksigner.intake.folders import OpenedFolder
    from bulksigner.jobs.model import Changed, Job
    from bulksigner.jobs.queue import Enqueued, Queue
    from bulksigner.jobs.store import Jobs
    from bulksigner.profiles.model import StoredProfile
    from bulksigner.profiles.opened import OpenedProfiles

__all__ = ["EnqueueService", "format_for"]

_SKIPPED = frozenset({JobStatus.FAILED, JobStatus.CANCELED})

log = logging.getLogger(__name__)


_IGNORED = Outcome(OutcomeKind.IGNORED)
_ALREADY_ACTIVE = Outcome(OutcomeKind.ALREADY_ACTIVE)
_VANISHED = Outcome(OutcomeKind.VANISHED)
_BORN_AS = {ALREADY_PROCESSED: OutcomeKind.ALREADY_PROCESSED, METADATA_INVALID: OutcomeKind.METADATA_INVALID}


class EnqueueService:
    """Turns batches of candidates into jobs, one query and one transaction a batch.

    `announce` is called for each new job after its commit; `choose_format` answers where a profile names no format.
    """

    def __init__(
        self,
        jobs: Jobs,
        queue: Queue,
        profiles: OpenedProfiles,
        announce: Callable[[Changed], None],
        choose_format: Callable[[str], Format | None],
        admission: Admission,
    ) -> None:
        self._jobs = jobs
        self._queue = queue
        self._profiles = profiles
        self._announce = announce
        self._choose_format = choose_format
        self._admission = admission

    def offer(self, batch: Sequence[Offer]) -> list[Outcome]:
        """Offer files in the order of PIPE-36; the outcomes are in the order of the batch.

        A failure of the database is the outcome `ERROR` of every file it concerns.
        """
        outcomes: dict[int, Outcome] = {}
        births: dict[int, Birth] = {}
        for index, offer in enumerate(batch):
            born = self._birth(offer)
            if isinstance(born, Outcome):
                outcomes[index] = born
            else:
                births[index] = born
        try:
            for numbers in self._admission.names.rounds((index, birth.file_name) for index, birth in births.items()):
                outcomes |= self._bear(batch, {index: births[index] for index in numbers})
        # The database fails in the ways of its driver; each must count towards the watcher's breaker (PIPE-47).
        except Exception as error:
            log.exception("%d files could not be enqueued", len(batch) - len(outcomes))
            failed = Outcome(OutcomeKind.ERROR, f"{type(error).__name__}: {error}", passes=is_disk_full(error))
            return [outcomes.get(index, failed) for index in range(len(batch))]
        return [outcomes[index] for index in range(len(batch))]

    def format_of(self, file_name: str, profile: StoredProfile) -> Format:
        """Return the format a file is signed in: the profile's, or that of its name (PIPE-38)."""
        return format_for(file_name, profile, self._choose_format)

    def insert(self, births: Sequence[Birth]) -> list[Enqueued]:
        """Enqueue in one transaction and announce what was born; what the database raises passes through."""
        results = self._queue.enqueue(births)
        for result in results:
            if result.changed is not None:
                self._announce(result.changed)
        return results

    def _birth(self, offer: Offer) -> Birth | Outcome:
        opened, name = offer.folder, offer.entry.name
        if not opened.is_candidate_name(name):
            return _IGNORED
        profile = self._profiles.bound(opened.name)
        if profile is None:
            return Outcome(OutcomeKind.UNASSIGNED, f"No profile is bound to the folder {opened.name}.")
        stored = profile.stored
        if not stored.enabled:
            return Outcome(OutcomeKind.PROFILE_DISABLED, f"The profile {stored.name} is disabled.")
        path = opened.folder.path_of(name)
        if len(path) > PATH_LIMIT:
            log.warning("%s is not taken: its path has %d characters, %d are allowed", path, len(path), PATH_LIMIT)
            return Outcome(OutcomeKind.PATH_TOO_LONG)
        if not _is_text(path):
            log.warning("%r is not taken: its name is not UTF-8 text; rename it", path)
            return _IGNORED
        door = "rescan of folder" if offer.is_rescan else "folder"
        return Birth(
            file_name=name,
            original_path=path,
            input_folder=opened.name,
            profile_name=stored.name,
            format=self.format_of(name, stored),
            source=JobSource.WATCHER,
            message=f"Queued from {door} {opened.name}",
        )

    def _bear(self, batch: Sequence[Offer], births: Mapping[int, Birth]) -> dict[int, Outcome]:
        """Ask what each file's past, metadata and name say, and insert, while no other door can take one of the names.

        Asked before, the past could miss a job that another door made of the same file meanwhile.
        """
        admitted: dict[int, tuple[OpenedFolder, Birth]] = {}
        with (
            self._admission.names.turn(birth.file_name for birth in births.values()),
            self._admission.settling(admitted),
        ):
            latest = self._jobs.latest_for([birth.original_path for birth in births.values()])
            outcomes = self._skip(batch, births, latest)
            taken = self._admission.names.taken_among([birth.file_name for birth in births.values()])
            for index, birth in births.items():
                if index in outcomes:
                    continue
                opened = batch[index].folder
                answer = self._admission.admit(opened, birth, latest.get(birth.original_path), taken)
                if isinstance(answer, Outcome):
                    outcomes[index] = answer
                else:
                    admitted[index] = opened, answer
            results = self.insert([birth for _, birth in admitted.values()]) if admitted else []
        for index, result in zip(admitted, results, strict=True):
            kind = OutcomeKind(result.outcome.value)
            is_new = kind is OutcomeKind.ENQUEUED
            outcomes[index] = Outcome(_BORN_AS.get(admitted[index][1].event, kind) if is_new else kind)
        return outcomes

    def _skip(
        self, batch: Sequence[Offer], births: Mapping[int, Birth], latest: Mapping[str, Job]
    ) -> dict[int, Outcome]:
        skipped = {}
        for index, birth in births.items():
            job = latest.get(birth.original_path)
            outcome = None if job is None else self._latest_outcome(batch[index], job)
            if outcome is not None:
                skipped[index] = outcome
        return skipped

    def _latest_outcome(self, offer: Offer, job: Job) -> Outcome | None:
        if job.status in ACTIVE:
            return _ALREADY_ACTIVE
        if job.status in _SKIPPED and not (job.path_released or offer.is_rescan):
            # Only a failed job can be retried.
            advice = "retry that job or rescan" if job.status is JobStatus.FAILED else "rescan"
            return _left(job, f"the last job of this path, {job.id}, is {job.status.value}; {advice} the folder")
        # The job that ended removed its input before it ended. A listing made before that still shows the file, so
        # only a look made after the job was read tells a new arrival from a memory.
        try:
            if offer.folder.folder.look(offer.entry.name) != offer.entry:
                return _VANISHED
            if job.status is JobStatus.COMPLETED and job.input_diverged and _is_as_signed(offer, job):
                return _left(
                    job,
                    f"job {job.id} signed these bytes and could not remove them; remove the file, or rename it to "
                    f"have it signed again",
                )
        except ProviderError as error:
            return Outcome(OutcomeKind.VANISHED, error.message)
        return None


def format_for(file_name: str, profile: StoredProfile, choose_format: Callable[[str], Format | None]) -> Format:
    """Return the format a file is signed in: the profile's, or that of its name (PIPE-38)."""
    return profile.format or choose_format(file_name) or Format.CADES


def _left(job: Job, reason: str) -> Outcome:
    log.warning("%s is not taken: %s", job.original_path, reason)
    return Outcome(OutcomeKind.IGNORED, reason)


def _is_as_signed(offer: Offer, job: Job) -> bool:
    """Tell whether a file that was left behind is still what its job signed; in doubt it is, as twice is worse."""
    if offer.entry.length != job.staged_length:
        return False
    folder = offer.folder.folder
    return not isinstance(folder, Measures) or folder.measure(offer.entry.name).sha256.hex() == job.staged_sha256


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
