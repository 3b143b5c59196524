"""One row of the table of routes: everything that the service, its document and its reference pages need of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import falcon

from bulksigner.contract.codes import CODES
from bulksigner.web.bodies import Body
from bulksigner.web.guards import Policy
from bulksigner.web.limits import MAX_BODY_BYTES
from bulksigner.web.parameters import Parameter
from bulksigner.web.rate_limits import ROUTE_LIMITS, LimitName
from bulksigner.web.schema import Schema, ref

__all__ = ["Answer", "Route", "codes", "file_answer", "shaped", "text_answer"]


@attrs.frozen
class Answer:
    """What a success looks like; `also` are further statuses that answer the same way."""

    media_types: tuple[str, ...]
    schema: Schema | None = None
    also: Mapping[int, str] = attrs.field(factory=dict)


def shaped(shape: str, also: Mapping[int, str] = MappingProxyType({})) -> Answer:
    """Return the answer that is JSON of a shape of `shapes.SHAPES`."""
    return Answer((falcon.MEDIA_JSON,), ref(shape), also)


def file_answer(*media_types: str) -> Answer:
    """Return the answer that is a download."""
    return Answer(media_types)


def text_answer(media_type: str) -> Answer:
    """Return the answer that is text for a reader."""
    return Answer((media_type,), {"type": "string"})


@attrs.frozen
class Route:
    """One row: `codes` are the refusals of the route's own, each with its HTTP status here (API-76)."""

    method: str
    path: str
    policy: Policy
    act: Callable[..., None]
    """Called with services, request, response, and the parameters of the path by name."""
    status: int
    codes: Mapping[str, int]
    summary: str
    max_body_bytes: int | None = MAX_BODY_BYTES
    """None where the handler itself measures the body."""
    query: Sequence[Parameter] = ()
    """The parameters that `act` reads; others are ignored."""
    body: Body | None = None
    answer: Answer | None = None
    """None where the answer has no content, such as a redirection."""

    @property
    def limit(self) -> LimitName | None:
        """Return the limit on how often one address may call it."""
        return ROUTE_LIMITS.get((self.method, self.path))

    @property
    def name(self) -> str:
        """Return the route as people write it."""
        return f"{self.method} {self.path}"


def codes(*names: str, **others: int) -> Mapping[str, int]:
    """Return refusals with the statuses of their rows, and `others` with a status of their own on this route."""
    statuses: dict[str, Any] = {name: CODES[name].status or 500 for name in names}
    return MappingProxyType(statuses | others)
