"""static.torch_names, static.streams, static.generated_kernels, static.internals, static.module_names:
names of imported modules outside the allow-list, each with what to do instead; static.borrowed_names."""

from __future__ import annotations

from collections.abc import Iterator

from d2k_agent.contract import Violation
from d2k_agent.evaluator.kernel_names import borrowed, is_borrowed
from d2k_agent.evaluator.rules.allow_list import CLASS_DECORATORS, COPIES_NAMES
from d2k_agent.evaluator.rules.facts import ExternalUse, Fact, KernelDefinition
from d2k_agent.evaluator.rules.policy import Policy

_KERNEL_EXTRAS = frozenset(
    "triton.cdiv triton.next_power_of_2 triton.constexpr_function triton.language.constexpr".split()
)
_REASONS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "static.module_names",
        (COPIES_NAMES,),
        "write @functools.wraps(function) above a function, with nothing else in the brackets",
    ),
    (
        "static.streams",
        ("torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.ExternalStream", "torch.cuda.current_stream",
         "torch.cuda.default_stream", "torch.cuda.set_stream", "torch.cuda.Event", "torch.cuda.graph",
         "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables", "torch.cuda.is_current_stream_capturing",
         "torch.Stream", "torch.Event", "torch.cuda.streams", "torch.cuda.graphs"),
        "launch kernels directly, on the caller's stream and in every call",
    ),
    (
        "static.generated_kernels",
        ("torch.compile", "torch.jit", "torch.fx", "torch.export", "torch._dynamo", "torch._inductor", "torch.package",
         "torch.cuda.jiterator", "torch.cuda._compile_kernel", "torch.utils.cpp_extension"),
        "kernels must be written by hand: put the computation into a @triton.jit function",
    ),
    (
        "static.internals",
        ("torch._C", "torch.ops", "torch._ops", "torch.library", "torch._library", "torch.classes", "torch.autograd",
         "torch.overrides", "torch.utils", "torch.backends", "torch._prims", "torch._refs", "torch._decomp",
         "torch.multiprocessing", "torch.distributed", "torch.hub", "torch.serialization", "torch.load"),
        "torch's internals and libraries are out of bounds: write what they would do as a @triton.jit kernel",
    ),
    (
        "static.torch_names",
        ("torch.inference_mode",),
        "what is made under it cannot be written elsewhere: use torch.no_grad() or nothing, as no input needs grad",
    ),
    (
        "static.torch_names",
        ("torch.view_as_complex", "torch.view_as_real", "torch.complex64", "torch.complex128"),
        "kernels know no complex numbers: keep the real and the imaginary part in a dimension of two",
    ),
)  # fmt: skip


def forbidden_names(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Uses of imported names that are not allowed, in host code and in kernels."""
    for fact in facts:
        if not isinstance(fact, ExternalUse):
            continue
        path = fact.path.removesuffix("()")
        if fact.in_kernel:
            yield from _in_kernel(path, fact.line, policy)
        elif policy.is_module(path) and not fact.aliased:
            message = f"the module {path} is handed on as a value, which hides what is used of it: name what you need"
            yield Violation("static.reflection", message, fact.line)
        elif path in CLASS_DECORATORS and not (fact.decorates or fact.aliased):
            message = f"{path} changes the class that it is given: write it above a class, with nothing but keywords"
            yield Violation("static.monkeypatch", message, fact.line)
        elif (
            not path.startswith(".") and "()" not in path and _imported_lawfully(path, policy) and not policy.uses(path)
        ):
            yield _violation(path, fact.line)


def borrowed_names(facts: list[Fact], policy: Policy) -> Iterator[Violation]:
    """Kernels under names by which they could pass for a library's."""
    for fact in facts:
        if isinstance(fact, KernelDefinition) and is_borrowed(fact.name):
            yield Violation("static.borrowed_names", borrowed(fact.name), fact.line)


def _imported_lawfully(path: str, policy: Policy) -> bool:
    """False where the import itself is the violation: one finding is enough."""
    root = path.partition(".")[0]
    return root in ("torch", "triton") or any(module.partition(".")[0] == root for module in policy.modules)


def _in_kernel(path: str, line: int, policy: Policy) -> Iterator[Violation]:
    in_language = path.startswith(("triton.language", "triton.experimental.gluon"))
    allowed_here = in_language or path in _KERNEL_EXTRAS or path.partition(".")[0] == "math"
    if not (allowed_here and policy.uses(path)) or policy.is_module(path):
        message = f"{path} inside a kernel: a @triton.jit function may use triton.language and other kernels only"
        yield Violation("static.kernel_names", message, line)


def _violation(path: str, line: int) -> Violation:
    for check, prefixes, advice in _REASONS:
        if any(path == prefix or path.startswith(f"{prefix}.") for prefix in prefixes):
            return Violation(check, f"{path} is not allowed: {advice}", line)
    if path.startswith("torch."):
        advice = "only allocation, views and queries may come from torch; compute it in a @triton.jit kernel"
        return Violation("static.torch_names", f"{path} is not glue: {advice}", line)
    if path.startswith("triton."):
        advice = "use triton.jit, autotune, heuristics, cdiv and triton.language"
        return Violation("static.module_names", f"{path} is not allowed: {advice}", line)
    return Violation("static.module_names", f"{path} is not needed for glue: leave it out", line)
