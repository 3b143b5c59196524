"""Browser sessions: got, used, forged, fixed, replayed and given back."""

from __future__ import annotations

import datetime
import hmac
import html
import re
import urllib.parse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from falcon.testing import Result, TestClient
from tests.revoked_tickets import RevokedTickets

from bulksigner.contract.settings import Secret
from bulksigner.web import app as app_module
from bulksigner.web.clients import ProxyTrust
from bulksigner.web.entrance import Entrance
from bulksigner.web.guards import Policy
from bulksigner.web.key_ring import open_key_ring
from bulksigner.web.redirects import local_place
from bulksigner.web.routes import ROUTES, Route
from bulksigner.web.services import WebServices
from bulksigner.web.sessions import Sessions

KEY = "a-key-for-the-tests"
Making = Callable[..., TestClient]


@attrs.define
class Clock:
    now: datetime.datetime = datetime.datetime(2026, 5, 26, 15, 42, tzinfo=datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.now


class Browser:
    """Keeps cookies and sends them, as a browser does; it never holds the API key."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, **options: Any) -> Result:
        kept = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Cookie": kept} if kept else {}
        answer = self.client.simulate_request(method, path, headers=headers | options.pop("headers", {}), **options)
        for name, cookie in answer.cookies.items():
            if cookie.value:
                self.cookies[name] = cookie.value
            else:
                self.cookies.pop(name, None)
        return answer

    def post_form(self, path: str, headers: dict[str, str] | None = None, **fields: str) -> Result:
        form = {"Content-Type": "application/x-www-form-urlencoded"} | (headers or {})
        return self.ask("POST", path, headers=form, body=urllib.parse.urlencode(fields))

    def token(self) -> str:
        page = self.ask("GET", "/login").text
        match = re.search(r'name="csrfToken" value="([^"]+)"', page)
        assert match is not None
        return html.unescape(match[1])

    def sign_in(self, key: str = KEY, **fields: str) -> Result:
        return self.post_form("/api/auth/login", csrfToken=self.token(), ApiKey=key, **fields)

    def session_token(self) -> str:
        token: str = self.ask("GET", "/api/whoami").json["csrfToken"]
        return token


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(tmp_path: Path, clock: Clock) -> Sessions:
    return Sessions(open_key_ring(tmp_path / "keys", clock), RevokedTickets(), Secret(KEY), "lbs-auth", clock)


@pytest.fixture
def new_browser(make_client: Making, sessions: Sessions) -> Callable[..., Browser]:
    def make(**changes: Any) -> Browser:
        return Browser(make_client(key=None, **({"sessions": sessions} | changes)))

    return make


@pytest.fixture
def browser(new_browser: Callable[..., Browser]) -> Browser:
    return new_browser()


def test_a_session_opens_the_operators_routes(browser: Browser) -> None:
    """API-08, API-19, API-22: the form, a redirect to `/`, and from then on the cookie alone."""
    assert browser.ask("GET", "/api/jobs").status_code == 401
    answer = browser.sign_in()
    assert (answer.status_code, answer.headers["location"]) == (302, "/")
    who = browser.ask("GET", "/api/whoami").json
    assert (who["name"], who["scheme"]) == ("operator", "Cookie")
    assert browser.ask("GET", "/api/jobs").status_code == 200


def test_the_cookie_is_out_of_reach(browser: Browser, new_browser: Callable[..., Browser]) -> None:
    """SEC-20: not for scripts, not for other sites, for every path, until the browser ends; the key is not in it."""
    cookie = browser.sign_in().cookies["lbs-auth"]
    assert (cookie.http_only, cookie.same_site, cookie.path, cookie.secure) == (True, "Strict", "/", False)
    assert (cookie.max_age, cookie.expires) == (None, None)
    assert KEY not in cookie.value
    secure = new_browser(entrance=Entrance(trust=ProxyTrust(trusts_any=True)))
    form = {"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-Proto": "https"}
    body = urllib.parse.urlencode({"csrfToken": secure.token(), "ApiKey": KEY})
    answer = secure.ask("POST", "/api/auth/login", headers=form, body=body, remote_addr="10.0.0.1")
    assert answer.cookies["lbs-auth"].secure


def test_a_wrong_key_gets_no_session(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    """API-19: back to the page, which says so; where one wanted to go is kept, the key is nowhere."""
    answer = browser.sign_in("wrong-key-canary", ReturnUrl="/jobs?page=2")
    assert answer.status_code == 302
    assert answer.headers["location"] == "/login?error=invalid&returnUrl=%2Fjobs%3Fpage%3D2"
    assert "lbs-auth" not in browser.cookies
    page = browser.ask("GET", "/login", query_string="error=invalid&returnUrl=%2Fjobs%3Fpage%3D2").text
    assert "not the one of this service" in page
    assert 'value="/jobs?page=2"' in page
    assert "canary" not in page + caplog.text
    assert "Sign-in refused" in caplog.text


def test_without_a_key_nobody_signs_in(make_client: Making, sessions: Sessions) -> None:
    """API-19: a key that is empty at runtime is the server's fault, and opens nothing."""
    browser = Browser(make_client(key=None, sessions=sessions, api_key=Secret("")))
    assert browser.post_form("/api/auth/login", ApiKey="").headers["location"] == "/login?error=server"
    assert browser.cookies == {}


@pytest.mark.parametrize("key", ["", "wrong", KEY + "x", KEY.upper()])
def test_the_header_decides(browser: Browser, key: str) -> None:
    """API-12: a wrong key is 401, also beside a valid cookie, and the session neither slides nor lends its rights."""
    browser.sign_in()
    answer = browser.ask("GET", "/api/jobs", headers={"X-API-Key": key})
    assert (answer.status_code, answer.json["code"]) == (401, "auth.invalid-credentials")
    both = browser.ask("POST", "/api/rescan", headers={"X-API-Key": KEY})
    assert both.status_code == 200
    assert not both.cookies


UNSAFE = [row for row in ROUTES if row.method not in ("GET", "HEAD") and row.policy is not Policy.ANONYMOUS]


def url(route: Route) -> str:
    return route.path.replace("{id}", "0f8fad5b-d9cb-469f-a165-000000000001")


@pytest.mark.parametrize("route", UNSAFE, ids=lambda row: f"{row.method} {row.path}")
def test_a_session_s_request_needs_its_token(browser: Browser, route: Route) -> None:
    """SEC-34: missing, wrong, another session's and the form's token are 403 on every route that changes anything."""
    browser.sign_in()
    mine = browser.session_token()
    other = Browser(browser.client)
    other.sign_in()
    for token in (None, "", "x", mine[:-1], mine + "x", other.session_token(), other.cookies.get("lbs-csrf", "y")):
        headers = {} if token is None else {"X-CSRF-Token": token}
        answer = browser.ask(route.method, url(route), headers=headers)
        assert (answer.status_code, answer.json["code"]) == (403, "auth.csrf")
    assert browser.ask(route.method, url(route), headers={"X-CSRF-Token": mine}).status_code not in (401, 403)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "Cross-Site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://falconframework.org.evil.example"}, 403),
        ({"Origin": "http://falconframework.org:8081"}, 403),
        ({"Origin": "http://[bad"}, 403),
        ({"Origin": "http://falconframework.org"}, 200),
        ({"Origin": "http://FALCONFRAMEWORK.org:80"}, 200),
        ({"Origin": "https://falconframework.org"}, 200),
    ],
)
def test_another_site_is_refused_even_with_the_token(browser: Browser, headers: dict[str, str], status: int) -> None:
    """SEC-35: what the browser says of the origin counts beside the token; a key in the header needs neither."""
    browser.sign_in()
    token = browser.session_token()
    assert browser.ask("POST", "/api/rescan", headers=headers | {"X-CSRF-Token": token}).status_code == status
    assert browser.ask("POST", "/api/rescan", headers=headers | {"X-API-Key": KEY}).status_code == 200


