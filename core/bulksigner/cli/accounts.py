"""`bulksigner audit`: name every file that nothing accounts for (BEY-50)."""

from __future__ import annotations

import datetime
import json
import os

from bulksigner.audit.accounts import Account, Audit, Period, run_audit
from bulksigner.boot import lay_foundation
from bulksigner.cli.desk import open_database
from bulksigner.contract.errors import BulkSignerError
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import open_folders
from bulksigner.jobs.states import ACTIVE, JobStatus

__all__ = ["audit", "read_time"]

EXIT_UNACCOUNTED = 1


def audit(*, start: str | None, end: str | None, hashes: bool, as_json: bool) -> int:
    """Account for the jobs and files of a period; 0 when everything is accounted for, else 1."""
    period = Period(read_time("--from", start), read_time("--to", end))
    foundation = lay_foundation(os.environ)
    core = foundation.settings.core
    with open_database(foundation) as store:
        folders = open_folders(core.storage, core.watched_folder, foundation.registry.storage_provider)
        account = run_audit(Audit(store, folders, WorkRoots(core.storage.root), hashes), period)
    print(json.dumps(_document(account, period), indent=2) if as_json else "\n".join(_lines(account, period)))
    return EXIT_UNACCOUNTED if account.unaccounted else 0


def read_time(option: str, text: str | None) -> datetime.datetime | None:
    """Read the time that an option gives; raises `BulkSignerError` for a text that is none."""
    if text is None:
        return None
    try:
        given = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise BulkSignerError(
            f"{option} {text} is no date; write 2026-08-12, or 2026-08-12T14:00:00Z (UTC without a zone)."
        ) from error
    return given if given.tzinfo is not None else given.replace(tzinfo=datetime.UTC)


def _lines(account: Account, period: Period) -> list[str]:
    counts, waiting = account.jobs, sum(account.jobs[status] for status in ACTIVE)
    ends = ", ".join(
        f"{counts[status]} {status.value}" for status in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED)
    )
    lines = [
        f"Jobs taken in {_write(period)}: {counts.total()} ({ends}, {waiting} not ended)",
        f"Outputs: {account.outputs_present} in output/, {account.outputs_collected} collected",
    ]
    for one in account.unaccounted:
        job = f" (job {one.job_id})" if one.job_id is not None else ""
        lines.append(f"UNACCOUNTED  {one.kind.value:<10}  {one.path}: {one.reason}{job}")
    count = len(account.unaccounted)
    lines.append(f"{count} cannot be accounted for." if count else "Everything is accounted for.")
    return lines


def _write(period: Period) -> str:
    if period.start is None and period.end is None:
        return "all"
    start, end = (at.isoformat() if at is not None else "…" for at in (period.start, period.end))
    return f"{start} to {end}"


def _document(account: Account, period: Period) -> dict[str, object]:
    return {
        "from": period.start.isoformat() if period.start is not None else None,
        "to": period.end.isoformat() if period.end is not None else None,
        "jobs": {status.value: account.jobs[status] for status in JobStatus},
        "outputsPresent": account.outputs_present,
        "outputsCollected": account.outputs_collected,
        "unaccounted": [
            {"kind": one.kind.value, "path": one.path, "reason": one.reason, "jobId": one.job_id}
            for one in account.unaccounted
        ],
    }
