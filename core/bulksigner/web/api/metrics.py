"""Metrics (API-49)."""

from __future__ import annotations

import falcon

from bulksigner.observability.metrics import CONTENT_TYPE
from bulksigner.web.services import WebServices

__all__ = ["show"]


def show(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """Answer every metric in the text format of Prometheus."""
    response.content_type = CONTENT_TYPE
    response.data = services.metrics.render()
