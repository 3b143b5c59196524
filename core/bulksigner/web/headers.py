"""Headers of every answer (SEC-38 to SEC-40)."""

from __future__ import annotations

import falcon

from bulksigner.web.wire import SECURITY_HEADERS

__all__ = ["harden"]

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
STRICT_TRANSPORT_SECURITY = "max-age=31536000"


def harden(response: falcon.Response, *, is_secure: bool, requires_https: bool) -> None:
    """Set what every answer has, and what its type and its way call for."""
    response.set_headers(SECURITY_HEADERS)
    if (response.content_type or "").startswith("text/html"):
        response.set_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    if is_secure and requires_https:
        response.set_header("Strict-Transport-Security", STRICT_TRANSPORT_SECURITY)
