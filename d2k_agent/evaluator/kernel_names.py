"""Whose a kernel is by its name: what PyTorch and NVIDIA's libraries call theirs, and no candidate may call its own.

A name is all that a captured graph and a profiler tell of where a kernel comes from.
"""

from __future__ import annotations

import re

_OWNERS = (
    (re.compile(r"at(?:::|6)native|^_ZN2at"), "PyTorch"),
    (re.compile(r"^triton_[a-z]+_fused_"), "torch.compile"),
    (re.compile(r"nvjet|cublas|gemm|xmma|cutlass", re.IGNORECASE), "a library for matrix products"),
    (re.compile(r"cudnn|flash|fmha", re.IGNORECASE), "a library for neural networks"),
    (re.compile(r"cub\d*(?:::|[A-Z0-9])|thrust", re.IGNORECASE), "a library for sorting and scans"),
    (re.compile(r"nccl", re.IGNORECASE), "a library for communication"),
)
_BORROWED = re.compile(
    r"^_Z[NKL]*(?:\d|S[a-z_])|::|^triton_[a-z]+_fused_"
    r"|(?i:^nvjet|xmma_|^(?:kernel_|fmha_)?cutlass|^cu(?:blas|dnn|fft|sparse|solver|tensor|rand)|^nccl"
    r"|^(?:maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)_\w*gemm\w*_\d+x\d+)"
)
"""Names as only those have them, C++ names included: a word like gemm or flash is anybody's."""


def owner_of(name: str) -> str | None:
    """In words, whose kernel one of that name is, where it is not the candidate's; None where nobody knows."""
    return next((owner for pattern, owner in _OWNERS if pattern.search(name)), None)


def is_borrowed(name: str) -> bool:
    """True for a name by which a candidate's kernel could pass for a library's, and the library's for its own."""
    return _BORROWED.search(name) is not None


def borrowed(name: str) -> str:
    """What is said of a kernel of that name."""
    return f"kernel {name} is named like those of {owner_of(name) or 'a C++ library'}: give it another name"
