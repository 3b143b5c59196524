"""The language of pages (API-45, DSH-57)."""

from __future__ import annotations

import falcon

from bulksigner.contract.errors import Refusal
from bulksigner.web.api.auth import ticket_of
from bulksigner.web.csrf import refuse_forged_form
from bulksigner.web.languages import COOKIE, CULTURES
from bulksigner.web.parameters import Text
from bulksigner.web.redirects import local_place
from bulksigner.web.services import WebServices

__all__ = ["QUERY", "choose"]

_NOT_SUPPORTED = "culture.not-supported"
_YEAR_SECONDS = 365 * 24 * 3600
_CULTURE = Text("culture", f"{' or '.join(CULTURES)}.", code=_NOT_SUPPORTED, may_be_blank=True)
_REDIRECT = Text("redirectUri", "Where to go on to: a path of this service.", "request.invalid", may_be_blank=True)
QUERY = (_CULTURE, _REDIRECT)


def choose(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Keep the language in a cookie for a year, and go on to a page of this service."""
    if services.sessions is not None:
        refuse_forged_form(request, services.sessions, ticket_of(services.sessions, request))
    culture = _CULTURE.read(request)
    if culture not in CULTURES:
        raise Refusal(f"culture must be {' or '.join(CULTURES)}.", code=_NOT_SUPPORTED)
    response.set_cookie(
        COOKIE,
        culture,
        max_age=_YEAR_SECONDS,
        path="/",
        http_only=True,
        same_site="Lax",
        secure=request.context.client.is_secure,
    )
    response.location = local_place(_REDIRECT.read(request))
