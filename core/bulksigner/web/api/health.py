"""Health and readiness (API-46 to API-48, API-77 to API-80)."""

from __future__ import annotations

import falcon

from bulksigner.observability.readiness import Report
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json

__all__ = ["answer_health", "show_details", "show_verdict"]

_HEALTHY = dump_json({"status": "healthy"})


def answer_health(_: WebServices, __: falcon.Request, response: falcon.Response) -> None:
    """Answer as long as the process does; nothing else is touched."""
    response.data = _HEALTHY


def show_verdict(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """Show each check's name and verdict, without detail (SEC-17)."""
    report = services.report_readiness()
    _answer(response, report, [{"name": row.name, "ok": row.ok} for row in report.rows])


def show_details(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """Show each check's name, verdict and detail."""
    report = services.report_readiness()
    _answer(response, report, [{"name": row.name, "ok": row.ok, "detail": row.detail} for row in report.rows])


def _answer(response: falcon.Response, report: Report, checks: list[dict[str, object]]) -> None:
    response.status = 200 if report.ready else 503
    response.data = dump_json({"ready": report.ready, "checks": checks})
