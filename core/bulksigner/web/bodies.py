"""Bodies of requests: each declared once, read strictly where a member is known (API-01, API-02, API-92)."""

from __future__ import annotations

import json
from collections.abc import Mapping

import attrs
import falcon

from bulksigner.contract.errors import Refusal
from bulksigner.contract.signing import Format
from bulksigner.operations.people import REASON_LIMIT
from bulksigner.web.limits import MAX_BODY_BYTES
from bulksigner.web.problems import InvalidRequest
from bulksigner.web.schema import Schema, record

__all__ = [
    "CHECK_FORM",
    "DRY_RUN",
    "REASON",
    "SIGN_IN_FORM",
    "TOKEN_FORM",
    "UPLOAD_FORM",
    "Body",
    "FlagMember",
    "TextMember",
    "read_members",
]


@attrs.frozen
class Body:
    """What a route takes as its body, as the reference shows it."""

    media_type: str
    schema: Schema
    required: bool = False


@attrs.frozen
class TextMember:
    """A member of an optional JSON object that is text; other members are not looked at."""

    name: str
    summary: str
    max_length: int

    @property
    def body(self) -> Body:
        """Return the body of a route that takes this member."""
        member = {"type": ["string", "null"], "maxLength": self.max_length, "description": self.summary}
        return Body(falcon.MEDIA_JSON, record((self.name,), **{self.name: member}))

    def read(self, request: falcon.Request) -> str | None:
        """Return the text, None when it is absent or null; its length is for the rules behind the route."""
        value = read_members(request).get(self.name)
        if value is not None and not isinstance(value, str):
            raise InvalidRequest(self.name, "must be text")
        return value


@attrs.frozen
class FlagMember:
    """The one member of an optional JSON object: a wish that must not be lost to a slip, so others are refused."""

    name: str
    summary: str

    @property
    def body(self) -> Body:
        """Return the body of a route that takes this member."""
        member = {"type": ["boolean", "null"], "description": self.summary}
        return Body(falcon.MEDIA_JSON, {**record((self.name,), **{self.name: member}), "additionalProperties": False})

    def read(self, request: falcon.Request) -> bool | None:
        """Return the wish, None when it is absent or null."""
        members = read_members(request)
        for name in members:
            if name != self.name:
                raise InvalidRequest(name, f"is not known; the body may have the member {self.name}")
        wish = members.get(self.name)
        if wish is not None and not isinstance(wish, bool):
            raise InvalidRequest(self.name, "must be true or false")
        return wish


REASON = TextMember("reason", "Why; kept in the history of the job or in the event.", REASON_LIMIT)
DRY_RUN = FlagMember("dryRun", "Preview, and remove nothing.")


def _form(*, with_metadata: bool) -> Body:
    members: dict[str, Schema] = {
        "profile": {"type": "string", "description": "Signing profile; absent or blank means `default`."},
        "format": {
            "type": "string",
            "description": f"{', '.join(known.value for known in Format)}; absent or blank: the profile's choice.",
        },
    }
    if with_metadata:
        members["metadata"] = {"type": "string", "description": "The text of one JSON object of texts."}
    optional = tuple(members)
    members["file"] = {"type": "string", "format": "binary", "description": "The file, with its file name."}
    return Body(falcon.MEDIA_MULTIPART, record(optional, **members), required=True)


UPLOAD_FORM = _form(with_metadata=True)
CHECK_FORM = _form(with_metadata=False)
_TOKEN: Schema = {"type": "string", "description": "The token that `GET /login` gives, or that of the session."}
SIGN_IN_FORM = Body(
    falcon.MEDIA_URLENCODED,
    record(
        ("ReturnUrl",),
        ApiKey={"type": "string", "description": "The API key."},
        ReturnUrl={"type": "string", "description": "Where to go on to: a path of this service."},
        csrfToken=_TOKEN,
    ),
    required=True,
)
TOKEN_FORM = Body(falcon.MEDIA_URLENCODED, record(csrfToken=_TOKEN), required=True)


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
