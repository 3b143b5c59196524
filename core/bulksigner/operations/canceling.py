"""Ending a job that waits (PIPE-98), by itself or on the way to its deletion (PIPE-101)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from bulksigner.contract.errors import NotAllowed, NotFound
from bulksigner.files.work import WorkRoots
from bulksigner.jobs.model import Changed, Job
from bulksigner.jobs.states import TRANSITIONS, Actor
from bulksigner.jobs.store import Jobs
from bulksigner.observability.logs import facts
from bulksigner.operations.people import Person, ReasonReader, as_sentence

__all__ = ["Canceling"]

CANCELABLE = frozenset(status for row in TRANSITIONS if row.event == "cancel" for status in row.sources)

_log = logging.getLogger("bulksigner.operations")


class Canceling:
    """Cancels jobs at the wish of a person; `announce` is called after the commit."""

    def __init__(
        self, jobs: Jobs, roots: WorkRoots, reasons: ReasonReader, announce: Callable[[Changed], None]
    ) -> None:
        self._jobs = jobs
        self._roots = roots
        self._reasons = reasons
        self._announce = announce

    def cancel(self, job_id: str, person: Person, reason: str | None = None) -> Changed:
        """End a job that waits as Canceled; its input stays where it is.

        Raises `NotFound`, `NotAllowed` (`job.not-queued`) or `RaceLost`; nothing is recorded then.
        """
        told = self._reasons.read(reason)
        waiting = self.find(job_id)
        if waiting.status not in CANCELABLE:
            raise NotAllowed(
                f"Job {waiting.id} is {waiting.status.value}; a job can be canceled only while it waits.",
                code="job.not-queued",
            )
        message = "Operator canceled." if told is None else f"Operator canceled: {as_sentence(told)}"
        changed = self._jobs.transition(waiting, "cancel", by=Actor.OPERATOR, message=message)
        # Nothing before this line touched a file: the commit decides, what follows is best effort.
        try:
            self._roots.fail_job_folder(waiting.id)
        except OSError as error:
            _log.warning("The folder of canceled job %s could not be moved to error/: %s", waiting.id, error)
        _log.info("Job canceled", extra=facts(job_id=waiting.id, actor=person.name, was=waiting.status))
        self._announce(changed)
        return changed

    def find(self, job_id: str) -> Job:
        """Return the job; raises `NotFound`."""
        found = self._jobs.get(job_id)
        if found is None:
            raise NotFound(f"There is no job {job_id}.", code="job.not-found")
        return found
