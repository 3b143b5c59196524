"""How a job ends: Completed once its output is delivered, Failed with its folder kept, on disk either way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bulksigner.contract.codes import CODES
from bulksigner.contract.errors import BulkSignerError, NotAllowed, RaceLost, StepFailed
from bulksigner.files import durable
from bulksigner.files.durable import is_disk_full
from bulksigner.jobs.model import Changed, Job
from bulksigner.jobs.states import TERMINAL, Actor, JobStatus
from bulksigner.jobs.store import change_of
from bulksigner.observability.logs import facts
from bulksigner.pipeline.conductor import Effect, apart
from bulksigner.pipeline.giving_back import find_met, giving_back
from bulksigner.pipeline.plan import Step
from bulksigner.pipeline.spans import spans_of
from bulksigner.pipeline.steps.promote import is_companion_delivered, is_output_delivered
from bulksigner.pipeline.tasks import DiscardTask
from bulksigner.pipeline.work import Work
from bulksigner.plugin_system.guard import describe
from bulksigner.records.engines import Act
from bulksigner.records.events import Event

__all__ = ["Ending"]

log = logging.getLogger(__name__)

WAITS_SECONDS = (0.2, 1.0, 5.0, 15.0, 30.0)
DISCARDED_TOGETHER = 8
LONGEST_TEXT = 4000
"""What is stored of a failure's text, in characters; a plugin may say any amount."""


class Ending:
    """Ends jobs; when the database refuses, waits and tries again until it takes the end or the service stops.

    A job whose end cannot be recorded stays in flight in the database, and the sweep of the next start settles it.
    """

    def __init__(
        self,
        stopping: threading.Event,
        pause: Callable[[float], Effect[None]],
        count_under_way: Callable[[], int] = lambda: 1,
    ) -> None:
        self._stopping = stopping
        self._pause = pause
        self._count_under_way = count_under_way
        self._to_discard: list[Path] = []

    async def complete(self, work: Work) -> None:
        """Record that the job is done; its output is delivered, so nothing may turn it into a failure any more."""
        changed = await self._insist(work, JobStatus.COMPLETED, lambda: _completion(work))
        if changed is None:
            return
        work.job = changed.job
        if work.divergence:
            log.warning(
                "The input of completed job %s was left in place: %s (%s)",
                work.job.id,
                work.job.original_path,
                work.divergence,
            )
        log.info(
            "Job completed",
            extra=facts(
                job_id=work.job.id,
                profile=work.job.profile_name,
                format=work.job.format,
                output=work.job.output_path,
                sign_ms=_milliseconds(work, "sign"),
                verify_ms=_milliseconds(work, "verify"),
            ),
        )
        work.parts.metrics.observe("bulksigner_signing_duration_seconds", _measured(work), work.job.format.value)
        if work.parts.receipts is not None:
            work.parts.receipts.hand_over(work)
        await work.parts.tell(changed)
        if work.divergence and not work.is_input_kept:
            work.parts.inputs.offer_again(work.job)
        self._to_discard.append(work.folder)

    async def fail(self, work: Work, step: Step, error: BaseException) -> None:
        """Keep the job's folder under `error/`, then record Failed with code and text (PIPE-86)."""
        is_expected = isinstance(error, BulkSignerError)
        code = error.code or step.code if isinstance(error, BulkSignerError) else step.code
        text = error.message if isinstance(error, BulkSignerError) else describe(error)
        if is_disk_full(error):
            text = f"{text.rstrip('.')}. Free space below {work.parts.roots.root}, then retry the job."
        # Before it is stored anywhere (SEC-57).
        text = work.parts.scrub(text)[:LONGEST_TEXT]
        if work.parts.holds is not None and await self._hold(work, code, text, error):
            return
        log.log(
            logging.WARNING if is_expected else logging.ERROR,
            "Job failed in step %s: %s",
            step.name,
            text,
            exc_info=None if is_expected else error,
            extra=facts(job_id=work.job.id, file_name=work.job.file_name, profile=work.job.profile_name, code=code),
        )
        if isinstance(error, RaceLost):
            # Another writer has the job's row (it was cleared, or taken over): its files are that writer's business.
            await apart(lambda: _drop_if_cleared(work))
            return
        undelivered = await apart(lambda: _keep_files(work))
        changed = await self._insist(work, JobStatus.FAILED, lambda: _failure(work, code, text, undelivered))
        if changed is not None:
            work.job = changed.job
            await work.parts.tell(changed)

    async def _hold(self, work: Work, code: str | None, text: str, error: BaseException) -> bool:
        """Hold the profile where every file of it would fail alike; tell whether the job waits too (BEY-20)."""
        holds, met = work.parts.holds, find_met(work, code, error)
        profile = work.profile or work.parts.profiles.get(work.job.profile_name)
        if holds is None or met is None or profile is None:
            return False
        # Before the job is back in the queue, or it would be claimed again at once.
        holds.hold(profile, met.cause, text, spelled=work.job.profile_name)
        if not met.is_key_unused:
            return False
        log.info("Job given back, as its profile is held", extra=facts(job_id=work.job.id, profile=profile.name))
        await apart(lambda: _drop_staged(work))
        changed = await self._insist(work, JobStatus.QUEUED, lambda: giving_back(work, text))
        if changed is not None:
            work.job = changed.job
            await work.parts.tell(changed)
        return True

    async def clear_away(self, work: Work) -> None:
        """Remove the folders of completed jobs (PIPE-84): several at a time while more jobs are under way."""
        while len(self._to_discard) >= DISCARDED_TOGETHER or (self._to_discard and self._count_under_way() <= 1):
            folders, self._to_discard = tuple(self._to_discard), []
            try:
                await work.perform_again(DiscardTask(folders))
            except StepFailed as error:  # the next start clears it (CLU-87)
                log.warning("The folder of a completed job could not be removed: %s", error.message)

    async def _insist(self, work: Work, end: JobStatus, act: Callable[[], Act[Changed]]) -> Changed | None:
        is_told = False
        for wait_seconds in _waits():
            try:
                return await _attempt(work, end, act)
            except (RaceLost, NotAllowed) as error:
                log.warning("Job %s was not recorded as %s: %s", work.job.id, end.value, error.message)
                await apart(lambda: _drop_if_cleared(work))
                return None
            except Exception:  # the store is gone or full; what is on disk is settled, only its record is missing
                if not is_told:
                    log.exception("Job %s cannot be recorded as %s yet; trying again", work.job.id, end.value)
                is_told = True
            await self._pause(0.0 if self._stopping.is_set() else wait_seconds)
            if self._stopping.is_set():
                break
        log.critical("Job %s was not recorded as %s; the next start settles it", work.job.id, end.value)
        return None


