"""The part of JSON Schema that tool parameters use, checked when a tool is loaded and when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}
_OBJECT_KEYS = {"type", "properties", "required", "additionalProperties", "description"}
_VALUE_KEYS = {"type", "description", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "items"}


class ArgumentError(ValueError):
    """Arguments that do not fit the tool's parameters; the message tells the model what to change."""


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError unless `schema` describes an object in the supported part of JSON Schema."""
    if schema.get("type") != "object":
        raise ValueError('parameters: type must be "object"')
    _refuse_unknown(schema, _OBJECT_KEYS, "parameters")
    properties = schema.get("properties", {})
    for name, value in properties.items():
        _refuse_unknown(value, _VALUE_KEYS, f"parameters.properties.{name}")
        if value.get("type") not in _TYPES:
            raise ValueError(f"parameters.properties.{name}: type must be one of {', '.join(_TYPES)}")
        if "default" in value:
            _check_value(name, value["default"], value)
    unknown = set(schema.get("required", ())) - set(properties)
    if unknown:
        raise ValueError(f"parameters: required names {sorted(unknown)[0]!r}, which has no property")


def checked_arguments(schema: Mapping[str, Any], arguments: object) -> dict[str, Any]:
    """`arguments` with the defaults filled in. Raises ArgumentError naming the first thing that does not fit."""
    if not isinstance(arguments, dict):
        raise ArgumentError(f"the arguments must be a JSON object, not {_kind(arguments)}")
    properties = schema.get("properties", {})
    for name, value in arguments.items():
        if name not in properties:
            raise ArgumentError(f"there is no argument {name!r}; there is {', '.join(properties) or 'none'}")
        _check_value(name, value, properties[name])
    for name in schema.get("required", ()):
        if name not in arguments:
            raise ArgumentError(f"argument {name!r} is missing")
    defaults = {name: value["default"] for name, value in properties.items() if "default" in value}
    return {**defaults, **arguments}


def _check_value(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    wanted = schema["type"]
    boolean_for_number = isinstance(value, bool) and wanted != "boolean"
    if not isinstance(value, _TYPES[wanted]) or boolean_for_number:
        raise ArgumentError(f"argument {name!r} must be of type {wanted}, not {_kind(value)}")
    if "enum" in schema and value not in schema["enum"]:
        raise ArgumentError(f"argument {name!r} must be one of {', '.join(map(repr, schema['enum']))}")
    if isinstance(value, (int, float)) and not _within(value, schema, "minimum", "maximum"):
        raise ArgumentError(f"argument {name!r} must be {_range(schema, 'minimum', 'maximum')}")
    if isinstance(value, str) and not _within(len(value), schema, "minLength", "maxLength"):
        raise ArgumentError(f"argument {name!r} must be {_range(schema, 'minLength', 'maxLength')} characters long")
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            _check_value(f"{name}[{index}]", item, schema["items"])


def _within(value: float, schema: Mapping[str, Any], low: str, high: str) -> bool:
    return bool(schema.get(low, value) <= value <= schema.get(high, value))


def _range(schema: Mapping[str, Any], low: str, high: str) -> str:
    bounds = [f"at least {schema[low]}"] if low in schema else []
    return " and ".join([*bounds, f"at most {schema[high]}"] if high in schema else bounds)


def _refuse_unknown(schema: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(schema) - known)
    if unknown:
        raise ValueError(f"{where}: {unknown[0]!r} is not supported; there is {', '.join(sorted(known))}")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return next((name for name, kind in _TYPES.items() if isinstance(value, kind)), type(value).__name__)
