"""Builds the WSGI application from the table of routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Token
from typing import Any

import attrs
import falcon

from bulksigner.contract.errors import NotAllowed
from bulksigner.observability.logs import CONTEXT
from bulksigner.web.clients import Client
from bulksigner.web.entrance import Entrance
from bulksigner.web.guards import Guard
from bulksigner.web.headers import harden
from bulksigner.web.problems import InvalidRequest, Problems
from bulksigner.web.route import Route
from bulksigner.web.routes import ROUTES
from bulksigner.web.services import WebServices
from bulksigner.web.wire import RequestIds

__all__ = ["create_app"]

Responder = Callable[..., None]


def create_app(services: WebServices, routes: Sequence[Route] = ROUTES) -> falcon.App[Any, Any]:
    """Return the application; it holds no state of its own beside the services."""
    routes = [attrs.evolve(route, policy=services.policies.get(route.path, route.policy)) for route in routes]
    app: falcon.App[Any, Any] = falcon.App(request_type=_Request, middleware=[_Envelope(routes, services.entrance)])
    Problems(services.codes, environment=services.environment, scrub=services.scrub).install(app)
    guard = Guard(services.api_key, services.api_key_header, services.sessions)
    for path in dict.fromkeys(route.path for route in routes):
        app.add_route(path, _Resource([route for route in routes if route.path == path], services, guard))
    return app


class _Resource:
    """What answers at one path; a method without a row is 405, which also refuses preflights (SEC-38)."""

    def __init__(self, routes: Sequence[Route], services: WebServices, guard: Guard) -> None:
        self._allowed = [route.method for route in routes]
        for route in routes:
            respond = _responder(route, services, guard)
            setattr(self, f"on_{route.method.lower()}", respond)
            if route.method == "GET":
                self._allowed.append("HEAD")
                self.on_head = _without_body(respond)

    def on_options(self, *_: object, **__: str) -> None:
        raise falcon.HTTPMethodNotAllowed(self._allowed)


def _responder(route: Route, services: WebServices, guard: Guard) -> Responder:
    def respond(request: falcon.Request, response: falcon.Response, **parameters: str) -> None:
        request.context.statuses = route.codes
        _count(route, services, request, response)
        request.context.person = guard.admit(route.policy, request, response)
        limit = route.max_body_bytes
        if limit is not None and (request.content_length or 0) > limit:
            raise InvalidRequest("Content-Length", f"must be at most {limit}")
        response.status = route.status
        response.content_type = falcon.MEDIA_JSON
        route.act(services, request, response, **parameters)

    return respond


def _count(route: Route, services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Count the request before its credentials are looked at, so that guesses count too (API-18)."""
    if route.limit is None or services.limits is None:
        return
    left = services.limits.take(route.limit, request.context.client.partition)
    if left is not None:
        response.set_header("Retry-After", str(left))
        raise NotAllowed(
            f"Too many requests from {request.context.client.address} (RateLimiting:{route.limit.value}); "
            f"try again in {left} s.",
            code="rate-limited",
        )


def _without_body(respond: Responder) -> Responder:
    """Answer HEAD as GET is answered; Falcon sends no body, and an opened file is closed here."""

    def respond_head(request: falcon.Request, response: falcon.Response, **parameters: str) -> None:
        respond(request, response, **parameters)
        if response.stream is not None:
            response.stream.close()  # type: ignore[union-attr] # the every stream of this app has it
            response.stream = None

    return respond_head


class _Request(falcon.Request):
    """Has from the first what its answer and its log lines tell: Falcon refuses some before any middleware runs."""

    def __init__(self, env: dict[str, Any], options: falcon.RequestOptions | None = None) -> None:
        super().__init__(env, options)
        ids = RequestIds.of(self.get_header("traceparent"))
        self.context.ids = ids
        self.context.statuses = {}
        self.context.form = self.context.ticket = None
        self.context.client = Client("")
        self.context.log = CONTEXT.set({"trace_id": ids.trace_id, "request_id": ids.request_id})


class _Envelope:
    """What every request and every answer has, whatever the route does."""

    def __init__(self, routes: Sequence[Route], entrance: Entrance) -> None:
        self._routes = routes
        self._entrance = entrance

    def process_request(self, request: falcon.Request, _: falcon.Response) -> None:
        request.context.routes = self._routes
        self._entrance.receive(request)

    def process_response(self, request: falcon.Request, response: falcon.Response, *_: object) -> None:
        harden(response, is_secure=request.context.client.is_secure, requires_https=self._entrance.requires_https)
        token: Token[Any] = request.context.log
        CONTEXT.reset(token)
