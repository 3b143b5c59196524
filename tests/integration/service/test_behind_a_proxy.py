"""Settings of proxies, HTTPS and limits, from the variables of the process to the answers of the routes."""

from __future__ import annotations

import html
import re
import urllib.parse
from typing import Any

import pytest
from falcon.testing import TestClient

from bulksigner import panels
from bulksigner.exposure import expose
from bulksigner.web.app import create_app

PROXY = "10.4.0.7"
FORWARDED = {
    "Hosting__ForwardedHeaders__Enabled": "true",
    "Hosting__ForwardedHeaders__KnownProxies__0": PROXY,
    "Hosting__ForwardedHeaders__KnownNetworks__0": "10.9.0.0/16",
    "Hosting__ForwardedHeaders__ForwardLimit": "2",
    "Hosting__RequireHttps": "true",
    "Auth__CookieName": "own-name",
}


def through_the_proxy(address: str) -> dict[str, Any]:
    return {
        "headers": {"X-Forwarded-For": address, "X-Forwarded-Proto": "https"},
        "remote_addr": PROXY,
    }


def test_a_service_behind_a_proxy(built: Any, environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """CFG-27, CFG-29 to CFG-36, API-17, SEC-20, SEC-39: redirect, HSTS, secure cookie, and a window for each client."""
    service = built(**FORWARDED, RateLimiting__Enabled="true", RateLimiting__Login__PermitsPerWindow="2")
    client = TestClient(create_app(expose(service)))
    assert (
        client.simulate_get("/api/health", remote_addr="10.4.0.8", headers={"X-Forwarded-Proto": "https"}).status_code
        == 307
    )
    page = client.simulate_get("/login", **through_the_proxy("203.0.113.1"))
    assert page.headers["strict-transport-security"] == "max-age=31536000"
    match = re.search(r'name="csrfToken" value="([^"]+)"', page.text)
    assert match is not None

    def sign_in(address: str, key: str) -> Any:
        given = through_the_proxy(address)
        given["headers"] |= {
            "Content-Type": "application/x-www-form-urlencoded",
            "Cookie": f"lbs-csrf={page.cookies['lbs-csrf'].value}",
        }
        body = urllib.parse.urlencode({"csrfToken": html.unescape(match[1]), "ApiKey": key})
        return client.simulate_post("/api/auth/login", body=body, **given)

    assert [sign_in("203.0.113.1", "wrong").status_code for _ in range(3)] == [302, 302, 429]
    cookie = sign_in("203.0.113.2", environ["Auth__ApiKey"]).cookies["own-name"]
    assert cookie.secure
    given = through_the_proxy("203.0.113.1")
    given["headers"]["Cookie"] = f"own-name={cookie.value}"
    assert client.simulate_get("/api/whoami", **given).json["scheme"] == "Cookie"
    panels.show(service, ["http://127.0.0.1:8080"])
    assert "forwarded headers = 10.4.0.7, 10.9.0.0/16, 2 in a row" in capsys.readouterr().out


def test_limits_are_on_by_default(built: Any, environ: dict[str, str]) -> None:
    """CFG-134, API-14: the sixty-first action of a minute is one too many."""
    client = TestClient(create_app(expose(built())), headers={"X-API-Key": environ["Auth__ApiKey"]})
    statuses = [client.simulate_get("/api/pipeline/state").status_code for _ in range(61)]
    assert statuses == [200] * 60 + [429]
