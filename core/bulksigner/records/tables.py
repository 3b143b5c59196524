"""The tables as peewee models, columns only; `migrations/` makes them."""

from __future__ import annotations

import peewee

from bulksigner.records.row import Row as _Row
from bulksigner.records.times import UtcField

__all__ = [
    "DeploymentRow",
    "EnvelopeCountRow",
    "EventRow",
    "HeldFileNameRow",
    "HistoryRow",
    "JobCountRow",
    "JobRow",
    "JobTimingDailyRow",
    "JobTimingRow",
    "JobTimingSumRow",
    "PipelineStateRow",
    "PluginNoteRow",
    "ProfileChangeRow",
    "ProfileRow",
    "RetentionAcknowledgementRow",
    "RetentionLeaseRow",
    "RetentionRunRow",
    "SessionRevocationRow",
    "StatisticsStateRow",
]


class JobRow(_Row):
    """One job (PIPE-01). `path_key` is the normalised original path of PIPE-02, `name_key` the folded name of PIPE-48.

    `metadata` is a JSON object.
    """

    id = peewee.TextField(primary_key=True)
    file_name = peewee.TextField()
    original_path = peewee.TextField()
    path_key = peewee.TextField()
    input_folder = peewee.TextField(null=True)
    profile_name = peewee.TextField()
    certificate_source = peewee.TextField(null=True)
    format = peewee.TextField()
    source = peewee.TextField()
    status = peewee.TextField()
    created_at = UtcField()
    queued_at = UtcField(null=True)
    updated_at = UtcField()
    completed_at = UtcField(null=True)
    parent_job_id = peewee.TextField(null=True)
    error_code = peewee.TextField(null=True)
    error_message = peewee.TextField(null=True)
    owner_identity = peewee.TextField(null=True)
    owner_incarnation = peewee.TextField(null=True)
    sign_call_started_at = UtcField(null=True)
    staged_length = peewee.BigIntegerField(null=True)
    staged_sha256 = peewee.TextField(null=True)
    staged_etag = peewee.TextField(null=True)
    staged_at = UtcField(null=True)
    output_path = peewee.TextField(null=True)
    output_sha256 = peewee.TextField(null=True)
    output_length = peewee.BigIntegerField(null=True)
    output_modified_at = UtcField(null=True)
    path_released = peewee.BooleanField()
    input_diverged = peewee.BooleanField()
    row_version = peewee.IntegerField()
    metadata = peewee.TextField()
    sidecar_sha256 = peewee.TextField(null=True)
    output_encrypted = peewee.BooleanField()
    companion_path = peewee.TextField(null=True)
    name_key = peewee.TextField()

    class Meta:
        table_name = "job"


class JobCountRow(_Row):
    """How many jobs of a profile have ended in a status; the rows of all shards add up.

    Triggers keep them, but on SQLite `jobs.queue` counts what ended at its birth.
    """

    profile_name = peewee.TextField()
    status = peewee.TextField()
    shard = peewee.IntegerField()
    total = peewee.BigIntegerField()

    class Meta:
        table_name = "job_count"
        primary_key = peewee.CompositeKey("profile_name", "status", "shard")


class HistoryRow(_Row):
    """One change of one job (SEC-72)."""

    id = peewee.BigAutoField()
    job_id = peewee.TextField()
    at = UtcField()
    status = peewee.TextField()
    message = peewee.TextField()

    class Meta:
        table_name = "job_history"


class EventRow(_Row):
    """One operational event (SEC-73); `facts` is a JSON object."""

    id = peewee.BigAutoField()
    at = UtcField()
    event_type = peewee.TextField()
    message = peewee.TextField()
    facts = peewee.TextField()

    class Meta:
        table_name = "operational_event"


