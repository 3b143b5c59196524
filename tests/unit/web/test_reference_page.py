"""The interface as a page inside the product (API-91)."""

from __future__ import annotations

import html.parser
import re

from falcon.testing import TestClient

from bulksigner.contract.codes import CODES
from bulksigner.web.openapi import describe
from bulksigner.web.portuguese import LABELS, SENTENCES
from bulksigner.web.routes import ROUTES


class Reader(html.parser.HTMLParser):
    """Collects what a browser would fetch, run or link to, and whether the elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.attributes |= set(given)
        if tag == "a":
            self.links.append(given["href"] or "")
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href") and tag != "a"]
        self.ids += [given["id"] or ""] if "id" in given else []
        if tag not in ("meta", "link", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def read(client: TestClient, language: str) -> tuple[Reader, str]:
    answer = client.simulate_get("/api/reference", query_string=f"lang={language}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    reader = Reader()
    reader.feed(answer.text)
    assert not reader._open
    return reader, answer.text


def test_nothing_is_inline_or_from_elsewhere(client: TestClient) -> None:
    """SEC-40: no script, no style in the page, one style sheet of this service; every link inside leads somewhere."""
    reader, _ = read(client, "en")
    assert not {"script", "style", "iframe", "img", "form"} & set(reader.tags)
    assert not {name for name in reader.attributes if name == "style" or name.startswith("on")}
    assert reader.fetched == ["data:,", "/static/reference.css"]
    inside = {link[1:] for link in reader.links if link.startswith("#")}
    assert inside <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids))
    style = client.simulate_get("/static/reference.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "url(" not in style.text
    assert "@import" not in style.text


def test_every_route_and_code_of_an_answer_is_on_the_page(client: TestClient) -> None:
    """API-91: in both languages."""
    for language in ("en", "pt"):
        reader, text = read(client, language)
        for route in ROUTES:
            assert route.name in reader.texts
            for code in route.codes:
                assert f"<code>{code}</code>" in text


def test_the_page_is_in_portuguese() -> None:
    """DSH-57: every summary of a route, a parameter or a member has its Portuguese text, and none is left over."""
    document = describe(ROUTES, CODES)
    used = {document["info"]["description"]}
    for methods in document["paths"].values():
        for operation in methods.values():
            used.add(operation["summary"])
            used |= {
                answer["description"] for answer in operation["responses"].values() if "`" not in answer["description"]
            }
            used |= {one["description"] for one in operation.get("parameters", ()) if "description" in one}
            for content in operation.get("requestBody", {"content": {}})["content"].values():
                used |= {schema["description"] for schema in content["schema"]["properties"].values()}
    assert used == set(SENTENCES)


def test_portuguese_labels_are_used(client: TestClient) -> None:
    """DSH-57: headings and heads of tables are translated."""
    _, text = read(client, "pt")
    assert [label for label in LABELS.values() if label not in text] == []
    heads = set(re.findall(r"<th scope=\"col\">([^<]*)</th>", text))
    assert heads
    assert heads <= set(LABELS.values())
