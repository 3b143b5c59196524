"""Every metric there is: name, type, labels and meaning, in one table (API-94).

Names, types and labels are a promise; a metric comes with its feature, as one row here and one call of `Metrics`.
"""

from __future__ import annotations

import enum

import attrs

__all__ = ["BUCKETS", "INSTRUMENTS", "UPLOADS", "Instrument", "Kind", "metrics_page"]

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper limits of the histograms, in seconds (API-96)."""
UPLOADS = "(upload)"
"""The label `folder` of files that came over HTTP."""


class Kind(enum.Enum):
    """What a metric is; the value is the word of the exposition format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@attrs.frozen
class Instrument:
    """One metric; `source` is where its value comes from after a restart."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def source(self) -> str:
        """Say what the value is after a restart."""
        return "read at each request" if self.kind is Kind.GAUGE else "from 0"


def _counter(name: str, help: str, *labels: str) -> Instrument:
    return Instrument(f"bulksigner_{name}", Kind.COUNTER, labels, help)


def _gauge(name: str, help: str, *labels: str) -> Instrument:
    return Instrument(f"bulksigner_{name}", Kind.GAUGE, labels, help)


def _histogram(name: str, help: str, *labels: str) -> Instrument:
    return Instrument(f"bulksigner_{name}", Kind.HISTOGRAM, labels, help)


INSTRUMENTS = (
    _counter("jobs_enqueued_total", f"Files that were queued, by input folder or {UPLOADS}", "folder"),
    _counter("jobs_completed_total", "Jobs that reached Completed"),
    _counter("jobs_failed_total", "Jobs that reached Failed"),
    _counter("jobs_canceled_total", "Jobs that an operator cancelled"),
    _counter("jobs_verify_skipped_total", "Signatures that were not checked after they were made", "profile"),
    _counter("cert_validation_failed_total", "Jobs whose certificate the check before signing refused", "profile"),
    _counter("files_encrypted_total", "Envelopes that were written"),
    _counter("pipeline_pause_total", "Times the pipeline was paused"),
    _counter("pipeline_resume_total", "Times the pipeline was resumed"),
    _gauge("pipeline_paused", "1 while the pipeline is paused, else 0"),
    _gauge("jobs_in_flight", "Jobs in Processing or Verifying"),
    _histogram("signing_duration_seconds", "Signing, verification and delivery of one file", "format"),
    _counter("jobs_content_changed_total", "Jobs whose staged copy changed before it was signed", "profile"),
    _counter("inputs_diverged_total", "Inputs left in place because they are not what was signed", "profile"),
    _counter("backup_runs_total", "Finished backups", "result"),
    _histogram("backup_duration_seconds", "How long a backup took"),
    _gauge("backup_last_size_bytes", "Size of the last successful backup"),
    _gauge("backup_last_success_timestamp_seconds", "When the last successful backup ended"),
    _counter("backup_prune_failures_total", "Times that old backups could not be removed"),
    _gauge("certificate_not_after_seconds", "End of validity of the opened certificate", "profile"),
    _counter("retention_items_total", "Items that retention runs handled", "class", "result"),
    _gauge("retention_last_run_timestamp_seconds", "When the last preview or run of the policy ended", "mode"),
    _gauge("database_size_bytes", "Size of the database"),
    _gauge("storage_free_bytes", "What may still be written below a root of this host", "root"),
)


def metrics_page(note: str) -> str:
    """Return the page that lists every metric; `note` stands under its title."""
    rows = (
        f"| `{row.name}` | {row.kind.value} | {', '.join(f'`{label}`' for label in row.labels) or '—'} "
        f"| {row.source} | {row.help} |"
        for row in INSTRUMENTS
    )
    limits = ", ".join(f"{limit:g}" for limit in BUCKETS)
    return "\n".join(
        (
            "# Metrics",
            "",
            note,
            "",
            "`GET /api/metrics` answers in the text format of Prometheus. It needs the API key unless "
            "`Metrics:RequireApiKey` is false. Names, types and labels stay as they are. Counters and histograms are "
            "of one process and begin anew with it; those without labels are there from the start. Gauges are read "
            "from the database and the host when they are asked for, at most once a second; one that cannot be read "
            "is left out of the answer. Histograms have the limits "
            f"{limits} seconds.",
            "",
            "| Metric | Type | Labels | After a restart | What it says |",
            "|---|---|---|---|---|",
            *rows,
            "",
        )
    )
