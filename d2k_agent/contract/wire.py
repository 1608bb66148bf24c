"""Frozen dataclasses to plain JSON data and back, checked against the field types.

Covers dataclasses, enums, tuples, unions with None, string-keyed dicts and JSON scalars: what the wire types use.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class WireError(ValueError):
    """JSON data that does not have the shape of the wire type asked for."""


def to_data(value: Any) -> Any:
    """Return `value` as plain JSON data (dicts, lists, scalars)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [to_data(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_data(item) for key, item in value.items()}
    return value


def finite(data: Any) -> Any:
    """Return plain JSON data with None for every number that is not finite: JSON has no word for those."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: finite(item) for key, item in data.items()}
    if isinstance(data, list):
        return [finite(item) for item in data]
    return data


def from_data(cls: type[T], data: Any, where: str = "") -> T:
    """Build `cls` from JSON data. Raises WireError naming the field that does not fit."""
    return typing.cast(T, _decode(cls, data, where or cls.__name__))


def _decode(kind: Any, data: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return data
    if origin in (types.UnionType, typing.Union):
        return _decode_union(arguments, data, where)
    if origin is typing.Literal:
        if data not in arguments:
            raise WireError(f"{where}: {data!r} is not one of {', '.join(map(repr, arguments))}")
        return data
    if origin in (tuple, list):
        if not isinstance(data, (list, tuple)):
            raise WireError(f"{where}: a list was expected, not {type(data).__name__}")
        return origin(_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if origin in (dict, Mapping):
        if not isinstance(data, dict):
            raise WireError(f"{where}: an object was expected, not {type(data).__name__}")
        return {str(key): _decode(arguments[1], item, f"{where}.{key}") for key, item in data.items()}
    return _decode_plain(origin or kind, data, where)


def _decode_union(arguments: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in arguments:
        return None
    problems = []
    for option in arguments:
        if option is type(None):
            continue
        try:
            return _decode(option, data, where)
        except WireError as problem:
            problems.append(str(problem))
    raise WireError("; ".join(problems))


def _decode_plain(kind: Any, data: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(typing.cast(type, kind), data, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(data)
        except ValueError as problem:
            raise WireError(f"{where}: {problem}") from None
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError:
            raise WireError(f"{where}: a number of {data.bit_length()} bits is too large") from None
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise WireError(f"{where}: {kind.__name__} was expected, not {type(data).__name__}")
    return data


def _decode_dataclass(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise WireError(f"{where}: an object was expected, not {type(data).__name__}")
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(set(data) - set(fields))
    if unknown:
        raise WireError(f"{where}: unknown field {unknown[0]!r}")
    missing = [
        name
        for name, field in fields.items()
        if name not in data and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise WireError(f"{where}: field {missing[0]!r} is missing")
    try:
        return kind(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in data.items()})
    except WireError:
        raise
    except ValueError as problem:
        raise WireError(f"{where}: {problem}") from None
