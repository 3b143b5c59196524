"""The routes of people and their browsers: signing in, the language, and how this interface describes itself."""

from __future__ import annotations

from bulksigner.web import pages
from bulksigner.web.api import auth, culture, document
from bulksigner.web.bodies import SIGN_IN_FORM, TOKEN_FORM
from bulksigner.web.guards import Policy
from bulksigner.web.route import Answer, Route, codes, shaped, text_answer

__all__ = ["PERSON_ROUTES"]

_HTML, _CSS = "text/html; charset=utf-8", "text/css; charset=utf-8"

PERSON_ROUTES = (
    Route(
        "POST",
        "/api/auth/login",
        Policy.ANONYMOUS,
        auth.sign_in,
        302,
        codes("auth.csrf"),
        "Begin a browser session with the form fields `ApiKey` and `ReturnUrl`",
        body=SIGN_IN_FORM,
    ),
    Route(
        "POST",
        "/api/auth/logout",
        Policy.ANONYMOUS,
        auth.sign_out,
        302,
        codes("auth.csrf"),
        "End the browser session",
        body=TOKEN_FORM,
    ),
    Route(
        "GET",
        "/api/auth/entra-login",
        Policy.ANONYMOUS,
        auth.go_to_login,
        302,
        codes(),
        "Go to `/login`",
    ),
    Route(
        "GET",
        "/api/whoami",
        Policy.OPERATOR,
        auth.who_am_i,
        200,
        codes(),
        "Who asks, and how it was proved",
        answer=shaped("WhoAmI"),
    ),
    Route(
        "GET",
        "/login",
        Policy.ANONYMOUS,
        pages.show_login,
        200,
        codes(),
        "The page to sign in",
        query=pages.QUERY,
        answer=Answer((_HTML,), {"type": "string"}, {302: "Signed in already: on to the page that was wanted"}),
    ),
    Route(
        "GET",
        "/access-denied",
        Policy.ANONYMOUS,
        pages.show_access_denied,
        200,
        codes(),
        "What is missing",
        answer=text_answer(_HTML),
    ),
    Route(
        "GET",
        pages.STYLE_PATH,
        Policy.ANONYMOUS,
        pages.send_style,
        200,
        codes(),
        "The style of these pages",
        answer=text_answer(_CSS),
    ),
    Route(
        "POST",
        "/api/culture",
        Policy.ANONYMOUS,
        culture.choose,
        302,
        codes("culture.not-supported", "auth.csrf"),
        "Choose the language of pages for a year, and go on to a page of this service",
        query=culture.QUERY,
        body=TOKEN_FORM,
    ),
    Route(
        "GET",
        "/openapi/v1.json",
        Policy.OPERATOR,
        document.show,
        200,
        codes(),
        "This interface as OpenAPI 3.1",
        answer=shaped("OpenApi"),
    ),
    Route(
        "GET",
        "/api/openapi.json",
        Policy.OPERATOR,
        document.show,
        200,
        codes(),
        "The same under another name",
        answer=shaped("OpenApi"),
    ),
    Route(
        "GET",
        "/api/reference",
        Policy.OPERATOR,
        document.show_page,
        200,
        codes(),
        "This interface as a page to read",
        query=(document.LANGUAGE,),
        answer=text_answer(_HTML),
    ),
    Route(
        "GET",
        "/scalar/v1",
        Policy.OPERATOR,
        document.show_page,
        200,
        codes(),
        "The same under another name",
        query=(document.LANGUAGE,),
        answer=text_answer(_HTML),
    ),
    Route(
        "GET",
        "/static/reference.css",
        Policy.ANONYMOUS,
        document.send_style,
        200,
        codes(),
        "The style of that page",
        answer=text_answer(_CSS),
    ),
)
