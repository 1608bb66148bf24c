"""What is known about a Python value without running the program: the values of the abstract interpretation.

Everything the analysis cannot tell is UNKNOWN; an UNKNOWN value is never taken for a tensor.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable
from dataclasses import dataclass, field, replace


class Kind(enum.Enum):
    """The kinds of values that the rules tell apart."""

    UNKNOWN = "unknown"
    """`path` holds the names of the candidate's own attributes that it may be; see attribute_names()."""
    NONE = "None"
    HOST = "host value"
    """A number, string, shape, stride, device, property: anything that is certainly no tensor."""
    DTYPE = "dtype"
    TENSOR = "tensor"
    TENSOR_METHOD = "tensor method"
    """A bound method of a tensor; `path` is its name."""
    EXTERNAL = "external"
    """Something of an imported module; `path` is its full name, with "()" after every call."""
    BUILTIN = "builtin"
    FUNCTION = "function"
    BOUND = "method"
    CLASS = "class"
    INSTANCE = "instance"
    KERNEL = "kernel"
    """A @triton.jit function, tuned or not."""
    LAUNCHER = "launcher"
    """kernel[grid]"""
    ITEMS = "items"
    """A tuple or list whose items are known one by one."""
    MANY = "many"
    """A container or iterator of values that are alike: items[0]."""


@dataclass(frozen=True)
class Value:
    """One abstract value; `node` is the candidate's own definition behind a function, class, instance or kernel."""

    kind: Kind
    path: str = ""
    node: ast.AST | None = None
    items: tuple[Value, ...] = ()
    either: tuple[Value, ...] = ()
    """What something unknown is one of, where kernels, names of modules and constants were joined."""
    size: int = field(default=1, compare=False)
    """Values inside, itself included."""

    @property
    def is_tensor(self) -> bool:
        """True where the value is certainly a tensor."""
        return self.kind is Kind.TENSOR


_LARGEST = 1000
UNSURE = "self"
"""The path of an instance that may be something else: `self` where a class hands on its method."""
FIXED = "tuple"
"""The path of values that are alike and that a tuple holds."""
_MOST_ALTERNATIVES = 8
_PLAIN = (Kind.EXTERNAL, Kind.KERNEL, Kind.HOST, Kind.DTYPE)
MUTABLE = "list"
"""The path of a list written out, and of what may be one: a tuple has none."""
UNKNOWN = Value(Kind.UNKNOWN)
NONE = Value(Kind.NONE)
HOST = Value(Kind.HOST)
DTYPE = Value(Kind.DTYPE)
TENSOR = Value(Kind.TENSOR)


def external(path: str) -> Value:
    """A value of an imported module, by its full name."""
    return Value(Kind.EXTERNAL, path)


def items(values: Iterable[Value]) -> Value:
    """A tuple or list of these items."""
    return _container(Kind.ITEMS, tuple(values))


def many(values: Iterable[Value]) -> Value:
    """A container whose values are alike; UNKNOWN when nothing is known about them."""
    joined = join_all(values)
    return UNKNOWN if joined.kind is Kind.UNKNOWN else _container(Kind.MANY, (joined,))


def _container(kind: Kind, values: tuple[Value, ...]) -> Value:
    # A source of a few lines can describe a value that is too large to compare: x = (x, x), again and again.
    size = 1 + sum(value.size for value in values)
    return Value(kind, items=values, size=size) if size <= _LARGEST else UNKNOWN


def join(first: Value, second: Value) -> Value:
    """What is known when it may be either. None gives way to the other: arithmetic on None cannot be meant."""
    if first == second or second.kind is Kind.NONE:
        return first
    if first.kind is Kind.NONE:
        return second
    if first.kind is second.kind is Kind.ITEMS and len(first.items) == len(second.items):
        joined = items(join(a, b) for a, b in zip(first.items, second.items, strict=True))
        return as_list(joined) if MUTABLE in (first.path, second.path) else joined
    sequences = (Kind.ITEMS, Kind.MANY)
    if first.kind in sequences and second.kind in sequences:
        return many([*first.items, *second.items])
    hosts = (Kind.HOST, Kind.DTYPE)
    if all(value.kind in hosts or _only_host(value) for value in (first, second)):
        mutable = any(value.path == MUTABLE or value.kind is Kind.MANY for value in (first, second))
        return Value(Kind.HOST, MUTABLE) if mutable else HOST
    names = " ".join(sorted(attribute_names(first) | attribute_names(second)))
    return Value(Kind.UNKNOWN, path=names, either=_alternatives(first, second))


def as_list(value: Value) -> Value:
    """The same items in a list, which may be changed."""
    return replace(value, path=MUTABLE) if value.kind is Kind.ITEMS else value


def as_tuple(value: Value) -> Value:
    """The same values in a tuple, which nobody changes."""
    return replace(value, path=FIXED) if value.kind is Kind.MANY else value


def _alternatives(*values: Value) -> tuple[Value, ...]:
    found: dict[Value, None] = {}
    for value in values:
        one_of = value.either if value.kind is Kind.UNKNOWN else (value,)
        if not one_of or any(choice.kind not in _PLAIN for choice in one_of):
            return ()
        found.update(dict.fromkeys(one_of))
    return tuple(found) if len(found) <= _MOST_ALTERNATIVES else ()


def attribute_names(value: Value) -> set[str]:
    """The names that the candidate gave to attributes, and which the value may be of something unknown."""
    return set(value.path.split()) if value.kind is Kind.UNKNOWN else set()


def join_all(values: Iterable[Value]) -> Value:
    """join() over any number of values; UNKNOWN for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def element(value: Value) -> Value:
    """What iterating over the value yields."""
    if value.kind is Kind.MANY:
        return value.items[0]
    if value.kind is Kind.ITEMS:
        return join_all(value.items)
    return value if value.kind in (Kind.HOST, Kind.TENSOR) else UNKNOWN


def contains_tensor(value: Value) -> bool:
    """True for a tensor and for a container that certainly holds one."""
    return value.is_tensor or (value.kind in (Kind.ITEMS, Kind.MANY) and any(map(contains_tensor, value.items)))


def is_plain(value: Value) -> bool:
    """True for numbers, texts and dtypes, and for containers of them."""
    plain = (Kind.HOST, Kind.DTYPE, Kind.NONE)
    return value.kind in plain or (value.kind in (Kind.ITEMS, Kind.MANY) and all(map(is_plain, value.items)))


def _only_host(value: Value) -> bool:
    return value.kind in (Kind.ITEMS, Kind.MANY) and all(
        item.kind in (Kind.HOST, Kind.DTYPE, Kind.NONE) or _only_host(item) for item in value.items
    )
