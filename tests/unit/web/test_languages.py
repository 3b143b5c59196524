"""The language of pages, and where a browser may be sent."""

from __future__ import annotations

import pytest
from falcon.testing import TestClient

from bulksigner.web.redirects import local_place


@pytest.mark.parametrize("culture", ["en-US", "pt-BR"])
def test_a_language_is_kept_for_a_year(client: TestClient, culture: str) -> None:
    """API-45: cookie for a year, HttpOnly and SameSite=Lax, then 302 to a page of this service."""
    answer = client.simulate_post("/api/culture", query_string=f"culture={culture}&redirectUri=/jobs%3Fpage%3D2")
    assert (answer.status_code, answer.headers["location"]) == (302, "/jobs?page=2")
    cookie = answer.cookies["lbs-culture"]
    assert (cookie.value, cookie.max_age, cookie.http_only, cookie.same_site) == (culture, 31_536_000, True, "Lax")
    assert answer.content == b""


@pytest.mark.parametrize("query", ["", "culture=", "culture=en", "culture=fr-FR", "culture=en-US&culture=pt-BR"])
def test_another_language_is_refused(client: TestClient, query: str) -> None:
    """API-45: 400 `culture.not-supported`, and no cookie."""
    answer = client.simulate_post("/api/culture", query_string=query)
    assert (answer.status_code, answer.json["code"]) == (400, "culture.not-supported")
    assert not answer.cookies


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        (None, "/"),
        ("", "/"),
        ("/", "/"),
        ("/jobs?status=Failed#x", "/jobs?status=Failed#x"),
        ("/ç%20", "/%C3%A7%20"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("/x\\..\\y", "/x%5C..%5Cy"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/\r\nSet-Cookie: a=b", "/"),
        (" //evil.example", "/"),
    ],
)
def test_only_a_path_of_this_service_is_gone_to(wanted: str | None, path: str) -> None:
    """API-45: a local path, else `/`; no open redirect and no line of a header."""
    assert local_place(wanted) == path


@pytest.mark.parametrize(
    ("header", "cookie", "query", "language"),
    [
        (None, None, "", "en-US"),
        ("pt-PT", None, "", "pt-BR"),
        ("en-GB;q=0.5, pt;q=0.8", None, "", "pt-BR"),
        ("fr, pt;q=0, en;q=0.1", None, "", "en-US"),
        ("de-DE", None, "", "en-US"),
        ("pt;q=x, en", None, "", "en-US"),
        (";;q=,", None, "", "en-US"),
        ("en", "pt-BR", "", "pt-BR"),
        ("pt", "xx", "", "pt-BR"),
        ("pt", "pt-BR", "lang=en", "en-US"),
        ("en", None, "lang=pt-BR", "pt-BR"),
        ("pt", None, "lang=xx", "pt-BR"),
    ],
)
def test_the_language_of_a_page(
    client: TestClient, header: str | None, cookie: str | None, query: str, language: str
) -> None:
    """DSH-57: what the address names, then the cookie, then `Accept-Language` by quality, then English."""
    headers = {"Accept-Language": header} if header else {}
    cookies = {"lbs-culture": cookie} if cookie else {}
    answer = client.simulate_get("/api/reference", query_string=query, headers=headers, cookies=cookies)
    assert answer.headers["content-language"] == language
    assert f'<html lang="{language}">' in answer.text
