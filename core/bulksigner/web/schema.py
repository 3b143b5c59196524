"""JSON Schema in a few words, for what routes take and answer (API-92)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "DAY",
    "FLAG",
    "GUID",
    "NUMBER",
    "TEXT",
    "TIME",
    "Schema",
    "any_of",
    "array",
    "map_of",
    "nullable",
    "record",
    "ref",
]

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "integer"}
GUID: Schema = {"type": "string", "format": "uuid"}
TIME: Schema = {"type": "string", "format": "date-time"}
DAY: Schema = {"type": "string", "format": "date"}


def any_of(words: Iterable[str]) -> Schema:
    """Return the schema of one of several words."""
    return {"type": "string", "enum": list(words)}


def array(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def map_of(values: Schema) -> Schema:
    """Return the schema of an object whose members have names of the caller's."""
    return {"type": "object", "additionalProperties": values}


def nullable(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    if set(schema) & {"$ref", "enum", "allOf"}:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def record(optional: Iterable[str] = (), /, **members: Schema) -> Schema:
    """Return the schema of an object with these members, all of them there but the `optional` ones."""
    left_out = frozenset(optional)
    required = [name for name in members if name not in left_out]
    schema: dict[str, Any] = {"type": "object", "properties": members}
    return {**schema, "required": required} if required else schema


def ref(shape: str) -> Schema:
    """Return the reference to a shape of the document."""
    return {"$ref": f"#/components/schemas/{shape}"}
