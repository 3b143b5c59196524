"""Take away the input that was signed, and only that, then end the job."""

from __future__ import annotations

from bulksigner.contract.errors import ProviderError, StepFailed
from bulksigner.contract.storage import RemovalOutcome
from bulksigner.jobs.states import Actor
from bulksigner.pipeline.work import Work
from bulksigner.records.events import Event

__all__ = ["clean", "finish"]


def clean(work: Work) -> None:
    """Remove the input while it still is what was staged; leave it otherwise (PIPE-91 to PIPE-93).

    The output is delivered by now, so nothing here may fail the job: an input that cannot be removed is left and
    reported.
    """
    if work.fingerprint is None:
        raise StepFailed("The job has no staged copy.")
    try:
        folder, name = work.parts.inputs.locate(work.job.original_path)
        hold = folder.hold(name)
        try:
            removal = folder.remove_if(name, work.fingerprint)
        finally:
            hold.release()
    except (ProviderError, OSError) as error:
        work.divergence = f"unreadable: {error}"
        return
    if removal.outcome is RemovalOutcome.DIVERGED:
        work.divergence = removal.reason


def finish(work: Work) -> None:
    """Commit Completed, with the divergence when the input was left (PIPE-84, PIPE-93)."""
    event = None
    message = f"Completed: {work.require(work.output).name}"
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
    changed = work.parts.jobs.transition(
        work.job,
        "complete",
        by=Actor.WORKER,
        message=message,
        operational_event=event,
        output_modified_at=work.output_modified_at,
        input_diverged=bool(work.divergence),
        error_code="job.input-diverged" if work.divergence else None,
        error_message="job.input-diverged" if work.divergence else None,
    )
    work.job = changed.job
    work.parts.announce(changed)
