"""A client made of an OpenAPI document: it calls operations by their id and holds each answer against the document."""

from __future__ import annotations

import json
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import jsonschema

Query = Sequence[tuple[str, str]]


@attrs.frozen
class Answer:
    """What came back; `json` is its content where that is JSON."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def json(self) -> Any:
        return json.loads(self.content)


Send = Callable[[str, str, Mapping[str, str], bytes], Answer]
"""Sends method, path with query, headers and body."""


@attrs.frozen
class Operation:
    """One operation of the document."""

    id: str
    method: str
    path: str
    declared: Mapping[str, Any]

    @property
    def refusals(self) -> Iterator[tuple[int, str]]:
        """Yield each status and code that the document declares."""
        for status, answer in self.declared["responses"].items():
            for media_type, content in answer.get("content", {}).items():
                if media_type == "application/problem+json":
                    for code in content["schema"]["allOf"][1]["properties"]["code"]["enum"]:
                        yield int(status), code

    def names(self, place: str) -> list[str]:
        return [one["name"] for one in self.declared.get("parameters", ()) if one["in"] == place]


class Undeclared(AssertionError):
    """Say what an answer has that the document does not tell of."""


class GeneratedClient:
    """Calls the operations of a document."""

    def __init__(self, document: Mapping[str, Any], send: Send) -> None:
        self.document = document
        self._send = send
        self.operations = {
            declared["operationId"]: Operation(declared["operationId"], method.upper(), path, declared)
            for path, methods in document["paths"].items()
            for method, declared in methods.items()
        }

    def call(
        self,
        operation_id: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        **path: str,
    ) -> Answer:
        """Call an operation with values for its path; a body and what is left out of them is made from the document.

        Raises `Undeclared` for a status, a content type, a member or a value that the document does not declare.
        """
        operation = self.operations[operation_id]
        values = {name: str(uuid.uuid4()) for name in operation.names("path")} | path
        target = operation.path.format(**{name: urllib.parse.quote(value, safe="") for name, value in values.items()})
        if query:
            unknown = {name for name, _ in query} - set(operation.names("query"))
            assert not unknown, unknown
            target += "?" + urllib.parse.urlencode(query)
        media_type, made = self._body(operation)
        sent = {**({"Content-Type": media_type} if media_type else {}), **(headers or {})}
        answer = self._send(operation.method, target, sent, made if body is None else body)
        self.verify(operation, answer)
        return answer

    def verify(self, operation: Operation, answer: Answer) -> None:
        """Hold an answer against the document."""
        declared = operation.declared["responses"].get(str(answer.status))
        if declared is None:
            raise Undeclared(f"{operation.id} answered {answer.status}: {answer.content[:300]!r}")
        if operation.method == "HEAD" or "content" not in declared:
            return
        if answer.media_type not in declared["content"]:
            raise Undeclared(f"{operation.id} answered {answer.media_type!r}, not one of {list(declared['content'])}")
        for name in declared.get("headers", ()):
            if name.lower() not in answer.headers:
                raise Undeclared(f"{operation.id} did not answer the header {name}")
        schema = declared["content"][answer.media_type].get("schema")
        if schema is not None and answer.media_type.endswith("json"):
            whole = {**schema, "components": self.document["components"]}
            jsonschema.Draft202012Validator(whole).validate(answer.json)
            self._refuse_undeclared(schema, answer.json, operation.id)

    def _refuse_undeclared(self, schema: Mapping[str, Any], value: Any, place: str) -> None:
        if "$ref" in schema:
            self._refuse_undeclared(self.document["components"]["schemas"][schema["$ref"].split("/")[-1]], value, place)
        elif "allOf" in schema:
            self._refuse_undeclared(schema["allOf"][0], value, place)
        elif isinstance(value, dict) and "properties" in schema:
            if unknown := set(value) - set(schema["properties"]):
                raise Undeclared(f"{place} has the members {unknown}")
            for name, member in value.items():
                self._refuse_undeclared(schema["properties"][name], member, f"{place}.{name}")
        elif isinstance(value, list) and "items" in schema:
            for member in value:
                self._refuse_undeclared(schema["items"], member, f"{place}[]")

    def _body(self, operation: Operation) -> tuple[str, bytes]:
        declared = operation.declared.get("requestBody")
        if declared is None:
            return "", b""
        [media_type] = declared["content"]
        if media_type != "multipart/form-data":
            return media_type, b""
        return f"{media_type}; boundary=limit", form(b"%PDF-1.4 nothing more")


def form(content: bytes, *, name: str = "a.pdf", before: Mapping[str, str] | None = None) -> bytes:
    """Return an upload form with the boundary `limit`; without a name there is no file part."""
    parts = [
        f'--limit\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
        for field, value in (before or {}).items()
    ]
    if name:
        head = f'--limit\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        parts.append(head.encode() + content + b"\r\n")
    return b"".join(parts) + b"--limit--\r\n"
