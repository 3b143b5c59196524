"""What the core counts of jobs, and how its gauges are read (API-94, STA-13, STA-79, STA-98)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bulksigner.backup.desk import BackupDesk
from bulksigner.files.volumes import Volume
from bulksigner.jobs.model import Changed
from bulksigner.jobs.states import JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.observability.instruments import UPLOADS
from bulksigner.observability.metrics import Metrics, Reading
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records.engines import Store, size_bytes
from bulksigner.retention.records import last_run

__all__ = ["core_gauges", "count_change"]

CONTENT_CHANGED = "approval.content-changed"


def count_change(metrics: Metrics, changed: Changed) -> None:
    """Count a committed change of a job."""
    job, change = changed.job, changed.change
    if change.before is None and job.status is JobStatus.QUEUED:
        metrics.count("bulksigner_jobs_enqueued_total", job.input_folder or UPLOADS)
    elif job.status is JobStatus.COMPLETED:
        metrics.count("bulksigner_jobs_completed_total")
        if job.input_diverged:
            metrics.count("bulksigner_inputs_diverged_total", job.profile_name)
    elif job.status is JobStatus.FAILED:
        metrics.count("bulksigner_jobs_failed_total")
        if job.error_code == CONTENT_CHANGED:
            metrics.count("bulksigner_jobs_content_changed_total", job.profile_name)
    elif change.event == "cancel":
        metrics.count("bulksigner_jobs_canceled_total")


def core_gauges(
    store: Store,
    jobs: Jobs,
    pause: PauseFlag,
    profiles: OpenedProfiles,
    volumes: Sequence[Volume],
    backups: BackupDesk | None,
    *,
    has_retention: bool,
) -> Mapping[str, Callable[[], Reading]]:
    """Return how each gauge of the core is read; none waits for a database that is away."""

    def prompt(look: Callable[[], Reading]) -> Callable[[], Reading]:
        def run() -> Reading:
            with store.promptly():
                return list(look())

        return run

    def in_flight() -> Reading:
        counts = jobs.counts()
        return [((), counts[JobStatus.PROCESSING] + counts[JobStatus.VERIFYING])]

    def certificates() -> Reading:
        for profile in profiles.all:
            if profile.certificate_not_after is not None:
                yield (profile.name,), profile.certificate_not_after.timestamp()

    def retention_runs() -> Reading:
        for mode, is_preview in (("DryRun", True), ("Enforce", False)):
            run = last_run(store, is_preview=is_preview)
            if run is not None:
                yield (mode,), run.ended_at.timestamp()

    gauges: dict[str, Callable[[], Reading]] = {
        "bulksigner_pipeline_paused": prompt(lambda: [((), float(pause.read().is_paused))]),
        "bulksigner_jobs_in_flight": prompt(in_flight),
        "bulksigner_certificate_not_after_seconds": certificates,
        "bulksigner_database_size_bytes": prompt(lambda: [((), size_bytes(store))]),
        "bulksigner_storage_free_bytes": lambda: [((str(one.folder),), one.free_bytes()) for one in volumes],
    }
    if has_retention:
        gauges["bulksigner_retention_last_run_timestamp_seconds"] = prompt(retention_runs)
    if backups is not None:
        gauges |= _backup_gauges(backups, prompt)
    return gauges


def _backup_gauges(
    backups: BackupDesk, prompt: Callable[[Callable[[], Reading]], Callable[[], Reading]]
) -> Mapping[str, Callable[[], Reading]]:
    def size() -> Reading:
        last = backups.last_success()
        return [] if last is None or last.length is None else [((), last.length)]

    def ended() -> Reading:
        last = backups.last_success()
        return [] if last is None else [((), last.ended_at.timestamp())]

    return {
        "bulksigner_backup_last_size_bytes": prompt(size),
        "bulksigner_backup_last_success_timestamp_seconds": prompt(ended),
    }
