"""Reference pages of routes and error codes, rendered from the tables the service runs on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bulksigner.contract.codes import CODES, ErrorCode
from bulksigner.web.guards import Policy
from bulksigner.web.openapi import COMMON, FORGED, LIMITED, OPERATOR
from bulksigner.web.page import kind_of
from bulksigner.web.rate_limits import LimitName
from bulksigner.web.route import Route
from bulksigner.web.routes import ROUTES
from bulksigner.web.shapes import SHAPES

__all__ = ["codes_page", "routes_page"]

_SESSIONS = (
    "## Credentials",
    "",
    "A request with the API key in the header that `Auth:ApiKeyHeader` names is judged by that key alone, whatever "
    "cookies come with it. Without the header the cookie of a browser session counts (`Auth:CookieName`); it is got at "
    "`/login`, lasts eight hours from the last request a person made (one with `X-Refresh: auto` does not count), and "
    "ends at `POST /api/auth/logout`, at a new sign-in, or with another API key. `GET /api/whoami` tells `name`, "
    "`scheme` and `roles`, and to a session its `csrfToken`.",
    "",
    "A request of a session that is not `GET`, `HEAD` or `OPTIONS` must carry that token in the header `X-CSRF-Token` "
    "or the form field `csrfToken`, and come from a page of this service; otherwise it is 403 `auth.csrf`. The forms "
    "of sign-in and sign-out carry the token that `GET /login` gives, in the cookie `lbs-csrf` and in the field "
    "`csrfToken`.",
    "",
    "## Limits",
    "",
    "Each limit counts the requests of one client address, of IPv6 those of its /64, in a window that begins with the "
    "first of them. One too many is 429 `rate-limited`, with `Retry-After` in seconds. The numbers are settings "
    "(`RateLimiting`).",
    "",
    "| Limit | Routes |",
    "|---|---|",
)

_UPLOADS = (
    "## Uploads",
    "",
    "`POST /api/files` takes `multipart/form-data` with exactly one file, in a part named `file`. `profile` and "
    "`format` (`Pades`, `Cades`, `Xades`) are optional; absent or blank they mean the profile `default` and the "
    "profile's own choice. Give them in the query, which wins, or as fields of the form that stand before the file: a "
    "field after the file may only repeat what counted. The body, form included, may be as long as `Upload:MaxBytes`; "
    "a form has at most 10 parts. Nothing of a refused upload is kept.",
    "",
    "`metadata` is a field of the form only, before the file: one JSON object of texts, at most 32 keys of 1 to 64 "
    "letters, digits, `.`, `-` and `_`, values of at most 512 characters, 8 KiB together. `GET /api/jobs/{id}` gives "
    "it back; no list, log or event does.",
    "",
    "`POST /api/files/check` takes the same form without `metadata`, and keeps nothing. Its answer lists what door and "
    "pipeline would object to; [check a file first](../howto/check-a-file-first.md) explains it.",
    "",
    "## Lists",
    "",
    "A value of a filter that cannot be read is refused; it never widens the list. Days are whole days of UTC, both "
    "ends included. `GET /api/jobs/export` takes the filters of `GET /api/jobs` and gives the newest 10,000 jobs that "
    "pass them.",
    "",
    "## Archive",
    "",
    "`GET /api/jobs/archive?id=…&id=…` refuses everything before its first byte. A file that is gone is named in "
    "`MISSING.txt` inside; only when all are gone the answer is 410. Where names clash, the newer job's id stands "
    "before the extension. An archive whose connection ends early is not whole: its files were changed while it was "
    "sent.",
    "",
    "## Reasons",
    "",
    'Cancel, pause and resume take an optional body `{"reason": "..."}` of at most 512 characters; unknown members are '
    "ignored. The reason stands in the history of the job or in the event.",
    "",
    "## Pause and resume",
    "",
    "The three routes below `/api/pipeline` answer the state: `paused`, `pausedAtUtc`, `resumedAtUtc`, `pausedBy`, "
    "`reason` (of the last change), `maxConcurrency`, `jobsInFlight` and `jobsInFlightByFormat`. `pausedAtUtc`, "
    "`pausedBy` and `resumedAtUtc` tell of the last pause and the last resume, so both stay known. Asking for a state "
    "that is there already is no error and writes nothing. `pipeline.race-lost` means that somebody turned the flag at "
    "the same moment: read the state again.",
    "",
    "## Clear Jobs",
    "",
    "`DELETE /api/jobs` answers when all is done: `deleted`, `filesDeleted`, `foldersDeleted`, `eventsDeleted`, "
    "`itemsFailed` and `message`. It goes on when the connection is closed. What could not be deleted is named in the "
    "log.",
)


def routes_page(note: str, routes: Sequence[Route] = ROUTES) -> str:
    """Return the page that lists every route; `note` stands under its title."""
    rows = (
        f"| `{route.method} {route.path}` | {route.policy.value} | {route.status} | {route.summary} "
        f"| {', '.join(f'`{code}` {status}' for code, status in route.codes.items()) or '—'} |"
        for route in routes
    )
    return _page(
        "REST API",
        (
            note,
            "",
            "Routes of the policy `Operator` need the API key, or the session of a browser, and may "
            f"answer {_quoted(OPERATOR)}. Every route may answer {_quoted(COMMON)}. Errors are "
            "`application/problem+json` (RFC 9457); dispatch on `code`, see [error codes](error-codes.md). A route of "
            "`GET` answers `HEAD` the same way, without a body.",
            "",
            "| Route | Policy | Success | What it does | Codes of its own |",
            "|---|---|---|---|---|",
            *rows,
            "",
            *_SESSIONS,
            *_limits(routes),
            "",
            *_parameters(routes),
            *_bodies(routes),
            *_UPLOADS,
            *_shapes(),
        ),
    )


def _parameters(routes: Sequence[Route]) -> Iterator[str]:
    yield from (
        "## Parameters",
        "",
        "Parameters that a route does not know are ignored, but `POST /api/cleanup` refuses them.",
        "",
    )
    yield from ("| Route | Parameter | Type | Meaning |", "|---|---|---|---|")
    for route in routes:
        for one in route.query:
            yield f"| `{route.name}` | `{one.name}` | {_cell(kind_of(one.schema))} | {one.summary} |"
    yield ""


def _bodies(routes: Sequence[Route]) -> Iterator[str]:
    yield from ("## Bodies", "", "| Route | Type | Member | Meaning |", "|---|---|---|---|")
    for route in routes:
        if route.body is not None:
            for name, schema in route.body.schema["properties"].items():
                yield f"| `{route.name}` | `{route.body.media_type}` | `{name}` | {schema.get('description', '')} |"
    yield ""


def _shapes() -> Iterator[str]:
    yield from ("## Shapes", "", "The members of answers, as [the OpenAPI document](openapi.json) has them.", "")
    yield from ("| Shape | Member | Type |", "|---|---|---|")
    for shape, schema in SHAPES.items():
        for name, one in schema.get("properties", {}).items():
            yield f"| {shape} | `{name}` | {_cell(kind_of(one))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _limits(routes: Sequence[Route]) -> Iterable[str]:
    for limit in LimitName:
        if found := [f"`{route.method} {route.path}`" for route in routes if route.limit is limit]:
            yield f"| `{limit.value}` | {', '.join(found)} |"


def codes_page(note: str, routes: Sequence[Route] = ROUTES) -> str:
    """Return the page that lists every code, its statuses, and the routes that answer it."""
    rows = (
        f"| `{row.code}` | {_statuses(row, routes)} | {row.title} | {_answered_by(row, routes)} |"
        for row in CODES.values()
    )
    return _page(
        "Error codes",
        (
            note,
            "",
            "Dispatch on the code: titles may change. `—` for a status: never an HTTP answer, but recorded on a "
            "job, or told by a command.",
            "",
            "| Code | Status | Meaning | Routes |",
            "|---|---|---|---|",
            *rows,
        ),
    )


def _page(title: str, lines: Iterable[str]) -> str:
    return "\n".join((f"# {title}", "", *lines, ""))


def _quoted(codes: Iterable[str]) -> str:
    return " and ".join(f"`{code}`" for code in codes)


def _statuses(row: ErrorCode, routes: Sequence[Route]) -> str:
    if row.code == "request.invalid":
        return "400, 404, 405"
    if row.status is None:
        return "—"
    found = {row.status, *(route.codes[row.code] for route in routes if row.code in route.codes)}
    return ", ".join(str(status) for status in sorted(found))


def _answered_by(row: ErrorCode, routes: Sequence[Route]) -> str:
    if row.code in COMMON:
        return "all"
    if row.code in LIMITED:
        return "all with a limit"
    if row.code in FORGED:
        return "all that change anything, for sessions"
    if row.code in OPERATOR:
        return f"all of policy `{Policy.OPERATOR.value}`"
    return ", ".join(f"`{route.method} {route.path}`" for route in routes if row.code in route.codes) or "—"
