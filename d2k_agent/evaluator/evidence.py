"""What ran for a candidate: the kernels of one call and the libraries of its process, against what it may use.

Kernels come from a capture in the candidate's own process when its timed calls are done, and once more from the
profiler, outside of it, when a winner is confirmed. Libraries are read from outside. Names are a candidate's own choice
and it has seen hidden inputs by then: only known ones are ever repeated to its author.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES

from d2k_agent.contract import MOST_KERNELS, CompileReport, VerdictStatus, Violation
from d2k_agent.evaluator.candidate import TRITON_CACHE
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.kernel_names import borrowed, is_borrowed, owner_of
from d2k_agent.evaluator.process import decode
from d2k_agent.evaluator.rules.analysis import analyse

NO_FILE = "code in no file"
"""Stands for all of it among the libraries."""
GLUE = "fills and copies by PyTorch"
"""Stands for all of them among the launches of a call."""
_GLUE = re.compile(
    r"^_ZN2at6native(?!.*WithCast)(?!.*15gpu_kernel_implI).*(?:FillFunctor|direct_copy_kernel_cuda"
    r"|float8_copy_kernel_cudaERNS_18TensorIteratorBaseEEUlN3c10\d+Float8)"
)
"""PyTorch's kernels for filling new memory and for copying within a dtype, mangled as C++ names are."""
_TRITON_BUILDS = frozenset(
    f"{name}{suffix}" for name in ("__triton_launcher", "cuda_utils") for suffix in EXTENSION_SUFFIXES
)
"""Host code that Triton compiles into its cache, which lies in a candidate's own folder."""
_COMPUTE = re.compile(
    r"lib(?:cublas|cublasLt|cudnn|cufft|cusparse|cusparseLt|cusolver|cutensor|curand|nccl|nvrtc|mkl|openblas|blas"
    r"|lapack|onnxruntime|nvinfer|torch_tensorrt)\w*[.-]"
)


