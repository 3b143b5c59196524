"""Operator actions on one job: cancel (PIPE-98), and retry, which makes a new job (PIPE-99)."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

from bulksigner.contract.errors import NotAllowed, RaceLost
from bulksigner.files.work import WorkRoots
from bulksigner.jobs.model import Birth, Changed, Job, JobSource
from bulksigner.jobs.queue import Enqueued, Outcome
from bulksigner.jobs.states import JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.observability.logs import facts
from bulksigner.operations.canceling import Canceling
from bulksigner.operations.people import Person, ReasonReader

__all__ = ["Operator"]

DEFAULT_PROFILE = "default"

_log = logging.getLogger("bulksigner.operations")


class _Queue(Protocol):
    def enqueue(self, births: Sequence[Birth], /) -> Sequence[Enqueued]: ...


class _Profile(Protocol):
    @property
    def enabled(self) -> bool: ...


class _Profiles(Protocol):
    def get(self, name: str, /) -> _Profile | None: ...


class Operator(Canceling):
    """Acts on single jobs at the wish of a person, through the same rules for REST and dashboard (API-06).

    `gate` lets one action at a time decide about an input file, so that no retry queues what a deletion removes.
    """

    def __init__(
        self,
        jobs: Jobs,
        queue: _Queue,
        profiles: _Profiles,
        input_exists: Callable[[Job], bool],
        roots: WorkRoots,
        reasons: ReasonReader,
        announce: Callable[[Changed], None],
        gate: threading.RLock,
    ) -> None:
        super().__init__(jobs, roots, reasons, announce)
        self._queue = queue
        self._profiles = profiles
        self._input_exists = input_exists
        self._gate = gate

    def retry(self, job_id: str, person: Person) -> Changed:
        """Queue a failed job's input again, as a new job under the profile recorded on the old one.

        Raises `NotFound`, `NotAllowed` or `RaceLost`; nothing is recorded then.
        """
        with self._gate:
            failed = self.find(job_id)
            changed = self._enqueue(failed, self._admit(failed))
        _log.info("Job retried", extra=facts(job_id=changed.job.id, parent_job_id=failed.id, actor=person.name))
        self._announce(changed)
        return changed

    def _admit(self, failed: Job) -> str:
        """Refuse what cannot be retried, in the order of PIPE-99; return the name of the profile."""
        if failed.status is not JobStatus.FAILED:
            advice = ""
            if failed.status is JobStatus.CANCELED:
                is_upload = failed.input_folder is None
                advice = (
                    " Delete it and upload the file again." if is_upload else " Rescan its folder to sign the file."
                )
            raise NotAllowed(
                f"Job {failed.id} is {failed.status.value}; only a failed job can be retried.{advice}",
                code="job.not-failed",
            )
        if failed.error_code == "approval.rejected":
            raise NotAllowed(
                f"The file of job {failed.id} was rejected and handed back; correct it and send it again.",
                code="job.rejected-not-retriable",
            )
        if failed.error_code == "file.already-processed":
            # A retry is exempt from the rule of names, so it would sign the very file that the rule refused (PIPE-50).
            raise NotAllowed(
                f"Job {failed.id} was refused because another job has a file of its name; delete that job, release the "
                f"name if the job was removed by age (bulksigner names release), or send the file under another name.",
                code="file.already-processed",
            )
        if not self._input_exists(failed):
            raise NotAllowed(
                f"The input of job {failed.id} is gone from {failed.original_path}; send the file again.",
                code="job.input-missing",
            )
        profile_name = failed.profile_name or DEFAULT_PROFILE
        profile = self._profiles.get(profile_name)
        if profile is None or not profile.enabled:
            raise NotAllowed(
                f"Profile '{profile_name}', recorded on job {failed.id}, is disabled; enable it and retry.",
                code="profile.disabled",
            )
        return profile_name

    def _enqueue(self, failed: Job, profile_name: str) -> Changed:
        new_id = str(uuid.uuid4())
        birth = Birth(
            id=new_id,
            file_name=failed.file_name,
            original_path=failed.original_path,
            input_folder=failed.input_folder,
            profile_name=profile_name,
            format=failed.format,
            source=JobSource.RETRY,
            parent_job_id=failed.id,
            parent_row_version=failed.row_version,
            message=f"Queued from retry of job {failed.id}",
            parent_message=f"Retried as job {new_id}",
            metadata=failed.metadata,
            sidecar_sha256=failed.sidecar_sha256,
        )
        (result,) = self._queue.enqueue([birth])
        if result.outcome is Outcome.PATH_TOO_LONG:
            raise NotAllowed(
                f"The path of job {failed.id} is longer than 850 characters; move the file to a shorter path.",
                code="job.path-too-long",
            )
        if result.changed is None:
            raise RaceLost(f"Another job is already at work on {failed.original_path}.", code="job.race-lost")
        return result.changed
