"""JSON bodies that may be left out, read strictly where a member is known (API-01, API-02)."""

from __future__ import annotations

import json
from collections.abc import Mapping

import falcon

from bulksigner.contract.errors import Refusal
from bulksigner.web.limits import MAX_BODY_BYTES
from bulksigner.web.problems import InvalidRequest

__all__ = ["read_members", "read_text"]


def read_members(request: falcon.Request) -> Mapping[str, object]:
    """Return the members of the JSON object in the body; none when there is no body."""
    content = request.bounded_stream.read(MAX_BODY_BYTES + 1)
    if len(content) > MAX_BODY_BYTES:
        raise InvalidRequest("body", f"must be at most {MAX_BODY_BYTES} bytes")
    if not content.strip():
        return {}
    try:
        members = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refusal(f"The body is not JSON in UTF-8: {error}") from error
    if not isinstance(members, dict):
        raise Refusal("The body must be a JSON object.")
    return members


def read_text(request: falcon.Request, name: str) -> str | None:
    """Return a member of the body that is text, None when it is absent or null; others are not looked at."""
    value = read_members(request).get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(name, "must be text")
    return value