def origin_of_a_form_on(page: Result) -> str:
    """Return the `Origin` of a form that is sent from this page, as the Fetch standard has it (3.2, "append")."""
    match = re.search(r'<meta name="referrer" content="([^"]+)">', page.text)
    policy = match[1] if match is not None else page.headers["referrer-policy"]
    return "null" if policy == "no-referrer" else "http://falconframework.org"


def test_a_browser_signs_in_and_out_by_the_forms(browser: Browser) -> None:
    """SEC-35, SEC-39: what a browser says of the origin depends on the page the form is on."""
    page = browser.ask("GET", "/login")
    headers = {"Origin": origin_of_a_form_on(page), "Sec-Fetch-Site": "same-origin"}
    fields = {"csrfToken": browser.token(), "ApiKey": KEY}
    assert browser.post_form("/api/auth/login", headers=headers, **fields).status_code == 302
    page = browser.ask("GET", "/access-denied")
    headers = {"Origin": origin_of_a_form_on(page), "Sec-Fetch-Site": "same-origin"}
    fields = {"csrfToken": browser.session_token()}
    assert browser.post_form("/api/auth/logout", headers=headers, **fields).status_code == 302
    assert browser.ask("GET", "/api/whoami").status_code == 401


def test_the_token_may_be_a_field_of_the_form(browser: Browser) -> None:
    """SEC-34: a page without scripts sends it so."""
    browser.sign_in()
    assert browser.post_form("/api/pipeline/pause", csrfToken="wrong").status_code == 403
    # Past the guard: this route then refuses the form, which is no JSON.
    assert browser.post_form("/api/rescan", csrfToken=browser.session_token()).status_code == 200


