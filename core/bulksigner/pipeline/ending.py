"""How a job ends: Completed once its output is delivered, Failed with its folder kept, on disk either way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

from bulksigner.contract.codes import CODES
from bulksigner.contract.errors import BulkSignerError, NotAllowed, RaceLost
from bulksigner.jobs.states import Actor
from bulksigner.pipeline.steps.clean import finish
from bulksigner.pipeline.work import Work

__all__ = ["Ending"]

log = logging.getLogger(__name__)

WAITS_SECONDS = (0.2, 1.0, 5.0, 15.0, 30.0)


class Ending:
    """Ends jobs; when the database refuses, waits and tries again until it takes the end or the service stops.

    A job whose end cannot be recorded stays in flight in the database, and the sweep of the next start settles it.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    def complete(self, work: Work) -> None:
        """Record that the job is done; its output is delivered, so nothing may turn it into a failure any more."""
        if self._insist(work, "completed", lambda: finish(work)):
            _tidy(work)
            log.info(
                "Job completed",
                extra={
                    "facts": {
                        "JobId": work.job.id,
                        "Profile": work.job.profile_name,
                        "Format": work.job.format.value,
                        "Output": str(work.output),
                        "SignMs": _milliseconds(work, "sign"),
                        "VerifyMs": _milliseconds(work, "verify"),
                    }
                },
            )

    def fail(self, work: Work, step: str, error: Exception) -> None:
        """Keep the job's folder under `error/`, then record Failed with code and text (PIPE-86)."""
        code, text = _described(error)
        # Before it is stored anywhere (SEC-57).
        text = work.parts.scrub(text)
        expected = isinstance(error, BulkSignerError)
        log.log(
            logging.WARNING if expected else logging.ERROR,
            "Job failed in step %s: %s",
            step,
            text,
            exc_info=None if expected else error,
            extra={"facts": {"JobId": work.job.id, "Profile": work.job.profile_name, "Code": code or ""}},
        )
        if isinstance(error, RaceLost):
            # Another writer has the job's row (it was cleared, or taken over): its files are that writer's business.
            return
        try:
            work.parts.roots.fail_job_folder(work.job.id)
        except OSError as move_error:
            log.warning("The folder of job %s could not be moved to error/: %s", work.job.id, move_error)
        self._insist(work, "failed", lambda: _record_failure(work, code, text))

    def _insist(self, work: Work, end: str, act: Callable[[], None]) -> bool:
        for wait_seconds in _waits():
            try:
                act()
                return True
            except (RaceLost, NotAllowed) as error:
                log.warning("Job %s was not recorded as %s: %s", work.job.id, end, error.message)
                return False
            except Exception:
                # The store is gone or full. The outcome on disk is settled; only its record is missing.
                log.exception("Job %s could not be recorded as %s; trying again", work.job.id, end)
            if self._stopping.wait(wait_seconds):
                break
        log.critical("Job %s was not recorded as %s; the next start settles it", work.job.id, end)
        return False


def _tidy(work: Work) -> None:
    """Clear what is only of use to a running job, and hand a rewritten input back (PIPE-94)."""
    try:
        work.parts.roots.discard_job_folder(work.job.id)
    except OSError as error:
        log.warning("The folder of completed job %s could not be removed: %s", work.job.id, error)
    if work.divergence:
        work.parts.inputs.offer_again(work.job)


def _waits() -> Iterator[float]:
    yield from WAITS_SECONDS
    while True:
        yield WAITS_SECONDS[-1]


def _record_failure(work: Work, code: str | None, text: str) -> None:
    changed = work.parts.jobs.transition(
        work.job,
        "fail",
        by=Actor.WORKER,
        message=f"{code}: {text}" if code else text,
        error_code=code,
        error_message=_error_message(code, text),
        # Nothing of this job was delivered; what lies under that name, if anything, is another's.
        output_path=None,
        output_length=None,
        output_sha256=None,
    )
    work.job = changed.job
    work.parts.announce(changed)


def _error_message(code: str | None, text: str) -> str:
    """Render `errorMessage` as the end of rest-api section 6 says: code alone, code and text, or text."""
    if code is None:
        return text
    row = CODES.get(code)
    return f"{code}: {text}" if row is None or row.text_on_job else code


def _described(error: Exception) -> tuple[str | None, str]:
    if isinstance(error, BulkSignerError):
        return error.code, error.message
    return None, f"{type(error).__name__}: {error}"


def _milliseconds(work: Work, step: str) -> int:
    return round(work.seconds.get(step, 0.0) * 1000)
