"""Resolve the profile and copy the input into the job's own folder."""

from __future__ import annotations

from bulksigner.contract.errors import StepFailed
from bulksigner.contract.storage import Fingerprint
from bulksigner.files.names import child_of
from bulksigner.pipeline.conductor import apart
from bulksigner.pipeline.holding import held, near
from bulksigner.pipeline.tasks import StageTask, stage_here
from bulksigner.pipeline.work import Work

__all__ = ["resolve", "stage"]


async def resolve(work: Work) -> None:
    """Find the profile the job recorded at intake; a degraded one cannot sign (PIPE-71)."""
    profile = work.parts.profiles.get(work.job.profile_name)
    if profile is None:
        raise StepFailed(f"Signing profile '{work.job.profile_name}' does not exist.", code="profile.not-found")
    if profile.degraded is not None:
        raise StepFailed(
            f"Signing profile '{profile.stored.name}' cannot sign: {profile.degraded}", code="profile.degraded"
        )
    work.profile = profile


async def stage(work: Work) -> None:
    """Copy the input, measuring it in the same read, under a short hold (PIPE-73, PIPE-74)."""
    folder, name = work.parts.inputs.locate(work.job.original_path)
    target = child_of(work.folder, work.job.file_name)
    task = StageTask(folder, name, work.job.original_path, target)
    if near(folder) is not None:
        with held(folder, name):
            work.fingerprint = await work.perform_again(task)
    else:
        work.fingerprint = await apart(lambda: _stage_far(task))
    work.staged = target


def _stage_far(task: StageTask) -> Fingerprint:
    with held(task.folder, task.name):
        return stage_here(task)