@pytest.mark.parametrize("path", ["/api/auth/login", "/api/auth/logout"])
def test_the_forms_of_signing_in_need_a_double_submit_token(browser: Browser, path: str) -> None:
    """SEC-36: the cookie and the field together, signed by us; none of them alone, none made up."""
    token = browser.token()
    assert browser.post_form(path, ApiKey=KEY).status_code == 403
    assert browser.post_form(path, ApiKey=KEY, csrfToken=token + "x").status_code == 403
    assert browser.post_form(path, ApiKey=KEY, csrfToken=token, headers={"Origin": "https://evil"}).status_code == 403
    planted = Browser(browser.client)
    assert planted.post_form(path, ApiKey=KEY, csrfToken=token).status_code == 403
    planted.cookies["lbs-csrf"] = "made.up"
    assert planted.post_form(path, ApiKey=KEY, csrfToken="made.up").status_code == 403
    planted.cookies["lbs-csrf"] = ""
    assert planted.post_form(path, ApiKey=KEY, csrfToken="").status_code == 403
    assert "lbs-auth" not in browser.cookies | planted.cookies
    assert browser.post_form(path, ApiKey=KEY, csrfToken=token).status_code == 302


def test_a_session_cannot_be_fixed(browser: Browser) -> None:
    """SEC-22: signing in with a planted cookie gives a new ticket, and the one that was planted ends."""
    attacker = Browser(browser.client)
    attacker.sign_in()
    planted = attacker.cookies["lbs-auth"]
    browser.cookies["lbs-auth"] = planted
    answer = browser.post_form("/api/auth/login", csrfToken=attacker.session_token(), ApiKey=KEY)
    assert answer.status_code == 302
    assert browser.cookies["lbs-auth"] != planted
    assert browser.ask("GET", "/api/whoami").status_code == 200
    assert attacker.ask("GET", "/api/whoami").status_code == 401


