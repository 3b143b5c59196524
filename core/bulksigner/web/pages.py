"""The pages of signing in, in English and Portuguese; no script, nothing from elsewhere (DSH-20, DSH-129, SEC-40)."""

from __future__ import annotations

import html
from pathlib import Path

import falcon

from bulksigner.web import csrf
from bulksigner.web.api.auth import ticket_of
from bulksigner.web.languages import choose_culture
from bulksigner.web.parameters import Text
from bulksigner.web.redirects import local_place
from bulksigner.web.services import WebServices
from bulksigner.web.sessions import read_cookie

__all__ = ["QUERY", "STYLE_PATH", "send_style", "show_access_denied", "show_login"]

STYLE_PATH = "/static/sign-in.css"
_STYLE = Path(__file__).with_name("static") / "sign-in.css"
_RETURN = Text("returnUrl", "Where to go on to: a path of this service.", "request.invalid", may_be_blank=True)
_ERROR = Text("error", "What to tell: invalid or server.", "request.invalid", may_be_blank=True)
QUERY = (_RETURN, _ERROR)

_TEXTS = {
    "en-US": {
        "title": "Sign in",
        "key": "API key",
        "enter": "Sign in",
        "invalid": "This key is not the one of this service.",
        "server": "This service has no key, so nobody can sign in. Set Auth:ApiKey and restart it.",
        "denied": "You cannot open this page",
        "who": "You are signed in as {name}.",
        "nobody": "You are not signed in.",
        "role": "The page is for operators of this service.",
        "leave": "Sign out",
    },
    "pt-BR": {
        "title": "Entrar",
        "key": "Chave de API",
        "enter": "Entrar",
        "invalid": "Esta chave não é a deste serviço.",
        "server": "Este serviço não tem chave e ninguém pode entrar. Defina Auth:ApiKey e reinicie-o.",
        "denied": "Você não pode abrir esta página",
        "who": "Você entrou como {name}.",
        "nobody": "Você não entrou.",
        "role": "A página é para operadores deste serviço.",
        "leave": "Sair",
    },
}


def show_login(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Show the form that takes the key; whoever is signed in goes on to where he wanted."""
    place, error = local_place(_RETURN.read(request)), _ERROR.read(request)
    sessions = services.sessions
    if sessions is not None and ticket_of(sessions, request) is not None:
        response.status = 302
        response.location = place
        return
    culture = choose_culture(request)
    text = _TEXTS[culture]
    alert = f'<p class="error" role="alert">{html.escape(text[error])}</p>' if error in ("invalid", "server") else ""
    body = f"""<h1>{text["title"]}</h1>
{alert}
<form method="post" action="/api/auth/login">
<input type="hidden" name="{csrf.FIELD}" value="{_token(services, request, response)}">
<input type="hidden" name="ReturnUrl" value="{html.escape(place)}">
<label for="key">{text["key"]}</label>
<input id="key" name="ApiKey" type="password" autocomplete="current-password" required autofocus>
<button type="submit">{text["enter"]}</button>
</form>"""
    _send(response, culture, text["title"], body)


def show_access_denied(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Show who is signed in, what is missing, and the way out."""
    culture = choose_culture(request)
    text = _TEXTS[culture]
    sessions = services.sessions
    ticket = ticket_of(sessions, request) if sessions is not None else None
    if ticket is None:
        who, way = text["nobody"], f'<p><a href="/login">{text["enter"]}</a></p>'
    else:
        who = text["who"].format(name=html.escape(ticket.name))
        way = f"""<form method="post" action="/api/auth/logout">
<input type="hidden" name="{csrf.FIELD}" value="{html.escape(ticket.csrf)}">
<button type="submit">{text["leave"]}</button>
</form>"""
    _send(response, culture, text["denied"], f"<h1>{text['denied']}</h1>\n<p>{who} {text['role']}</p>\n{way}")


def send_style(_: WebServices, __: falcon.Request, response: falcon.Response) -> None:
    """Send the style sheet of these pages."""
    response.content_type = "text/css; charset=utf-8"
    response.data = _STYLE.read_bytes()


def _token(services: WebServices, request: falcon.Request, response: falcon.Response) -> str:
    """Return the double-submit token, the one the browser has if it is ours, so that two open forms both work."""
    sessions = services.sessions
    if sessions is None:
        return ""
    known = read_cookie(request.get_header("Cookie"), csrf.COOKIE) or ""
    nonce, _, digest = known.partition(".")
    token = known if nonce and sessions.has_signed(nonce, digest) else csrf.make_token(sessions)
    response.set_cookie(
        csrf.COOKIE,
        token,
        path="/",
        secure=request.context.client.is_secure,
        http_only=True,
        same_site="Strict",
    )
    return html.escape(token)


def _send(response: falcon.Response, culture: str, title: str, body: str) -> None:
    response.content_type = falcon.MEDIA_HTML
    # With the policy of the header (SEC-39) a browser sends forms with the Origin `null`, which is refused (SEC-35).
    # Browsers ask for an icon of their own accord, unless the page has one.
    response.text = f"""<!DOCTYPE html>
<html lang="{culture}">
<head>
<meta charset="utf-8">
<meta name="referrer" content="same-origin">
<link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · Bulk Signer</title>
<link rel="stylesheet" href="{STYLE_PATH}">
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
