"""What tensors, torch, Triton and Python's built-ins give back: the part of their types that the rules need."""

from __future__ import annotations

from d2k_agent.evaluator.rules.allow_list import (
    ALLOCATION,
    CONSTEXPR_DECORATORS,
    DTYPES,
    KERNEL_DECORATORS,
    LABELS,
    TENSOR_QUERIES,
    TUNERS,
    VIEWS,
)
from d2k_agent.evaluator.rules.values import (
    DTYPE,
    HOST,
    TENSOR,
    UNKNOWN,
    UNSURE,
    Kind,
    Value,
    as_tuple,
    element,
    external,
    items,
    join_all,
    many,
)

_SEVERAL = frozenset(["split", "chunk", "tensor_split", "unbind"])
_READS = frozenset(["item", "tolist"])
_TENSOR_PROPERTIES = frozenset(["T", "mT", "H", "mH", "data", "grad", "real", "imag"])
_QUERY_PROPERTIES = frozenset(
    ["shape", "device", "ndim", "itemsize", "nbytes", "is_cuda", "is_cpu", "is_meta", "layout", "requires_grad"]
)
_TRANSPARENT = frozenset(
    "functools.lru_cache functools.cache functools.lru_cache() torch.no_grad torch.no_grad()"
    " torch.inference_mode torch.inference_mode() torch.enable_grad torch.enable_grad()".split()
)
_HOST_BUILTINS = frozenset(
    "bool bytes callable float format hasattr hash hex id int isinstance issubclass len ord chr print range repr"
    " str".split()
)
TYPE_OF = "type()"
"""The path of a class that type() gave: that of self may be another than the class around says."""
_CONSTANTS = frozenset(["math.pi", "math.e", "math.tau", "math.inf", "math.nan"])
_HOST_MODULES = frozenset(["math", "time", "numbers"])
_LIBRARIES = frozenset(["contextlib", "typing", "typing_extensions"])
_GIVING_BACK = frozenset(["typing.NamedTuple", "typing.NewType", "typing.TypedDict", "typing.cast"])
"""Functions of those modules whose result is the candidate's own."""


def tensor_attribute(name: str) -> Value:
    """The value of `tensor.name`."""
    if name == "dtype":
        return DTYPE
    if name in _TENSOR_PROPERTIES:
        return TENSOR
    return HOST if name in _QUERY_PROPERTIES else Value(Kind.TENSOR_METHOD, name)


def tensor_method_result(name: str) -> Value:
    """The value of `tensor.name(...)`. Methods that the rules refuse are taken to give tensors."""
    if name in _SEVERAL:
        return many([TENSOR])
    return HOST if name in TENSOR_QUERIES | _READS else TENSOR


def external_attribute(path: str) -> Value:
    """The value of an attribute of something imported, by its full name."""
    root, _, name = path.partition(".")
    if (root == "torch" and name in DTYPES) or path == "torch.dtype":
        return DTYPE
    text = path.rpartition(".")[2] in LABELS | {"__version__"} or path.startswith("torch.version.")
    return HOST if text or path in _CONSTANTS else external(path)


def external_result(path: str, arguments: tuple[Value, ...]) -> Value:
    """The value of calling something imported, also of decorating with it."""
    first = arguments[0] if arguments else UNKNOWN
    root, _, name = path.partition(".")
    if path.removesuffix("()") in KERNEL_DECORATORS and first.kind in (Kind.FUNCTION, Kind.KERNEL):
        return Value(Kind.KERNEL, node=first.node)
    if path in TUNERS or path in KERNEL_DECORATORS or path in CONSTEXPR_DECORATORS:
        return external(f"{path}()")
    if path.removesuffix("()") in TUNERS:
        return first if first.kind is Kind.KERNEL else UNKNOWN
    if path in _TRANSPARENT:
        transparent = (Kind.FUNCTION, Kind.KERNEL)
        return first if first.kind in transparent else external(f"{path}()")
    if root == "torch":
        return _torch_result(name)
    if path in ("triton.cdiv", "triton.next_power_of_2") or root in _HOST_MODULES:
        return HOST
    if path.startswith("triton.runtime.driver"):
        return HOST
    if path == "types.SimpleNamespace":
        return Value(Kind.INSTANCE)
    if path == TYPE_OF:
        return external(TYPE_OF)  # of a class, with one argument: again what type() gives
    if path == "enum.auto":
        return HOST  # by the time anybody reads it
    return external(f"{path}()") if root in _LIBRARIES and path not in _GIVING_BACK else UNKNOWN


def _torch_result(name: str) -> Value:
    if name in _SEVERAL:
        return many([TENSOR])
    if name in ALLOCATION | VIEWS or name in ("Tensor", "clone"):
        return TENSOR
    known_host = ("cuda.", "version.", "device", "finfo", "iinfo", "Size", "is_", "numel", "broadcast_shapes", "get_")
    if name.startswith(known_host):
        return HOST
    # What is left is not allowed, or unknown: a public function of torch gives a tensor.
    return TENSOR if name.islower() and "." not in name else UNKNOWN


def builtin_result(name: str, arguments: tuple[Value, ...]) -> Value:
    """The value of calling a built-in function."""
    first = arguments[0] if arguments else UNKNOWN
    if name in _HOST_BUILTINS:
        return HOST
    if name == "tuple":
        return items(first.items) if first.kind is Kind.ITEMS else as_tuple(many([element(first)]))
    if name in ("list", "sorted", "reversed", "set", "frozenset", "iter", "filter"):
        return many([element(arguments[-1])] if arguments else [])
    if name == "enumerate":
        return many([items([HOST, element(first)])])
    if name == "zip":
        return many([items(element(value) for value in arguments)])
    if name in ("min", "max", "sum", "next"):
        return join_all(arguments) if len(arguments) > 1 and name != "sum" else element(first)
    if name in ("abs", "pow", "divmod", "round"):
        return first  # a number of numbers only: what else it is asked of answers as it likes
    if name == "type" and len(arguments) == 1:
        return _type_of(first)
    return UNKNOWN


def _type_of(value: Value) -> Value:
    if value.is_tensor:
        return external("torch.Tensor")
    own = value.kind is Kind.INSTANCE and value.path != UNSURE
    return Value(Kind.CLASS, TYPE_OF, value.node) if own else external(TYPE_OF)