def test_a_cookie_is_worthless_after_signing_out(browser: Browser, clock: Clock) -> None:
    """API-20, SEC-22: cleared in the browser and refused when it is replayed, as is every prolonged copy."""
    browser.sign_in()
    first = browser.cookies["lbs-auth"]
    clock.now += datetime.timedelta(hours=1)
    browser.ask("GET", "/api/jobs")
    second = browser.cookies["lbs-auth"]
    assert first != second
    answer = browser.post_form("/api/auth/logout", csrfToken=browser.session_token())
    assert (answer.status_code, answer.headers["location"]) == (302, "/login")
    assert "lbs-auth" not in browser.cookies
    for copy in (first, second):
        browser.cookies["lbs-auth"] = copy
        assert browser.ask("GET", "/api/jobs").status_code == 401


def test_a_page_that_refreshes_itself_keeps_nobody_signed_in(browser: Browser, clock: Clock) -> None:
    """SEC-20: `X-Refresh: auto` does not slide the session; a request of a person does."""
    browser.sign_in()
    begun = browser.cookies["lbs-auth"]
    clock.now += datetime.timedelta(hours=5)
    assert browser.ask("GET", "/api/jobs", headers={"X-Refresh": "auto"}).status_code == 200
    assert browser.cookies["lbs-auth"] == begun
    browser.ask("GET", "/api/jobs")
    assert browser.cookies["lbs-auth"] != begun
    clock.now += datetime.timedelta(hours=5)
    assert browser.ask("GET", "/api/jobs", headers={"X-Refresh": "auto"}).status_code == 200
    clock.now += datetime.timedelta(hours=4)
    assert browser.ask("GET", "/api/jobs").status_code == 401


