"""Signing in and out of a browser session, and who one is (API-19 to API-22)."""

from __future__ import annotations

import logging
import urllib.parse

import falcon

from bulksigner.observability.logs import facts
from bulksigner.web.csrf import COOKIE, refuse_forged_form
from bulksigner.web.forms import read_form
from bulksigner.web.guards import HOLDER_OF_KEY, Guard, person_of, set_session_cookie
from bulksigner.web.redirects import local_place
from bulksigner.web.services import WebServices
from bulksigner.web.sessions import Sessions, Ticket, read_cookie
from bulksigner.web.wire import dump_json

__all__ = ["go_to_login", "sign_in", "sign_out", "ticket_of", "who_am_i"]

_log = logging.getLogger("bulksigner.web")


def sign_in(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Begin a session for whoever knows the key; a session that was there before ends (SEC-22)."""
    sessions = services.sessions
    if sessions is None or not services.api_key:
        _send(response, "/login?error=server")
        return
    before = ticket_of(sessions, request)
    refuse_forged_form(request, sessions, before)
    form = read_form(request)
    place = local_place(form.get("ReturnUrl"))
    guard = Guard(services.api_key, services.api_key_header, sessions)
    if not guard.is_key(form.get("ApiKey", "").encode().decode("latin-1")):
        _log.warning("Sign-in refused: wrong key", extra=facts(client=request.context.client.address))
        back = "" if place == "/" else f"&returnUrl={urllib.parse.quote(place, safe='')}"
        _send(response, f"/login?error=invalid{back}")
        return
    if before is not None:
        sessions.end(before)
    set_session_cookie(sessions, sessions.begin(HOLDER_OF_KEY.name), request, response)
    _forget(response, COOKIE)
    _log.info("Signed in", extra=facts(client=request.context.client.address))
    _send(response, place)


def sign_out(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """End the session there is, for every copy of its cookie."""
    sessions = services.sessions
    if sessions is not None:
        ticket = ticket_of(sessions, request)
        refuse_forged_form(request, sessions, ticket)
        _forget(response, sessions.cookie_name)
        if ticket is not None:
            sessions.end(ticket)
            _log.info("Signed out", extra=facts(client=request.context.client.address))
    _send(response, "/login")


def go_to_login(_: WebServices, __: falcon.Request, response: falcon.Response) -> None:
    """Send the browser to the sign-in page: no tenant signs in here (API-21)."""
    _send(response, "/login")


def who_am_i(_: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Show who asks and, to a session, the token its unsafe requests must carry (API-22, SEC-34)."""
    person = person_of(request)
    members: dict[str, object] = {"name": person.name, "scheme": person.scheme, "roles": ["Operator"]}
    ticket: Ticket | None = request.context.ticket
    if ticket is not None:
        members["csrfToken"] = ticket.csrf
    response.data = dump_json(members)


def ticket_of(sessions: Sessions, request: falcon.Request) -> Ticket | None:
    """Return the session a request of an anonymous route comes with."""
    return sessions.find(read_cookie(request.get_header("Cookie"), sessions.cookie_name))


def _send(response: falcon.Response, place: str) -> None:
    response.status = 302
    response.location = place
    response.content_type = falcon.MEDIA_TEXT


def _forget(response: falcon.Response, cookie: str) -> None:
    response.unset_cookie(cookie, path="/", same_site="Strict")
