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

from d2k_agent.contract import CompileReport, VerdictStatus, Violation
from d2k_agent.evaluator.candidate import TRITON_CACHE
from d2k_agent.evaluator.faults import CandidateFault
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
_KNOWN = (
    (re.compile(r"at(?:::|6)native|^_ZN2at"), "PyTorch"),
    (re.compile(r"nvjet|cublas|gemm|xmma|cutlass", re.IGNORECASE), "a library for matrix products"),
    (re.compile(r"cudnn|flash", re.IGNORECASE), "a library for neural networks"),
    (re.compile(r"cub\d*(?:::|[A-Z0-9])|thrust", re.IGNORECASE), "a library for sorting and scans"),
    (re.compile(r"nccl", re.IGNORECASE), "a library for communication"),
)
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

    `foreign` is what it did that it may not do, empty for nothing.
    """

    kernels: dict[str, int] | None
    foreign: str

    @classmethod
    def read(cls, payload: bytes) -> Observed:
        """From an answer. Raises CandidateFault where it is none."""
        try:
            told = decode(payload)
            kernels, foreign = told["kernels"], str(told["foreign"])[:64]
            if kernels is not None:
                kernels = {str(name): int(count) for name, count in kernels.items()}
            return cls(kernels, foreign)
        except (ValueError, KeyError, TypeError, AttributeError):
            what = "what run() launches was answered out of protocol"
            raise CandidateFault(VerdictStatus.ENDED_EARLY, what) from None


def own_kernels(source: str, report: CompileReport | None) -> frozenset[str]:
    """The names of the functions of a source that Triton compiles, and under which it compiled them."""
    names = {kernel.name for kernel in report.kernels} if report else set()
    try:
        names |= {node.name for node in analyse(source).before.kernels if isinstance(node, ast.FunctionDef)}
    except Exception:  # noqa: BLE001, S110 - what the analysis cannot follow, the rules refuse; here they may be off
        pass
    return frozenset(names)


def own_launches(kernels: Mapping[str, int], own: frozenset[str], label: str) -> dict[str, int]:
    """The launches of a candidate's own kernels, and GLUE. Raises CandidateFault where there are others."""
    launches: Counter[str] = Counter()
    for name, count in kernels.items():
        launches[name if name in own else GLUE] += count
        if name not in own and not _GLUE.search(name):
            by = next((owner for pattern, owner in _KNOWN if pattern.search(name)), "none of its @triton.jit functions")
            message = f"run() launches a kernel of {by} on {label}: write that work as a Triton kernel in solution.py"
            raise CandidateFault(VerdictStatus.RULE_VIOLATION, message, (Violation("runtime.kernels", message),))
    return dict(launches)


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
    raise CandidateFault(VerdictStatus.RULE_VIOLATION, message, (Violation("runtime.kernels", message),))


def unread(label: str, why: str) -> CandidateFault:
    """The fault of a winner of which nobody could tell what it launches: `why` the profiler could not."""
    message = (
        f"what run() launches on {label} cannot be read: it cannot be captured, and {why}; "
        "leave out of run() what waits for the GPU"
    )
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
