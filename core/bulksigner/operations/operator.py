"""Operator actions on one job: retry, which makes a new job that names its parent (PIPE-99)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

from bulksigner.contract.errors import NotAllowed, NotFound, RaceLost
from bulksigner.jobs.model import Birth, Changed, Job, JobSource
from bulksigner.jobs.queue import Enqueued, Outcome
from bulksigner.jobs.states import JobStatus
from bulksigner.observability.logs import facts

__all__ = ["Operator"]

DEFAULT_PROFILE = "default"
_log = logging.getLogger("bulksigner.operations")


class _Jobs(Protocol):
    def get(self, job_id: str, /) -> Job | None: ...


class _Queue(Protocol):
    def enqueue(self, births: Sequence[Birth], /) -> Sequence[Enqueued]: ...


class _Profile(Protocol):
    @property
    def enabled(self) -> bool: ...


class _Profiles(Protocol):
    def get(self, name: str, /) -> _Profile | None: ...


class Operator:
    """Acts on jobs at the wish of a person, through the same rules for REST and dashboard (API-06)."""

    def __init__(self, jobs: _Jobs, queue: _Queue, profiles: _Profiles, input_exists: Callable[[Job], bool]) -> None:
        self._jobs = jobs
        self._queue = queue
        self._profiles = profiles
        self._input_exists = input_exists

    def retry(self, job_id: str) -> Changed:
        """Queue a failed job's input again, as a new job under the profile recorded on the old one.

        Raises `NotFound`, `NotAllowed` or `RaceLost`; nothing is recorded then.
        """
        failed = self._jobs.get(job_id)
        if failed is None:
            raise NotFound(f"There is no job {job_id}.", code="job.not-found")
        if failed.status is not JobStatus.FAILED:
            raise NotAllowed(
                f"Job {failed.id} is {failed.status.value}; only a failed job can be retried.", code="job.not-failed"
            )
        if failed.error_code == "file.already-processed":
            raise NotAllowed(
                f"Job {failed.id} was refused because another job has a file of its name; delete that job, or send the "
                f"file under another name.",
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
        return self._enqueue(failed, profile_name)

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
        _log.info("Job retried", extra=facts(job_id=result.changed.job.id, parent_job_id=failed.id))
        return result.changed
