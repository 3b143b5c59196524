"""Error codes: the one table of every code the core can emit (API-76).

`status` is the HTTP status, or None for a code that is only recorded on a job. Codes of plugins join through
`Schema.error_code`. Codes are only added, never renamed (API-02).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

__all__ = ["CODES", "ErrorCode"]


@attrs.frozen
class ErrorCode:
    """One row of the table: wire code, HTTP status (None: never an HTTP response) and English title."""

    code: str
    status: int | None
    title: str
    text_on_job: bool = False
    """On a job, `errorMessage` is `<code>: <text>` instead of the code alone (end of rest-api section 6)."""


_ROWS = (
    ErrorCode("request.invalid", 400, "The request is malformed, or the route or method does not exist"),
    ErrorCode("internal", 500, "An unexpected error occurred", text_on_job=True),
    ErrorCode("rate-limited", 429, "Too many requests in a short time"),
    ErrorCode("auth.misconfigured", 401, "The configured API key is empty"),
    ErrorCode("auth.invalid-credentials", 401, "The API key or the session is missing or wrong"),
    ErrorCode("auth.csrf", 403, "The token against forged requests is missing or wrong"),
    ErrorCode("validation.reason-too-long", 400, "The reason is longer than 512 characters"),
    ErrorCode("validation.filter-invalid", 400, "A query value is not acceptable"),
    ErrorCode("culture.not-supported", 400, "The language is neither en-US nor pt-BR"),
    ErrorCode("folder.not-found", 404, "No such input folder is configured"),
    ErrorCode("profile.not-found", 400, "No such signing profile"),
    ErrorCode("profile.disabled", 409, "The signing profile takes no new work"),
    ErrorCode("sign.policy-invalid", None, "No signature policy of the profile is valid now", text_on_job=True),
    ErrorCode("profile.degraded", None, "The signing profile cannot sign"),
    ErrorCode("profile.invalid", None, "The change breaks a rule on profiles, or names something unknown"),
    ErrorCode("profile.name-taken", None, "There is a signing profile of this name"),
    ErrorCode("profile.race-lost", None, "Another writer changed the signing profile first"),
    ErrorCode("profile.folder-unknown", None, "This host does not configure the input folder"),
    ErrorCode("profile.folder-taken", None, "Another signing profile has the input folder"),
    ErrorCode("profile.folder-bound", None, "A disabled signing profile cannot keep an input folder"),
    ErrorCode("profile.no-trust", None, "The profile asks for validation or time stamps and the host trusts no root"),
    ErrorCode("profile.secret-refused", None, "A secret is too short, or given where none belongs"),
    ErrorCode("profile.secret-unreadable", None, "A stored secret that would be kept does not open"),
    ErrorCode("profile.secrets-key-missing", None, "A secret cannot be stored without its sealing key"),
    ErrorCode("upload.disabled", 409, "Uploads are switched off on this host"),
    ErrorCode("upload.empty", 400, "The upload has no file, or the file is empty"),
    ErrorCode("upload.too-large", 413, "The upload is larger than this host allows"),
    ErrorCode("upload.invalid-name", 400, "The uploaded file has no usable name"),
    ErrorCode("upload.format-unsupported", 400, "Unknown signature format"),
    ErrorCode("upload.metadata-invalid", 400, "The metadata of the upload breaks a rule"),
    ErrorCode("file.already-processed", 409, "A completed or unfinished job has a file of this name"),
    ErrorCode("job.not-found", 404, "No such job"),
    ErrorCode("job.not-queued", 409, "A job can be canceled only while it waits"),
    ErrorCode("job.race-lost", 409, "Another writer changed the job first"),
    ErrorCode("job.not-failed", 409, "Only a failed job can be retried"),
    ErrorCode("job.rejected-not-retriable", 409, "The file was rejected and handed back"),
    ErrorCode("job.input-missing", 409, "The original input file is gone"),
    ErrorCode("job.metadata-invalid", None, "The metadata file beside the input breaks a rule"),
    ErrorCode("job.already-processing", 409, "An active job already has this path"),
    ErrorCode("job.path-too-long", 400, "The path is longer than 850 characters"),
    ErrorCode("job.output-unavailable", 409, "The job has no signed output"),
    ErrorCode("job.output-gone", 410, "The signed output is no longer in the output folder"),
    ErrorCode("job.archive-empty", 400, "No job is named"),
    ErrorCode("job.archive-too-large", 400, "More than 50 jobs are named"),
    ErrorCode("job.input-held", None, "Someone else holds the input file"),
    ErrorCode("job.input-diverged", None, "The input was rewritten, or could not be removed; it was left in place"),
    ErrorCode("pipeline.race-lost", 409, "Another pause or resume was first"),
    ErrorCode("pipeline.state-missing", 500, "The database has lost the pause flag"),
    ErrorCode("approval.content-changed", None, "The staged bytes changed before signing"),
    ErrorCode("backup.disabled", 409, "Backups are off, or the database is a server's"),
    ErrorCode("backup.already-running", 409, "A backup is under way already"),
    ErrorCode("backup.not-running", 409, "No backup is under way"),
    ErrorCode("retention.not-acknowledged", 409, "The retention policy is not acknowledged"),
    ErrorCode("retention.already-running", 409, "A retention preview or run is under way"),
    ErrorCode("sign.failed", None, "Signing failed", text_on_job=True),
    ErrorCode("sign.certificate-invalid", None, "The certificate was refused before signing", text_on_job=True),
    ErrorCode("sign.timestamp-failed", None, "No time-stamp service gave a stamp", text_on_job=True),
    ErrorCode("sign.revocation-data-missing", None, "The proof of the certificates is not to be had", text_on_job=True),
    ErrorCode("pdf.encrypted", None, "The PDF is encrypted, and stays so"),
    ErrorCode("pdf.repaired", None, "The PDF is repaired before it is signed"),
    ErrorCode("pdf.hybrid", None, "The PDF has a hybrid cross-reference"),
    ErrorCode("pdf.archival", None, "The PDF claims conformance to PDF/A"),
    ErrorCode("pdf.xfa", None, "The PDF has an XFA form"),
    ErrorCode("pdf.signed", None, "The PDF has a signature, which is intact"),
    ErrorCode("pdf.signature-broken", None, "The PDF has a signature that is not intact"),
    ErrorCode("verify.failed", None, "The signed file did not pass its check", text_on_job=True),
    ErrorCode("verify.engines-disagree", None, "A second engine refuses the signed file", text_on_job=True),
    ErrorCode("encrypt.failed", None, "The signed file could not be encrypted", text_on_job=True),
    ErrorCode("promote.output-exists", None, "The output name is taken", text_on_job=True),
    ErrorCode("recovery.interrupted", None, "The process that worked on the job ended", text_on_job=True),
)

CODES: Mapping[str, ErrorCode] = MappingProxyType({row.code: row for row in _ROWS})
