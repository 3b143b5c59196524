"""How much of a body may come in, judged by the head alone: nothing large is stored for who shows no credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from bulksigner.web.guards import Guard
from bulksigner.web.limits import MAX_ANONYMOUS_BODY_BYTES, MAX_BODY_BYTES
from bulksigner.web.routes import ROUTES, Route
from bulksigner.web.services import WebServices

__all__ = ["BodyGate", "BodyRule", "gate_of"]


@attrs.frozen
class BodyRule:
    """The longest body in bytes, and how a longer one is refused."""

    limit_bytes: int
    status: int
    code: str


class BodyGate:
    """Judges heads; `recognises` tells whether the headers of a request hold credentials that look good."""

    def __init__(
        self,
        recognises: Callable[[Mapping[str, str]], bool],
        *,
        uploads_enabled: bool,
        max_upload_bytes: int,
        routes: Sequence[Route] = ROUTES,
    ) -> None:
        self._recognises = recognises
        self._uploads_enabled = uploads_enabled
        self._max_upload_bytes = max_upload_bytes
        self._measured = {(row.method, row.path): row for row in routes if row.max_body_bytes is None}

    def judge(self, method: str, path: str, headers: Mapping[str, str]) -> BodyRule:
        """Return the rule for one request; `headers` by CGI name, such as `X_API_KEY`."""
        if not self._recognises(headers):
            return BodyRule(MAX_ANONYMOUS_BODY_BYTES, 401, "auth.invalid-credentials")
        route = self._measured.get((method, path))
        if route is None:
            return BodyRule(MAX_BODY_BYTES, 400, "request.invalid")
        if not self._uploads_enabled and "upload.disabled" in route.codes:
            return BodyRule(MAX_BODY_BYTES, 409, "upload.disabled")
        return BodyRule(max(self._max_upload_bytes, MAX_BODY_BYTES), 413, "upload.too-large")


def gate_of(services: WebServices) -> BodyGate:
    """Return the gate in front of the application of these services."""
    guard = Guard(services.api_key, services.api_key_header, services.sessions)
    return BodyGate(
        guard.recognises, uploads_enabled=services.uploads_enabled, max_upload_bytes=services.max_upload_bytes
    )
