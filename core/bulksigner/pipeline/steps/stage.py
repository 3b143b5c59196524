"""Resolve the profile and copy the input into the job's own folder."""

from __future__ import annotations

from bulksigner.contract.errors import StepFailed
from bulksigner.files.names import child_of
from bulksigner.pipeline.holding import held
from bulksigner.pipeline.work import Work

__all__ = ["resolve", "stage"]


def resolve(work: Work) -> None:
    """Find the profile the job recorded at intake; a degraded one cannot sign (PIPE-71)."""
    profile = work.parts.profiles.get(work.job.profile_name)
    if profile is None:
        raise StepFailed(f"Signing profile '{work.job.profile_name}' does not exist.", code="profile.not-found")
    if profile.degraded is not None:
        raise StepFailed(
            f"Signing profile '{profile.stored.name}' cannot sign: {profile.degraded}", code="profile.degraded"
        )
    work.profile = profile


def stage(work: Work) -> None:
    """Copy the input, measuring it in the same read, under a short hold (PIPE-73, PIPE-74)."""
    folder, name = work.parts.inputs.locate(work.job.original_path)
    target = child_of(work.parts.roots.open_job_folder(work.job.id), work.job.file_name)
    with held(folder, name):
        try:
            work.fingerprint = folder.copy_to(name, target)
        except FileNotFoundError as error:
            raise StepFailed(f"The input no longer exists: {work.job.original_path}") from error
    work.staged = target
