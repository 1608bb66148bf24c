"""The part of JSON Schema 2020-12 that our schemas use, checked with the standard library alone.

Covers the keywords of KEYWORDS. A schema with any other keyword is refused, so that nothing is silently unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
ANNOTATIONS = {"$schema", "$defs", "title", "description"}
KEYWORDS = {
    "type", "required", "properties", "additionalProperties", "items", "minItems", "minLength", "minimum", "pattern",
    "enum", "$ref",
}  # fmt: skip


def problems(schema: dict[str, Any], data: Any) -> list[str]:
    """What in `data` does not fit `schema`, each with the place; empty where all fits."""
    return list(_problems(schema, data, "", schema))


def _problems(schema: dict[str, Any], data: Any, where: str, root: dict[str, Any]) -> Iterator[str]:
    unknown = set(schema) - KEYWORDS - ANNOTATIONS
    if unknown:
        raise ValueError(f"schema keyword {sorted(unknown)[0]!r} is not supported")
    place = where or "the document"
    if "$ref" in schema:
        yield from _problems(_resolve(schema["$ref"], root), data, where, root)
        return
    if "type" in schema and not _is(data, schema["type"]):
        yield f"{place}: {schema['type']} expected, not {type(data).__name__}"
        return
    if "enum" in schema and data not in schema["enum"]:
        yield f"{place}: {data!r} is not one of {', '.join(map(repr, schema['enum']))}"
    if isinstance(data, str):
        yield from _text_problems(schema, data, place)
    elif isinstance(data, list):
        yield from _list_problems(schema, data, where, root)
    elif isinstance(data, dict):
        yield from _object_problems(schema, data, where, root)
    elif "minimum" in schema and data < schema["minimum"]:
        yield f"{place}: {data} is below {schema['minimum']}"


def _text_problems(schema: dict[str, Any], data: str, place: str) -> Iterator[str]:
    if len(data) < schema.get("minLength", 0):
        yield f"{place}: at least {schema['minLength']} characters expected, not {len(data)}"
    if "pattern" in schema and not re.search(schema["pattern"], data):
        yield f"{place}: {data!r} does not match {schema['pattern']}"


def _list_problems(schema: dict[str, Any], data: list[Any], where: str, root: dict[str, Any]) -> Iterator[str]:
    if len(data) < schema.get("minItems", 0):
        yield f"{where or 'the document'}: at least {schema['minItems']} items expected, not {len(data)}"
    for position, item in enumerate(data):
        yield from _problems(schema.get("items", {}), item, f"{where}[{position}]", root)


def _object_problems(schema: dict[str, Any], data: dict[str, Any], where: str, root: dict[str, Any]) -> Iterator[str]:
    prefix = f"{where}." if where else ""
    known = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in data:
            yield f"{prefix}{name}: missing"
    for name, value in data.items():
        if name in known:
            yield from _problems(known[name], value, f"{prefix}{name}", root)
        elif schema.get("additionalProperties") is False:
            yield f"{prefix}{name}: unknown key"


def _is(data: Any, kind: str) -> bool:
    return isinstance(data, TYPES[kind]) and (kind == "boolean" or not isinstance(data, bool))


def _resolve(reference: str, root: dict[str, Any]) -> dict[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)
