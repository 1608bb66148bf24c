"""What a candidate's source does, as a list of facts: the interface between the analysis and the rules.

Every fact has the line it stands in. `in_kernel` is true inside functions that Triton compiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from d2k_agent.evaluator.rules.values import Value


@dataclass(frozen=True)
class Fact:
    """Something that the source does."""

    line: int
    in_kernel: bool


@dataclass(frozen=True)
class Import(Fact):
    """A module, or a name of a module, is imported. `used` is false when the name is never mentioned again."""

    module: str
    name: str | None
    used: bool


@dataclass(frozen=True)
class ExternalUse(Fact):
    """A name of an imported module is used: its full name, aliases resolved. `aliased` when it is only renamed."""

    path: str
    aliased: bool = False
    decorates: bool = False
    """True above a class."""
    asked: bool = False
    """True in an annotation, and where isinstance() asks for it: nobody is given the class."""


@dataclass(frozen=True)
class BuiltinUse(Fact):
    """A name that means what Python means by it, or, where it is not `known`, nothing: nobody binds it."""

    name: str
    known: bool = True


@dataclass(frozen=True)
class DynamicAttribute(Fact):
    """getattr, setattr or delattr with a computed name; `handed_on` when it is not called but used as a value."""

    function: str
    handed_on: bool = False


@dataclass(frozen=True)
class PositionalPattern(Fact):
    """A pattern of a class reads attributes that it does not name."""


@dataclass(frozen=True)
class TextAsCode(Fact):
    """A text stands for a type and is an expression that does more than name one."""


@dataclass(frozen=True)
class AttributeUse(Fact):
    """An attribute is read.

    `own` is true when the candidate itself defines an attribute of that name, `method` when that is a class's method,
    in a kernel one that is none of its kernels.
    """

    receiver: Value
    name: str
    own: bool
    method: bool = False


@dataclass(frozen=True)
class AttributeStore(Fact):
    """An attribute is set or deleted. `plain` where a class of the candidate's has a field of that name and what it
    gets is numbers, texts and dtypes only."""

    receiver: Value
    name: str
    plain: bool = False


@dataclass(frozen=True)
class ItemStore(Fact):
    """An item is set or deleted: receiver[...] = value."""

    receiver: Value


@dataclass(frozen=True)
class Operation(Fact):
    """An operator, as written, on operands of which `tensors` says whether one is certainly a tensor."""

    symbol: str
    tensors: bool


@dataclass(frozen=True)
class TensorIndex(Fact):
    """A tensor is indexed with a tensor: a gather or scatter."""


@dataclass(frozen=True)
class Call(Fact):
    """Something is called with what is known about its arguments."""

    callee: Value
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    spread: bool = False
    """True where an argument stands for several."""


@dataclass(frozen=True)
class HostFunction(Fact):
    """A kernel mentions a function of the candidate's that is no kernel."""

    name: str


@dataclass(frozen=True)
class HostValue(Fact):
    """A kernel reads a name of the host's that Triton would not compile, or gives such a name a value."""

    name: str


@dataclass(frozen=True)
class MadeText(Fact):
    """A value becomes part of a text: in an f-string, or as an argument of str.format."""

    value: Value


@dataclass(frozen=True)
class ClassDefinition(Fact):
    """A class is defined, with the full names of its imported or built-in bases."""

    name: str
    bases: tuple[str, ...]


@dataclass(frozen=True)
class KernelDefinition(Fact):
    """A function that Triton compiles is defined."""

    name: str


@dataclass(frozen=True)
class SpecialName(Fact):
    """A name with two leading underscores is defined or assigned: a method, a function or a variable."""

    name: str
    in_class: bool
