"""The interface as a page to read, made of the OpenAPI document: no script, nothing from elsewhere (SEC-40)."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

from bulksigner.web.portuguese import LABELS, SENTENCES

__all__ = ["LANGUAGES", "STYLE", "kind_of", "render_page"]

LANGUAGES = ("en", "pt")
_METHODS = ("get", "post", "put", "patch", "delete")
_PORTUGUESE = "pt-BR"

STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; color: #1c1c1c; }
body { background: #fff; }
h2 { border-top: 1px solid #767676; margin-top: 2.5rem; padding-top: 1rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
th, td { border: 1px solid #b0b0b0; padding: .3rem .5rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
code { font: .9em ui-monospace, monospace; }
pre { background: #f2f2f2; border: 1px solid #b0b0b0; overflow-x: auto; padding: .5rem; }
a { color: #0b57a4; }
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #e6e6e6; }
  pre { background: #22262b; }
  a { color: #8ab8f0; }
}
"""


def render_page(document: Mapping[str, Any], culture: str) -> str:
    """Return the page in one language; codes, names and titles of problems are English in both."""
    writer = _Writer(document, SENTENCES if culture == _PORTUGUESE else {}, LABELS if culture == _PORTUGUESE else {})
    return "".join(writer.page(culture))


class _Writer:
    """Writes the page part by part; `sentences` and `labels` are translations by the English text."""

    def __init__(self, document: Mapping[str, Any], sentences: Mapping[str, str], labels: Mapping[str, str]) -> None:
        self._document = document
        self._sentences = sentences
        self._labels = labels

    def page(self, culture: str) -> Iterator[str]:
        info = self._document["info"]
        yield f'<!DOCTYPE html>\n<html lang="{culture}">\n<head>\n<meta charset="utf-8">\n'
        yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        yield f"<title>{self._label('REST API')} · bulksigner</title>\n"
        yield '<link rel="stylesheet" href="/static/reference.css">\n</head>\n<body>\n<main>\n'
        yield f"<h1>{self._label('REST API')}</h1>\n<p>bulksigner {html.escape(info['version'])} · "
        yield '<a href="?lang=en" hreflang="en">English</a> · <a href="?lang=pt" hreflang="pt-BR">Português</a> · '
        yield '<a href="/api/openapi.json">OpenAPI 3.1</a></p>\n'
        yield f"<p>{self._prose(info['description'])}</p>\n"
        yield from self._contents()
        for path, methods in self._document["paths"].items():
            for method in _METHODS:
                if method in methods:
                    yield from self._route(method, path, methods[method])
        yield from self._shapes()
        yield "</main>\n</body>\n</html>\n"

    def _contents(self) -> Iterator[str]:
        rows = (
            (
                f'<a href="#{operation["operationId"]}"><code>{method.upper()} {html.escape(path)}</code></a>',
                self._prose(operation["summary"]),
            )
            for path, methods in self._document["paths"].items()
            for method, operation in methods.items()
        )
        yield from self._table(("Route", "What it does"), rows)

    def _route(self, method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
        yield f'<h2 id="{operation["operationId"]}"><code>{method.upper()} {html.escape(path)}</code></h2>\n'
        policy = f"{self._label('Policy')}: <code>{operation['x-policy']}</code>"
        yield f"<p>{self._prose(operation['summary'])}. {policy}</p>\n"
        if "parameters" in operation:
            yield f"<h3>{self._label('Parameters')}</h3>\n"
            rows = (
                (
                    f"<code>{one['name']}</code>",
                    self._label(one["in"]),
                    _kind(one["schema"]),
                    self._prose(one.get("description", "")),
                )
                for one in operation["parameters"]
            )
            yield from self._table(("Name", "Place", "Type", "Meaning"), rows)
        if "requestBody" in operation:
            yield from self._body(operation["requestBody"])
        yield f"<h3>{self._label('Answers')}</h3>\n"
        answers = (
            (f"<code>{status}</code>", self._contents_of(answer), self._prose(answer["description"]))
            for status, answer in operation["responses"].items()
        )
        yield from self._table(("Status", "Content", "Meaning"), answers)

    def _body(self, body: Mapping[str, Any]) -> Iterator[str]:
        needed = self._label("has to be sent" if body["required"] else "may be left out")
        for media_type, content in body["content"].items():
            yield f"<h3>{self._label('Body')}: <code>{media_type}</code> ({needed})</h3>\n"
            rows = (
                (f"<code>{name}</code>", _kind(schema), self._prose(schema.get("description", "")))
                for name, schema in content["schema"]["properties"].items()
            )
            yield from self._table(("Name", "Type", "Meaning"), rows)

    def _contents_of(self, answer: Mapping[str, Any]) -> str:
        return "<br>".join(
            f"<code>{html.escape(media_type)}</code> {_kind(content.get('schema', {}))}"
            for media_type, content in answer.get("content", {}).items()
        )

    def _shapes(self) -> Iterator[str]:
        yield f"<h2>{self._label('Shapes')}</h2>\n"
        for name, schema in self._document["components"]["schemas"].items():
            yield f'<h3 id="{name}"><code>{name}</code></h3>\n'
            if "properties" not in schema:
                yield f"<p>{_kind(schema)}</p>\n"
            else:
                rows = ((f"<code>{member}</code>", _kind(one)) for member, one in schema["properties"].items())
                yield from self._table(("Name", "Type"), rows)

    def _table(self, heads: tuple[str, ...], rows: Any) -> Iterator[str]:
        yield "<table>\n<thead><tr>" + "".join(f'<th scope="col">{self._label(head)}</th>' for head in heads)
        yield "</tr></thead>\n<tbody>\n"
        for row in rows:
            yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n"
        yield "</tbody>\n</table>\n"

    def _label(self, text: str) -> str:
        return self._labels.get(text, text)

    def _prose(self, text: str) -> str:
        return _with_code(self._sentences.get(text, text))


def _with_code(text: str, *, escapes: bool = True) -> str:
    """Return a text as HTML; what stands between back quotes is code."""
    parts = (html.escape(text) if escapes else text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _kind(schema: Mapping[str, Any]) -> str:
    """Name the type of a value as HTML; shapes are links."""
    return _with_code(kind_of(schema, link='<a href="#{0}">{0}</a>'), escapes=False)


def kind_of(schema: Mapping[str, Any], link: str = "{0}") -> str:
    """Name the type of a value, words of it in back quotes; `link` is how a shape is written."""
    if "$ref" in schema:
        return link.format(str(schema["$ref"]).rpartition("/")[2])
    if "allOf" in schema:
        return kind_of(schema["allOf"][0], link)
    if "anyOf" in schema:
        return " | ".join(kind_of(one, link) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(f"`{word}`" for word in schema["enum"])
    kinds = schema.get("type", "")
    told = " | ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if "items" in schema:
        told = f"{told}: {kind_of(schema['items'], link)}"
    elif "properties" in schema:
        told = f"{told}: {', '.join(f'`{name}`' for name in schema['properties'])}"
    return f"{told} ({schema['format']})" if "format" in schema else told