def _drop_if_cleared(work: Work) -> None:
    """Remove the folders of a job whose row is gone, as whoever removed the row could not know of them (PIPE-104)."""
    try:
        if work.parts.jobs.get(work.job.id) is None:
            for folder in (work.parts.roots.job_folder(work.job.id), work.parts.roots.error_folder(work.job.id)):
                durable.remove_folder(folder)
    except (BulkSignerError, OSError) as error:
        log.warning("What job %s has left below processing/ or error/ stays: %s", work.job.id, describe(error))


def _drop_staged(work: Work) -> None:
    """Remove the staged copy of a job that is given back; the next claim makes its own in the place of what stays."""
    try:
        durable.remove_folder(work.parts.roots.job_folder(work.job.id))
    except OSError as error:
        log.warning("What job %s has left below processing/ stays: %s", work.job.id, describe(error))


def _keep_files(work: Work) -> Mapping[str, Any]:
    """Move the job's folder to `error/`; return the columns to empty, of what was not delivered all the same."""
    has_left_content = is_companion_delivered(work.job, work.parts.roots)
    try:
        work.parts.roots.fail_job_folder(work.job.id)
    except OSError as error:
        log.warning("The folder of job %s could not be moved to error/: %s", work.job.id, error)
    undelivered = {} if is_output_delivered(work.job) else _NO_OUTPUT
    return undelivered if has_left_content else {**undelivered, "companion_path": None}