def test_a_route_for_sessions_refuses_the_bare_key(
    services: WebServices, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-09: `OperatorSession` is satisfied by a browser session only, and a key beside it decides."""
    own = Route("GET", "/own", Policy.OPERATOR_SESSION, lambda *_: None, 200, {}, "for sessions")
    app = app_module.create_app(attrs.evolve(services, sessions=sessions), (*ROUTES, own))
    browser = Browser(TestClient(app))
    assert browser.ask("GET", "/own", headers={"X-API-Key": KEY}).status_code == 401
    browser.sign_in()
    assert browser.ask("GET", "/own").status_code == 200
    assert browser.ask("GET", "/own", headers={"X-API-Key": KEY}).status_code == 401


OPEN_REDIRECTS = [
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "/\r\nSet-Cookie: a=b",
    "\t//evil.example",
    " //evil.example",
    "javascript:alert(1)",
    "http:/evil.example",
    "evil.example",
    "///evil.example",
    "/" + "a" * 3000,
    "/\x00",
    "/\x85//evil.example",
    "",
]


@pytest.mark.parametrize("wanted", OPEN_REDIRECTS)
def test_nobody_is_sent_elsewhere(browser: Browser, wanted: str) -> None:
    """SEC-23: whatever a form or a link asks for, after signing in and when signed in already."""
    assert local_place(wanted) == "/"
    assert browser.sign_in(ReturnUrl=wanted).headers["location"] == "/"
    query = urllib.parse.urlencode({"returnUrl": wanted})
    answer = browser.ask("GET", "/login", query_string=query)
    if answer.status_code == 400:
        # A NUL is no part of an address.
        assert "\0" in wanted
        return
    assert (answer.status_code, answer.headers["location"]) == (302, "/")


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ("/jobs", "/jobs"),
        ("/jobs?status=Failed&page=2", "/jobs?status=Failed&page=2"),
        ("/jobs/é", "/jobs/%C3%A9"),
        ("/a\\b", "/a%5Cb"),
        ("/a?b=//evil.example", "/a?b=//evil.example"),
        (None, "/"),
    ],
)
def test_a_place_of_this_service_is_kept(wanted: str | None, place: str) -> None:
    """SEC-23: with its query, in ASCII."""
    assert local_place(wanted) == place


@pytest.mark.parametrize(
    ("headers", "title"),
    [
        ({}, "Sign in"),
        ({"Accept-Language": "pt-BR,pt;q=0.9,en;q=0.8"}, "Entrar"),
        ({"Accept-Language": "en;q=0.8,pt;q=0.9"}, "Entrar"),
        ({"Accept-Language": "pt;q=0,en"}, "Sign in"),
        ({"Accept-Language": "fr,pt-PT;q=x"}, "Sign in"),
        ({"Accept-Language": "pt", "Cookie": "lbs-culture=en-US"}, "Sign in"),
        ({"Cookie": "lbs-culture=pt-BR"}, "Entrar"),
        ({"Cookie": "lbs-culture=xx"}, "Sign in"),
    ],
)
def test_the_pages_speak_two_languages(browser: Browser, headers: dict[str, str], title: str) -> None:
    """DSH-20, DSH-57: the cookie, then what the browser asks for, then English."""
    assert f"<h1>{title}</h1>" in browser.client.simulate_get("/login", headers=headers).text


@pytest.mark.parametrize("path", ["/login", "/access-denied"])
@pytest.mark.parametrize("is_in", [False, True])
def test_a_page_runs_nothing_and_loads_nothing_from_elsewhere(browser: Browser, path: str, is_in: bool) -> None:
    """SEC-15, SEC-40: no inline script, style or handler, a strict policy, and nothing said in the query comes back."""
    if is_in:
        browser.sign_in()
    answer = browser.ask("GET", path, query_string="error=%3Cscript%3E&returnUrl=%2F%22%3E%3Cscript%3E")
    if answer.status_code == 302:
        return
    text = answer.text
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=|https?://|<img", text)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    style = browser.client.simulate_get("/static/sign-in.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "url(" not in style.text


def test_access_denied_tells_who_one_is(browser: Browser) -> None:
    """DSH-129: the name, what is missing and the way out, which works."""
    assert 'href="/login"' in browser.ask("GET", "/access-denied").text
    browser.sign_in()
    page = browser.ask("GET", "/access-denied").text
    assert "operator" in page
    match = re.search(r'name="csrfToken" value="([^"]+)"', page)
    assert match is not None
    assert browser.post_form("/api/auth/logout", csrfToken=html.unescape(match[1])).status_code == 302
    assert "lbs-auth" not in browser.cookies


def test_no_tenant_signs_in_here(browser: Browser) -> None:
    """API-21: with the mode off, the tenant's button leads back to the page."""
    answer = browser.ask("GET", "/api/auth/entra-login")
    assert (answer.status_code, answer.headers["location"]) == (302, "/login")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"ApiKey=%ff", "application/x-www-form-urlencoded"),
        (b"ApiKey=\xff", "application/x-www-form-urlencoded"),
        (b"a=1&a=2", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % number for number in range(100)), "application/x-www-form-urlencoded"),
        (b"a=" + b"x" * 20_000, "application/x-www-form-urlencoded"),
    ],
)
def test_a_form_that_cannot_be_read_is_refused(browser: Browser, body: bytes, content_type: str) -> None:
    """API-05: 400 `request.invalid`, and no session."""
    answer = browser.ask("POST", "/api/auth/login", headers={"Content-Type": content_type}, body=body)
    assert (answer.status_code, answer.json["code"]) == (400, "request.invalid")


def test_every_credential_is_compared_as_digests(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-18: key, form key, session token, double-submit token and ticket fingerprint; equal lengths, always."""
    compared: list[tuple[int, int]] = []

    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)

    def count(act: Callable[[], object]) -> int:
        compared.clear()
        act()
        assert set(compared) <= {(32, 32)}
        return len(compared)

    token = browser.token()
    for key in ("", "x", KEY, "x" * 5000):
        headers = {"X-API-Key": key}
        assert count(partial(browser.client.simulate_get, "/api/jobs", headers=headers)) == 1
    assert count(lambda: browser.post_form("/api/auth/login", csrfToken=token, ApiKey=KEY)) >= 3
    session = browser.session_token()
    assert count(lambda: browser.ask("POST", "/api/rescan", headers={"X-CSRF-Token": session})) == 2
    assert count(lambda: browser.ask("POST", "/api/rescan", headers={"X-CSRF-Token": "x"})) == 2
