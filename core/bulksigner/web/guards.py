"""Who may call a route (API-08 to API-12)."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import falcon

from bulksigner.contract.errors import Refusal
from bulksigner.contract.settings import Secret
from bulksigner.operations.people import Person
from bulksigner.web.csrf import is_unsafe, refuse_forged
from bulksigner.web.equality import is_same_secret
from bulksigner.web.sessions import Sessions, Ticket, read_cookie

__all__ = ["Guard", "Policy", "person_of", "set_session_cookie"]

HOLDER_OF_KEY = Person("operator", "ApiKey")
"""Whoever has the key is an operator and has no other name (SEC-26)."""
COOKIE_SCHEME = "Cookie"
REFRESH = "X-Refresh"
"""With the value `auto`: a page asked by itself, which keeps nobody signed in (SEC-20)."""


class Policy(enum.Enum):
    """What a caller must show; a route that declares nothing is `OPERATOR`."""

    ANONYMOUS = "Anonymous"
    OPERATOR = "Operator"
    OPERATOR_SESSION = "OperatorSession"


class Guard:
    """Compares credentials in constant time (SEC-18); where a key is sent, the key decides (API-12)."""

    def __init__(self, api_key: Secret, header: str, sessions: Sessions | None) -> None:
        self._header = header
        self._cgi_header = header.upper().replace("-", "_")
        self._api_key = api_key
        self._sessions = sessions

    def admit(self, policy: Policy, request: falcon.Request, response: falcon.Response) -> Person | None:
        """Let the request pass and say who asks, None on an anonymous route; raises `Refusal` with a code of `auth`."""
        if policy is Policy.ANONYMOUS:
            return None
        if not self._api_key:
            raise Refusal("Auth:ApiKey is empty; set it and restart.", code="auth.misconfigured")
        key = request.get_header(self._header)
        ticket = self._ticket(request) if key is None else None
        if ticket is not None:
            self._admit_session(ticket, request, response)
            return Person(ticket.name, COOKIE_SCHEME)
        if policy is Policy.OPERATOR_SESSION:
            raise Refusal("This route is for browser sessions; sign in first.", code="auth.invalid-credentials")
        if not self.is_key(key):
            raise Refusal(
                f"Send the API key in the header {self._header}; it is missing or wrong.",
                code="auth.invalid-credentials",
            )
        return HOLDER_OF_KEY

    def is_key(self, given: str | None) -> bool:
        """Tell whether a text as WSGI hands it over, header bytes as Latin-1 (PEP 3333), is the key."""
        expected = self._api_key.reveal().encode()
        return is_same_secret((given or "").encode("latin-1", "replace"), expected) and bool(expected)

    def recognises(self, headers: Mapping[str, str]) -> bool:
        """Tell from a head alone, by CGI names, whether credentials are worth reading a body for."""
        key = headers.get(self._cgi_header)
        if key is not None or self._sessions is None:
            return self.is_key(key)
        return self._sessions.open(read_cookie(headers.get("COOKIE"), self._sessions.cookie_name)) is not None

    def _ticket(self, request: falcon.Request) -> Ticket | None:
        if self._sessions is None:
            return None
        return self._sessions.find(read_cookie(request.get_header("Cookie"), self._sessions.cookie_name))

    def _admit_session(self, ticket: Ticket, request: falcon.Request, response: falcon.Response) -> None:
        if is_unsafe(request):
            refuse_forged(request, ticket)
        request.context.ticket = ticket
        if self._sessions is not None and (request.get_header(REFRESH) or "").lower() != "auto":
            prolonged = self._sessions.prolong(ticket)
            if prolonged is not None:
                set_session_cookie(self._sessions, prolonged, request, response)


def set_session_cookie(sessions: Sessions, ticket: Ticket, request: falcon.Request, response: falcon.Response) -> None:
    """Hand a ticket to the browser, for as long as it runs (SEC-20)."""
    response.set_cookie(
        sessions.cookie_name,
        sessions.seal(ticket),
        path="/",
        secure=request.context.client.is_secure,
        http_only=True,
        same_site="Strict",
    )


def person_of(request: falcon.Request) -> Person:
    """Return who asks on a route that is not anonymous."""
    person = request.context.person
    if not isinstance(person, Person):
        raise TypeError(f"{request.path} is open to anybody, and needs to know who asks")
    return person
