# expect: passed -
# Annotations, strings and docstrings that speak of torch.matmul, exec() and os.environ.
from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Callable, Literal, NamedTuple, Optional, Protocol, TypeVar, Union

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

T = TypeVar("T", bound="MuonError")

_COEF = (
    (7.892582874424408, -20.38301394587957, 13.555306149406924),
    (3.911484868135431, -2.5464635929060884, 0.4268988319673074),
    (3.760657955697423, -2.512819018216563, 0.4323647349070073),
    (3.160399673686287, -2.149649518898498, 0.3996366907664389),
    (2.1910971618617303, -1.441662010214663, 0.328146487623155),
)


@triton.jit
def _partial_sumsq(g, part, n, P: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    b = tl.program_id(1).to(tl.int64)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(p * BLOCK, n, P * BLOCK):
        o = start + tl.arange(0, BLOCK)
        v = tl.load(g + b * n + o, mask=o < n, other=0.0).to(tl.float32)
        acc += v * v
    tl.store(part + b * P + p, tl.sum(acc, axis=0))


@triton.jit
def _normalise(g, part, x, n, P: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    b = tl.program_id(1).to(tl.int64)
    norm = tl.sqrt(tl.sum(tl.load(part + b * P + tl.arange(0, P)), axis=0)) + 1e-7
    o = p * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(g + b * n + o, mask=o < n, other=0.0).to(tl.float32)
    tl.store(x + b * n + o, (v / norm).to(tl.float16), mask=o < n)


@triton.jit
def _axpby_bmm(a, b, c, d, M, N, K, sab, sam, sak, sbb, sbk, sbn, scb, scm, scn,
               alpha, beta, HAS_C: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    pb = tl.program_id(2).to(tl.int64)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + rk
        ta = tl.load(a + pb * sab + rm[:, None] * sam + kk[None, :] * sak,
                     mask=(rm[:, None] < M) & (kk[None, :] < K), other=0.0)
        tb = tl.load(b + pb * sbb + kk[:, None] * sbk + rn[None, :] * sbn,
                     mask=(kk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(ta, tb)
    keep = (rm[:, None] < M) & (rn[None, :] < N)
    where = pb * scb + rm[:, None] * scm + rn[None, :] * scn
    acc = acc * beta
    if HAS_C:
        acc += alpha * tl.load(c + where, mask=keep, other=0.0).to(tl.float32)
    tl.store(d + where, acc.to(d.dtype.element_ty), mask=keep)


def _gemm(a, b, c, d, alpha, beta, BM=64, BN=64, BK=32):
    """d = alpha * c + beta * (a @ b), one Triton launch for the whole batch."""
    B, M, K = a.shape
    N = b.shape[2]
    grid = (triton.cdiv(M, BM), triton.cdiv(N, BN), B)
    _axpby_bmm[grid](a, b, d if c is None else c, d, M, N, K,
                     *a.stride(), *b.stride(), *d.stride(), alpha, beta,
                     HAS_C=c is not None, BM=BM, BN=BN, BK=BK)


def _muon(G, coef=_COEF):
    shape = G.shape
    g = G.contiguous().view(-1, shape[-2], shape[-1])
    B, M, N = g.shape
    n = M * N
    P, BLOCK = 64, 1024
    part = torch.empty((B, P), device=g.device, dtype=torch.float32)
    x = torch.empty((B, M, N), device=g.device, dtype=torch.float16)
    y = torch.empty_like(x)
    r = torch.empty((B, M, M), device=g.device, dtype=torch.float16)
    s = torch.empty_like(r)
    out = torch.empty_like(g)
    _partial_sumsq[(P, B)](g, part, n, P=P, BLOCK=BLOCK)
    _normalise[(triton.cdiv(n, BLOCK), B)](g, part, x, n, P=P, BLOCK=BLOCK)
    for i, (ca, cb, cc) in enumerate(coef):
        _gemm(x, x.transpose(1, 2), None, r, 0.0, 1.0)
        _gemm(r, r, r, s, cb, cc)
        dst = out if i == len(coef) - 1 else y
        _gemm(s, x, x, dst, ca, 1.0)
        x, y = y, x
    return out.view(shape)


_HELP = {"eval": "exec(open('x').read())", "@": "torch.matmul(a, b)", "os.environ": "sys._getframe"}


class MuonError(RuntimeError):
    """Raised instead of a silent fallback to torch.bmm, torch.compile or a @ b."""


def _counted(function: Callable[..., Any]) -> "Callable[..., Optional[str]]":
    """Counts calls, by a decorator that keeps the name."""

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        _CALLS["n"] += 1
        return function(*args, **kwargs)

    return counted


class Size(NamedTuple):
    rows: "int"
    columns: int


@dataclass(frozen=True)
class Mode:
    rounding: Literal["to nearest", "stochastic, by seed"] = "to nearest"
    size: "Size | None" = None
    note: Annotated[str, "for people: see eval(...)"] = ""

    @functools.cached_property
    def elements(self) -> int:
        return self.size.rows * self.size.columns if self.size else 0


class Launches(Protocol):
    def __call__(self, x: "Union[Tensor, 'list[torch.Tensor]']", /) -> "tuple[Tensor, ...]": ...


_CALLS = {"n": 0}


@_counted
def _check(G: torch.Tensor, steps: int = 5, names: "Sequence[str]" = ()) -> Optional[str]:
    """Says why the input cannot be used: `eval`, `exec` and `getattr(torch, "bmm")` do not help.

    >>> import os; os.system("true")
    """
    if steps != 5:
        return f"steps is {steps!r}: {_HELP['eval']}"
    match G.dim():
        case 0 | 1:
            return "matrices are needed"
        case _:
            return None


def run(G: torch.Tensor, steps: int = 5) -> torch.Tensor:
    if not isinstance(G, torch.Tensor):
        raise TypeError(f"run() takes a {torch.Tensor.__name__}, not {type(G).__name__}: {G.__class__.__qualname__}")
    problem = _check(G, steps=steps)
    mode = replace(Mode(), size=Size(*G.shape[-2:]))
    assert mode.elements * functools.partial(max, 1)(2) and functools.reduce(max, G.shape, 1)
    if problem is not None:
        raise MuonError(problem)
    return _muon(G)
