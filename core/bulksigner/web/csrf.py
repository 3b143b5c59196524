"""What tells a request made on our own pages from one that another site made for its reader (SEC-34 to SEC-36)."""

from __future__ import annotations

import secrets
import urllib.parse

import falcon

from bulksigner.contract.errors import Refusal
from bulksigner.web.equality import is_same_secret
from bulksigner.web.forms import read_form
from bulksigner.web.sessions import Sessions, Ticket, read_cookie

__all__ = [
    "COOKIE",
    "FIELD",
    "HEADER",
    "SAFE_METHODS",
    "is_unsafe",
    "make_token",
    "refuse_forged",
    "refuse_forged_form",
]

HEADER = "X-CSRF-Token"
FIELD = "csrfToken"
COOKIE = "lbs-csrf"
"""The double-submit token of whoever has no session yet."""
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_USUAL_PORTS = (None, 80, 443)


def is_unsafe(request: falcon.Request) -> bool:
    """Tell whether the method may change anything (SEC-37)."""
    return request.method not in SAFE_METHODS


def make_token(sessions: Sessions) -> str:
    """Return a new double-submit token, signed so that a neighbouring site cannot plant one of its own."""
    nonce = secrets.token_urlsafe(32)
    return f"{nonce}.{sessions.sign(nonce)}"


def refuse_forged(request: falcon.Request, ticket: Ticket) -> None:
    """Refuse with `auth.csrf` what does not show the token of its session, or comes from another site."""
    _refuse_other_site(request)
    if not _is_same(_given(request), ticket.csrf):
        raise _forged(f"the token of the session is missing or wrong; send it in the header {HEADER}")


def refuse_forged_form(request: falcon.Request, sessions: Sessions, ticket: Ticket | None) -> None:
    """Refuse a form of the sign-in pages that shows neither its session's token nor the double-submit one (SEC-36)."""
    _refuse_other_site(request)
    given = _given(request)
    if ticket is not None and _is_same(given, ticket.csrf):
        return
    planted = read_cookie(request.get_header("Cookie"), COOKIE) or ""
    nonce, _, digest = planted.partition(".")
    if not (_is_same(given, planted) and sessions.has_signed(nonce, digest)):
        raise _forged(f"the token of the form is missing or wrong; send {FIELD} as the sign-in page gave it")


def _given(request: falcon.Request) -> str:
    return request.get_header(HEADER) or read_form(request).get(FIELD, "")


def _is_same(given: str, expected: str) -> bool:
    # An empty token is no token, on either side.
    return is_same_secret(given.encode("utf-8", "replace"), expected.encode()) and bool(expected)


def _refuse_other_site(request: falcon.Request) -> None:
    if (request.get_header("Sec-Fetch-Site") or "").strip().lower() == "cross-site":
        raise _forged("the browser says that another site made the request")
    origin = request.get_header("Origin")
    # The host alone: behind a proxy that is not believed, the scheme that the browser speaks is not known here.
    if origin is not None and _place(origin) != _place(f"//{request.get_header('Host')}"):
        raise _forged("its Origin is another host")


def _place(url: str) -> tuple[str | None, int | None]:
    """Return host and port of a URL, the port of plain HTTP and that of HTTPS being none."""
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.hostname, None if parts.port in _USUAL_PORTS else parts.port
    except ValueError:
        return None, None


def _forged(reason: str) -> Refusal:
    return Refusal(f"The request was refused as forged: {reason}.", code="auth.csrf")
