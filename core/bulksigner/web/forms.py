"""Bodies of plain HTML forms, read once."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping

import falcon

from bulksigner.web.limits import MAX_FIELD_BYTES
from bulksigner.web.problems import InvalidRequest

__all__ = ["read_form"]

_MAX_FIELDS = 32


def read_form(request: falcon.Request) -> Mapping[str, str]:
    """Return the fields of a form body; none where the body is of another type, which is then left unread."""
    if (request.content_type or "").partition(";")[0].strip().lower() != falcon.MEDIA_URLENCODED:
        return {}
    known: Mapping[str, str] | None = request.context.form
    if known is not None:
        return known
    content = request.bounded_stream.read(MAX_FIELD_BYTES + 1)
    if len(content) > MAX_FIELD_BYTES:
        raise InvalidRequest("body", f"must be at most {MAX_FIELD_BYTES} bytes")
    try:
        pairs = urllib.parse.parse_qsl(
            content.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise InvalidRequest("body", "is not a form in UTF-8") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise InvalidRequest("body", "has a field twice")
    request.context.form = fields
    return fields
