"""How things look on the wire: JSON, times, the members of a job (API-01, API-58)."""

from __future__ import annotations

import datetime
import json
import re
import secrets

import attrs

from bulksigner.jobs.model import Job
from bulksigner.jobs.states import JobStatus

__all__ = ["SECURITY_HEADERS", "RequestIds", "dump_json", "is_encrypted", "job_members", "wire_time"]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")

# On every answer (SEC-39); none of them is for another origin (SEC-38).
SECURITY_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("Cache-Control", "no-store"),
)


@attrs.frozen
class RequestIds:
    """The two ids of a request, in its log lines and its problem document (API-03)."""

    trace_id: str
    request_id: str

    @classmethod
    def of(cls, traceparent: str | None) -> RequestIds:
        """Continue the caller's trace (W3C Trace Context) or begin one; the request id is always new."""
        match = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
        given = match.group(1) if match else ""
        return cls(given if given.strip("0") else secrets.token_hex(16), secrets.token_hex(8))


def dump_json(value: object) -> bytes:
    """Serialise to UTF-8; names that are no valid Unicode keep their escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def wire_time(at: datetime.datetime) -> str:
    """Write a UTC time as ISO 8601 with microseconds and `Z`."""
    return at.astimezone(datetime.UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def is_encrypted(job: Job) -> bool:
    """Tell whether the output of a job is an envelope; only a completed one has an output."""
    return job.status is JobStatus.COMPLETED and job.output_encrypted


def job_members(job: Job) -> dict[str, object]:
    """Return the members of a list item (API-58)."""
    return {
        "id": job.id,
        "fileName": job.file_name,
        "originalPath": job.original_path,
        "format": job.format.value,
        "source": job.source.value,
        "status": job.status.value,
        "createdAt": wire_time(job.created_at),
        "updatedAt": wire_time(job.updated_at),
        "parentJobId": job.parent_job_id,
        "errorCode": job.error_code,
        "errorMessage": job.error_message,
        "profileName": job.profile_name,
    }
