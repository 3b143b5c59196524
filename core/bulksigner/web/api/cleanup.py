"""Clean-up by the retention policy (API-37, API-102)."""

from __future__ import annotations

from typing import Any

import falcon

from bulksigner.web.bodies import DRY_RUN
from bulksigner.web.guards import person_of
from bulksigner.web.problems import InvalidRequest
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json

__all__ = ["clean_up"]

_COUNTS = ("matched", "removed", "moved")


def clean_up(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Apply the policy, or preview it with the body `{"dryRun": true}`; without one nothing is removed."""
    dry_run = _read_wish(request)
    if services.retention is None:
        response.data = dump_json({"message": "No retention policy is configured; nothing was removed."})
        return
    done = services.retention.clean_up(person_of(request).name, dry_run)
    run = done.run
    response.data = dump_json(
        {
            "message": done.message,
            "enabled": True,
            "dryRun": run is not None and run.is_preview,
            "acknowledged": done.is_in_force,
            "runId": None if run is None else run.id,
            "classes": [] if run is None else [_members(kind, tally) for kind, tally in run.tallies.items()],
        }
    )


def _members(kind: str, tally: dict[str, Any]) -> dict[str, object]:
    return {
        "class": kind,
        **{name: tally[name] for name in _COUNTS},
        "kept": sum(tally["kept"].values()),
        "failed": sum(tally["failed"].values()),
        "bytes": tally["bytes"],
    }


def _read_wish(request: falcon.Request) -> bool | None:
    for name in request.params:
        raise InvalidRequest(name, f"is not known; the wish is the member {DRY_RUN.name} of the body")
    return DRY_RUN.read(request)