@dataclass(frozen=True)
class Observed:
    """What a candidate's process says of one call: launches by kernel, None where they could not be read.

    And of the metered ones of its timed calls: `foreign` is what they did that they may not do, empty for nothing,
    `peak_bytes` and `copied_bytes` are the most that one held and copied.
    """

    kernels: dict[str, int] | None
    foreign: str
    peak_bytes: int
    copied_bytes: int

    @classmethod
    def read(cls, payload: bytes) -> Observed:
        """From an answer. Raises CandidateFault where it is none."""
        try:
            told = decode(payload)
            kernels, foreign = told["kernels"], str(told["foreign"])[:64]
            if kernels is not None:
                kernels = {str(name): int(count) for name, count in kernels.items()}
            return cls(kernels, foreign, int(told["peak_bytes"]), int(told["copied_bytes"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            what = "what run() launches was answered out of protocol"
            raise CandidateFault(VerdictStatus.ENDED_EARLY, what) from None


def launched_when_compiled(report: CompileReport | None, labels: Iterable[str]) -> dict[str, frozenset[str]]:
    """The kernels that a report saw launched at each workload; nothing where it does not tell of all of them."""
    known = report is not None and report.error is None and len(report.kernels) < MOST_KERNELS
    if report is None or not known or not set(labels) <= set(report.workloads):
        return {}
    return {
        label: frozenset(kernel.name for kernel in report.kernels if label in kernel.grids)
        for label in report.workloads
    }


def own_kernels(
    source: str, report: CompileReport | None, launched: Mapping[str, frozenset[str]] | None = None
) -> frozenset[str]:
    """The names of a candidate's kernels: those it `launched` when it was compiled, at any workload.

    Where nobody knows them, all functions of the source that Triton compiles, and the names under which it did.
    A name that could be a library's is nobody's own.
    """
    if launched:
        names = set().union(*launched.values())
    else:
        names = {kernel.name for kernel in report.kernels} if report else set()
        names |= _jit_functions(source)
    return frozenset(name for name in names if not is_borrowed(name))


def _jit_functions(source: str) -> set[str]:
    try:
        return {node.name for node in analyse(source).before.kernels if isinstance(node, ast.FunctionDef)}
    except (SyntaxError, ValueError, RecursionError):  # no Python, which the rules refuse; here they may be off
        return set()


def own_launches(kernels: Mapping[str, int], own: frozenset[str], label: str) -> dict[str, int]:
    """The launches of a candidate's own kernels, and GLUE. Raises CandidateFault where there are others."""
    launches: Counter[str] = Counter()
    for name, count in kernels.items():
        if name not in own and not _GLUE.search(name):
            raise _violation(_foreign(owner_of(name), label))
        launches[name if name in own else GLUE] += count
    return dict(launches)


def _foreign(owner: str | None, label: str) -> str:
    if owner is not None:
        return f"run() launches a kernel of {owner} on {label}: write that work as a Triton kernel in solution.py"
    return (
        f"run() launches a kernel on {label} that is none of the @triton.jit functions which it launched when it was "
        "compiled: launch kernels of solution.py alone, and the same ones in every call"
    )


def as_compiled(kernels: Mapping[str, int] | None, launched: Mapping[str, frozenset[str]], label: str) -> None:
    """Raises CandidateFault where own kernels (own_launches) were not `launched` at that workload when it was compiled:
    nothing is known then of how they multiply, and of what they hold.
    """
    if label not in launched:
        return
    others = sorted(set(kernels or {}) - launched[label] - {GLUE})
    if others:
        raise _violation(
            f"run() launches {', '.join(others)} on {label}, which it did not launch there when it was compiled: "
            "launch the same kernels in every call"
        )


def borrowed_names(report: CompileReport) -> tuple[Violation, ...]:
    """A violation for each kernel of a report under a name that could be a library's, however it came by it."""
    named = {kernel.name: kernel.source_line for kernel in report.kernels if is_borrowed(kernel.name)}
    return tuple(Violation("compiled.kernel_names", borrowed(name), line) for name, line in named.items())


def same_launches(captured: Mapping[str, int] | None, profiled: Mapping[str, int], label: str) -> None:
    """Raises CandidateFault where the profiler saw other kernels of the candidate's than a capture did."""
    if captured is None:
        return
    before, after = ({name: count for name, count in seen.items() if name != GLUE} for seen in (captured, profiled))
    if before == after:
        return
    message = (
        f"run() launches {_counted(after)} on {label} by the profiler, and {_counted(before)} when its process "
        "was asked: a call must do the same work whoever looks"
    )
    raise _violation(message)


def unread(label: str, why: str) -> CandidateFault:
    """The fault of a winner of which nobody could tell what it launches: `why` the profiler could not."""
    message = (
        f"what run() launches on {label} cannot be read: it cannot be captured, and {why}; "
        "leave out of run() what waits for the GPU"
    )
    return _violation(message)


def _violation(message: str) -> CandidateFault:
    return CandidateFault(VerdictStatus.RULE_VIOLATION, message, (Violation("runtime.kernels", message),))


def _counted(kernels: Mapping[str, int]) -> str:
    return ", ".join(f"{name} x{count}" for name, count in sorted(kernels.items())) or "none of its own kernels"


def libraries_allowed(mapped: Iterable[str], scratch: str) -> set[str]:
    """The names of libraries that a process mapped since it began to import solution.py.

    Raises CandidateFault where one of them computes, or lies in the candidate's folder and is neither of the two that
    Triton builds below its cache. Code in no file system accuses nobody, since drivers have such: it is listed.
    """
    names = set()
    for path in mapped:
        name = os.path.basename(path)
        if path.startswith("/memfd:"):
            names.add(NO_FILE)
            continue
        own = path.startswith(scratch + os.sep)
        built = os.path.dirname(os.path.dirname(path)) == os.path.join(scratch, TRITON_CACHE) and name in _TRITON_BUILDS
        if own and not built:
            raise _loaded("a library of its own making")
        if _COMPUTE.match(name):
            raise _loaded(name)
        names.add(name)
    return names


def _loaded(what: str) -> CandidateFault:
    message = f"solution.py loaded {what}: the work belongs into Triton kernels"
    return CandidateFault(VerdictStatus.RULE_VIOLATION, message, (Violation("runtime.libraries", message),))
