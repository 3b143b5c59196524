"""Builds the WSGI application from the table of routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Token
from typing import Any

import attrs
import falcon

from bulksigner.observability.logs import CONTEXT
from bulksigner.web.guards import ApiKeyGuard
from bulksigner.web.problems import InvalidRequest, Problems
from bulksigner.web.route import Route
from bulksigner.web.routes import ROUTES
from bulksigner.web.services import WebServices
from bulksigner.web.wire import SECURITY_HEADERS, RequestIds

__all__ = ["create_app"]

Responder = Callable[..., None]


def create_app(services: WebServices, routes: Sequence[Route] = ROUTES) -> falcon.App[Any, Any]:
    """Return the application; it holds no state of its own beside the services."""
    routes = [attrs.evolve(route, policy=services.policies.get(route.path, route.policy)) for route in routes]
    app: falcon.App[Any, Any] = falcon.App(middleware=[_Envelope(routes)])
    Problems(services.codes, environment=services.environment, scrub=services.scrub).install(app)
    guard = ApiKeyGuard(services.api_key, services.api_key_header)
    for path in dict.fromkeys(route.path for route in routes):
        app.add_route(path, _Resource([route for route in routes if route.path == path], services, guard))
    return app


class _Resource:
    """What answers at one path; a method without a row is 405, which also refuses preflights (SEC-38)."""

    def __init__(self, routes: Sequence[Route], services: WebServices, guard: ApiKeyGuard) -> None:
        self._allowed = [route.method for route in routes]
        for route in routes:
            respond = _responder(route, services, guard)
            setattr(self, f"on_{route.method.lower()}", respond)
            if route.method == "GET":
                self._allowed.append("HEAD")
                self.on_head = _without_body(respond)

    def on_options(self, *_: object, **__: str) -> None:
        raise falcon.HTTPMethodNotAllowed(self._allowed)


def _responder(route: Route, services: WebServices, guard: ApiKeyGuard) -> Responder:
    def respond(request: falcon.Request, response: falcon.Response, **parameters: str) -> None:
        request.context.statuses = route.codes
        request.context.person = guard.admit(route.policy, request)
        limit = route.max_body_bytes
        if limit is not None and (request.content_length or 0) > limit:
            raise InvalidRequest("Content-Length", f"must be at most {limit}")
        response.status = route.status
        response.content_type = falcon.MEDIA_JSON
        route.act(services, request, response, **parameters)

    return respond


def _without_body(respond: Responder) -> Responder:
    """Answer HEAD as GET is answered; Falcon sends no body, and an opened file is closed here."""

    def respond_head(request: falcon.Request, response: falcon.Response, **parameters: str) -> None:
        respond(request, response, **parameters)
        if response.stream is not None:
            response.stream.close()  # type: ignore[union-attr] # the every stream of this app has it
            response.stream = None

    return respond_head


class _Envelope:
    """What every request and every answer has, whatever the route does."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes

    def process_request(self, request: falcon.Request, _: falcon.Response) -> None:
        ids = RequestIds.of(request.get_header("traceparent"))
        request.context.ids = ids
        request.context.statuses = {}
        request.context.routes = self._routes
        request.context.log = CONTEXT.set({"trace_id": ids.trace_id, "request_id": ids.request_id})

    def process_response(self, request: falcon.Request, response: falcon.Response, *_: object) -> None:
        response.set_headers(SECURITY_HEADERS)
        token: Token[Any] = request.context.log
        CONTEXT.reset(token)