class ProfileRow(_Row):
    """One signing profile. `name_key` is the name without case; `sealed` maps a field to base64 of its envelope.

    `certificate_block`, `sealed` and `extras` are JSON objects.
    """

    id = peewee.TextField(primary_key=True)
    name = peewee.TextField()
    name_key = peewee.TextField()
    enabled = peewee.BooleanField()
    format = peewee.TextField(null=True)
    method = peewee.TextField()
    verify = peewee.BooleanField()
    preserve_file_extension = peewee.BooleanField()
    save_as_pem = peewee.BooleanField()
    validate_certificate = peewee.BooleanField()
    require_non_repudiation = peewee.BooleanField()
    certificate_source = peewee.TextField(null=True)
    certificate_block = peewee.TextField()
    sealed = peewee.TextField()
    extras = peewee.TextField()
    input_folder = peewee.TextField(null=True)
    created_at = UtcField()
    updated_at = UtcField()
    row_version = peewee.IntegerField()
    certificate_version = peewee.IntegerField()
    encrypt = peewee.BooleanField()
    policy = peewee.TextField()
    pades_filter = peewee.TextField(null=True)
    xml_flavor = peewee.TextField()
    xml_sha1_until = peewee.TextField(null=True)
    xml_placement = peewee.TextField()
    xml_sign_element = peewee.TextField(null=True)
    cades_existing = peewee.TextField()
    cades_content = peewee.TextField()
    cross_check = peewee.TextField()
    pdf_passwords = peewee.TextField()
    appearance = peewee.TextField()

    class Meta:
        table_name = "profile"


class EnvelopeCountRow(_Row):
    """How many envelopes were written with a key (ENC-10); the rows of all shards add up.

    `check_value` tells keys apart without telling them.
    """

    check_value = peewee.TextField()
    shard = peewee.IntegerField()
    written = peewee.BigIntegerField()

    class Meta:
        table_name = "envelope_count"
        primary_key = peewee.CompositeKey("check_value", "shard")


class ProfileChangeRow(_Row):
    """The one row that counts the saves of profiles (CFG-85); its `id` is always 1."""

    id = peewee.IntegerField(primary_key=True)
    counter = peewee.BigIntegerField()

    class Meta:
        table_name = "profile_change"


class PipelineStateRow(_Row):
    """The one row that says whether claims are paused (PIPE-68); its `id` is always 1.

    `changed_at`, `changed_by` and `reason` tell of the last change, the others of the last pause and the last resume.
    """

    id = peewee.IntegerField(primary_key=True)
    paused = peewee.BooleanField()
    changed_at = UtcField(null=True)
    changed_by = peewee.TextField(null=True)
    reason = peewee.TextField(null=True)
    row_version = peewee.IntegerField()
    paused_at = UtcField(null=True)
    paused_by = peewee.TextField(null=True)
    resumed_at = UtcField(null=True)

    class Meta:
        table_name = "pipeline_state"


class PluginNoteRow(_Row):
    """What a plugin keeps under a name."""

    plugin = peewee.TextField()
    name = peewee.TextField()
    value = peewee.TextField()
    updated_at = UtcField()

    class Meta:
        table_name = "plugin_note"
        primary_key = peewee.CompositeKey("plugin", "name")


class DeploymentRow(_Row):
    """Facts of this deployment by name, such as the sealing salt and the marker of the first seeding."""

    name = peewee.TextField(primary_key=True)
    value = peewee.TextField()
    recorded_at = UtcField()

    class Meta:
        table_name = "deployment"


class JobTimingRow(_Row):
    """What the stages of one completed job took; null for a stage that did not happen (STA-08)."""

    job_id = peewee.TextField(primary_key=True)
    completed_at = UtcField()
    method = peewee.TextField()
    format = peewee.TextField()
    profile = peewee.TextField()
    queue_wait_ms = peewee.BigIntegerField(null=True)
    signing_ms = peewee.BigIntegerField(null=True)
    verification_ms = peewee.BigIntegerField(null=True)
    output_ms = peewee.BigIntegerField(null=True)
    total_ms = peewee.BigIntegerField()
    instance = peewee.TextField()

    class Meta:
        table_name = "job_timing"


