"""The interface described by itself: OpenAPI and a page to read (API-91)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import falcon

from bulksigner.web.languages import choose_culture
from bulksigner.web.openapi import DEFAULT_COOKIE, describe
from bulksigner.web.page import LANGUAGES, STYLE, render_page
from bulksigner.web.parameters import Text
from bulksigner.web.route import Route
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json

__all__ = ["LANGUAGE", "send_style", "show", "show_page"]

LANGUAGE = Text("lang", f"{' or '.join(LANGUAGES)}; without it, as the browser asks.", "request.invalid", True)


def show(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Send the OpenAPI document of what this service serves."""
    response.data = dump_json(_document(services, request))


def show_page(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Send the same as a page in the reader's language."""
    culture = choose_culture(request, LANGUAGE.read(request))
    response.content_type = falcon.MEDIA_HTML
    response.set_header("Content-Language", culture)
    response.set_header("Vary", "Accept-Language, Cookie")
    response.data = render_page(_document(services, request), culture).encode()


def send_style(_: WebServices, __: falcon.Request, response: falcon.Response) -> None:
    """Send the style sheet of the page."""
    response.content_type = "text/css; charset=utf-8"
    response.data = STYLE.encode()


def _document(services: WebServices, request: falcon.Request) -> dict[str, Any]:
    routes: Sequence[Route] = request.context.routes
    cookie = DEFAULT_COOKIE if services.sessions is None else services.sessions.cookie_name
    return describe(routes, services.codes, key_header=services.api_key_header, cookie=cookie)
