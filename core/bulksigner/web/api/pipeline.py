"""The pipeline: its state, pause and resume (API-33 to API-35)."""

from __future__ import annotations

import falcon

from bulksigner.contract.signing import Format
from bulksigner.web.bodies import REASON
from bulksigner.web.guards import person_of
from bulksigner.web.services import PipelineView, WebServices
from bulksigner.web.wire import dump_json, wire_time

__all__ = ["pause", "resume", "show"]


def show(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """Show the pause flag and what is under way (API-68)."""
    _answer(response, services.read_pipeline())


def pause(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Stop the next claim, on every instance and until somebody resumes."""
    _answer(response, services.pause(person_of(request), REASON.read(request)))


def resume(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Let claims go on."""
    _answer(response, services.resume(person_of(request), REASON.read(request)))


def _answer(response: falcon.Response, view: PipelineView) -> None:
    state = view.state
    by_format: dict[str, int] = {known.value.lower(): view.in_flight.get(known, 0) for known in Format}
    total = sum(by_format.values())
    response.data = dump_json(
        {
            "paused": state.is_paused,
            "pausedAtUtc": None if state.paused_at is None else wire_time(state.paused_at),
            "resumedAtUtc": None if state.resumed_at is None else wire_time(state.resumed_at),
            "pausedBy": state.paused_by,
            "reason": state.reason,
            "maxConcurrency": view.max_concurrency,
            "jobsInFlight": total,
            "jobsInFlightByFormat": {**by_format, "total": total},
        }
    )