class JobTimingSumRow(_Row):
    """Counts and sums over all rows of `job_timing`, kept by triggers; the rows of all shards add up."""

    method = peewee.TextField()
    shard = peewee.IntegerField()
    total_n = peewee.BigIntegerField()
    total_ms = peewee.BigIntegerField()
    queue_wait_n = peewee.BigIntegerField()
    queue_wait_ms = peewee.BigIntegerField()
    signing_n = peewee.BigIntegerField()
    signing_ms = peewee.BigIntegerField()
    verification_n = peewee.BigIntegerField()
    verification_ms = peewee.BigIntegerField()
    output_n = peewee.BigIntegerField()
    output_ms = peewee.BigIntegerField()

    class Meta:
        table_name = "job_timing_sum"
        primary_key = peewee.CompositeKey("method", "shard")


class JobTimingDailyRow(_Row):
    """What the jobs of one day took that were removed by age (STA-77); `day` as `2026-08-12`, in UTC."""

    day = peewee.TextField()
    method = peewee.TextField()
    format = peewee.TextField()
    profile = peewee.TextField()
    first_at = UtcField()
    total_n = peewee.BigIntegerField()
    total_ms = peewee.BigIntegerField()
    total_least_ms = peewee.BigIntegerField(null=True)
    total_most_ms = peewee.BigIntegerField(null=True)
    queue_wait_n = peewee.BigIntegerField()
    queue_wait_ms = peewee.BigIntegerField()
    queue_wait_least_ms = peewee.BigIntegerField(null=True)
    queue_wait_most_ms = peewee.BigIntegerField(null=True)
    signing_n = peewee.BigIntegerField()
    signing_ms = peewee.BigIntegerField()
    signing_least_ms = peewee.BigIntegerField(null=True)
    signing_most_ms = peewee.BigIntegerField(null=True)
    verification_n = peewee.BigIntegerField()
    verification_ms = peewee.BigIntegerField()
    verification_least_ms = peewee.BigIntegerField(null=True)
    verification_most_ms = peewee.BigIntegerField(null=True)
    output_n = peewee.BigIntegerField()
    output_ms = peewee.BigIntegerField()
    output_least_ms = peewee.BigIntegerField(null=True)
    output_most_ms = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "job_timing_daily"
        primary_key = peewee.CompositeKey("day", "method", "format", "profile")


class HeldFileNameRow(_Row):
    """The name of a completed job that was removed by age (STA-68); `name_key` is folded as that of a job."""

    name_key = peewee.TextField(primary_key=True)
    file_name = peewee.TextField()
    job_id = peewee.TextField()
    completed_at = UtcField()

    class Meta:
        table_name = "held_file_name"


class StatisticsStateRow(_Row):
    """The one row that says since when figures count (STA-31); its `id` is always 1."""

    id = peewee.IntegerField(primary_key=True)
    reset_at = UtcField(null=True)

    class Meta:
        table_name = "statistics_state"


class RetentionRunRow(_Row):
    """One finished preview or run; `tallies` is a JSON object by class."""

    id = peewee.TextField(primary_key=True)
    is_preview = peewee.BooleanField()
    fingerprint = peewee.TextField()
    actor = peewee.TextField()
    started_at = UtcField()
    ended_at = UtcField()
    manifest = peewee.TextField(null=True)
    tallies = peewee.TextField()

    class Meta:
        table_name = "retention_run"


class RetentionAcknowledgementRow(_Row):
    """Who accepted which preview, and so the policy of its fingerprint (STA-71)."""

    id = peewee.BigAutoField()
    fingerprint = peewee.TextField()
    preview_id = peewee.TextField()
    actor = peewee.TextField()
    at = UtcField()

    class Meta:
        table_name = "retention_acknowledgement"


class RetentionLeaseRow(_Row):
    """The one row that says who runs now (STA-75); its `id` is always 1."""

    id = peewee.IntegerField(primary_key=True)
    holder = peewee.TextField(null=True)
    expires_at = UtcField(null=True)

    class Meta:
        table_name = "retention_lease"


class SessionRevocationRow(_Row):
    """A browser session that was ended; kept until every copy of its ticket has expired (SEC-22)."""

    ticket_id = peewee.TextField(primary_key=True)
    until = UtcField()

    class Meta:
        table_name = "session_revocation"
