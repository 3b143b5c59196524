"""Backups of the database: what there is, one more, and an end to the one under way (API-44)."""

from __future__ import annotations

import datetime

import falcon

from bulksigner.backup.desk import BackupDesk
from bulksigner.backup.runs import Run
from bulksigner.contract.errors import NotAllowed
from bulksigner.web.guards import person_of
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json, wire_time

__all__ = ["ask", "cancel", "show"]

_HOUR = datetime.timedelta(hours=1)


def show(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """Show configuration, the backup under way, and the newest 50 that ended."""
    members: dict[str, object] = {"supported": services.backups_supported, "enabled": services.backups is not None}
    if services.backups is not None:
        state = services.backups.look()
        running = state.under_way
        members |= {
            "destination": {"kind": "Disk", "path": str(state.plan.folder)},
            "intervalHours": None
            if state.plan.interval is None
            else state.plan.interval // datetime.timedelta(hours=1),
            "retainCount": state.plan.retain_count,
            "running": None
            if running is None
            else {"runId": running.id, "actor": running.actor, "startedAtUtc": wire_time(running.started_at)},
            "lastSuccessAtUtc": _instant(state.last_success_at),
            "nextDueAtUtc": _instant(state.next_due_at),
            "runs": [_members(run) for run in state.runs],
        }
    response.data = dump_json(members)


def ask(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Have a backup made; the answer does not wait for it."""
    response.data = dump_json({"runId": _desk(services).ask(person_of(request).name)})


def cancel(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """Have the backup under way ended; it leaves nothing."""
    response.data = dump_json({"runId": _desk(services).cancel()})


def _desk(services: WebServices) -> BackupDesk:
    if services.backups is None:
        raise NotAllowed(
            "Backups are off: set Backup:Enabled and Backup:Disk:Path, with Database:Provider = Sqlite.",
            code="backup.disabled",
        )
    return services.backups


def _members(run: Run) -> dict[str, object]:
    return {
        "runId": run.id,
        "actor": run.actor,
        "result": run.result.value,
        "startedAtUtc": wire_time(run.started_at),
        "endedAtUtc": wire_time(run.ended_at),
        "durationMs": (run.ended_at - run.started_at) // datetime.timedelta(milliseconds=1),
        "fileName": run.file_name,
        "bytes": run.length,
        "reason": run.reason,
    }


def _instant(value: datetime.datetime | None) -> str | None:
    return None if value is None else wire_time(value)