async def _attempt(work: Work, end: JobStatus, act: Callable[[], Act[Changed]]) -> Changed | None:
    """Try once; a race lost only to a commit of our own that was never answered is none (DEP-29)."""
    try:
        return await work.parts.write(act())
    except RaceLost:
        found = work.parts.jobs.get(work.job.id)
        if found is None or not _is_ours(found, work.job) or end is JobStatus.QUEUED:
            # A job that is given back may have been claimed again, and is its next claim's then.
            raise
        if found.status is end:
            return Changed(found, change_of(found, _EVENTS[end], work.job.status, ""), wakes=False)
        if found.status in TERMINAL or found.row_version == work.job.row_version:
            raise
        work.job = found
        return await work.parts.write(act())


_EVENTS = {JobStatus.COMPLETED: "complete", JobStatus.FAILED: "fail", JobStatus.QUEUED: "give_back"}


def _is_ours(found: Job, job: Job) -> bool:
    owner = (found.owner_identity, found.owner_incarnation)
    return None not in owner and owner == (job.owner_identity, job.owner_incarnation)


# Nothing of the job was delivered; what lies under that name, if anything, is another's.
_NO_OUTPUT: Mapping[str, Any] = {
    "output_path": None,
    "output_length": None,
    "output_sha256": None,
    "output_encrypted": False,
}


def _waits() -> Iterator[float]:
    yield from WAITS_SECONDS
    while True:
        yield WAITS_SECONDS[-1]


def _completion(work: Work) -> Act[Changed]:
    """Return the act of Completed, with the divergence when the input was left (PIPE-84, PIPE-93)."""
    event = None
    message = f"Completed: {work.require(work.output).name}"
    if work.job.companion_path is not None:
        message += f", beside {work.job.file_name}"
    if work.divergence:
        message += f"; job.input-diverged: the input was left in place ({work.divergence})"
        event = Event(
            "InputDiverged",
            f"Input of job {work.job.id} ('{work.job.file_name}') was left in place: {work.divergence}.",
            {
                "jobId": work.job.id,
                "fileName": work.job.file_name,
                "code": "job.input-diverged",
                "reason": work.divergence,
                "profile": work.job.profile_name,
            },
        )
    return work.parts.jobs.moving(
        work.job,
        _EVENTS[JobStatus.COMPLETED],
        by=Actor.WORKER,
        message=message,
        operational_event=event,
        also=_beside(work),
        output_modified_at=work.delivered.modified_at if work.delivered else None,
        input_diverged=bool(work.divergence),
        error_code="job.input-diverged" if work.divergence else None,
        error_message="job.input-diverged" if work.divergence else None,
    )


def _beside(work: Work) -> Callable[[Job], None] | None:
    """Return what the act of Completed writes besides: the timings, and the receipt (BEY-03)."""
    timings, receipts = _timings(work), work.parts.receipts
    if receipts is None:
        return timings
    write_receipt = receipts.draft(work)

    def write(job: Job) -> None:
        write_receipt(job)
        if timings is not None:
            timings(job)

    return write


def _timings(work: Work) -> Callable[[Job], None] | None:
    record, spans = work.parts.record_timings, spans_of(work)
    return None if record is None else lambda job: record(job, spans)


def _failure(work: Work, code: str | None, text: str, undelivered: Mapping[str, Any]) -> Act[Changed]:
    return work.parts.jobs.moving(
        work.job,
        _EVENTS[JobStatus.FAILED],
        by=Actor.WORKER,
        message=f"{code}: {text}" if code else text,
        error_code=code,
        error_message=_error_message(code, text),
        **undelivered,
    )


def _error_message(code: str | None, text: str) -> str:
    """Render `errorMessage` as the end of rest-api section 6 says: code alone, code and text, or text."""
    if code is None:
        return text
    row = CODES.get(code)
    return f"{code}: {text}" if row is None or row.text_on_job else code


def _measured(work: Work) -> float:
    """Return what signing, verification and delivery took, in seconds (STA-13)."""
    return sum(work.seconds.get(step, 0.0) for step in ("sign", "verify", "promote"))


def _milliseconds(work: Work, step: str) -> int:
    return round(work.seconds.get(step, 0.0) * 1000)
