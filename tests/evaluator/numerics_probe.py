"""Runs small kernels in Triton's interpreter and prints, per probe, how many values differ from torch's (JSON).

Started by test_numerics.py as a process of its own, with TRITON_INTERPRET=1. `--plain` leaves the shim out.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from d2k_agent.evaluator import numerics

N = 1024
BF16, E4M3, E5M2 = torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2
Probe = Callable[[], tuple[torch.Tensor, torch.Tensor]]


@triton.jit
def arithmetic(x, y, out, OP: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    a, b = tl.load(x + o), tl.load(y + o)
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "div":
        r = a / b
    elif OP == "neg_abs":
        r = -tl.abs(a)
    elif OP == "maximum":
        r = tl.maximum(a, b)
    elif OP == "minimum":
        r = tl.minimum(a, b)
    elif OP == "where":
        r = tl.where(a > b, a, b)
    elif OP == "fma":
        r = tl.fma(a, b, b)
    elif OP == "full":
        r = tl.full((BLOCK,), 1.7, tl.bfloat16)
    tl.store(out + o, r)


@triton.jit
def along(x, out, OP: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    a = tl.load(x + o)
    if OP == "cumsum":
        r = tl.cumsum(a, 0)
    elif OP == "cumsum_reverse":
        r = tl.cumsum(a, 0, reverse=True)
    elif OP == "cumprod":
        r = tl.cumprod(a, 0)
    else:
        r = tl.sort(a)
    tl.store(out + o, r)


@triton.jit
def compare(x, y, out, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    a, b = tl.load(x + o), tl.load(y + o)
    code = (a > b).to(tl.int32) + 2 * (a >= b).to(tl.int32) + 4 * (a == b).to(tl.int32) + 8 * (a != b).to(tl.int32)
    tl.store(out + o, code + 16 * (a < 0.5).to(tl.int32) + 32 * a.to(tl.int1).to(tl.int32))


@triton.jit
def _larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def reduce_rows(x, out, OP: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    a = tl.load(x + r[:, None] * C + c[None, :])
    if OP == "sum":
        v = tl.sum(a, axis=1)
    elif OP == "max":
        v = tl.max(a, axis=1)
    elif OP == "min":
        v = tl.min(a, axis=1)
    elif OP == "argmax":
        v = tl.argmax(a, axis=1)
    elif OP == "max_with_index":
        largest, index = tl.max(a, axis=1, return_indices=True)
        v = largest.to(tl.float32) + index
    else:
        v = tl.reduce(a, 1, _larger)
    tl.store(out + r, v)


@triton.jit
def cast(x, out, ROUNDING: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    v = tl.load(x + o).to(out.dtype.element_ty, fp_downcast_rounding=ROUNDING)
    tl.store(out + o, v)


@triton.jit
def product(a, b, out, M: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, k_end):
    m = tl.arange(0, M)
    acc = tl.zeros((M, M), tl.float32)
    for start in range(0, k_end, BK):
        k = start + tl.arange(0, BK)
        acc = tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * M + m[None, :]), acc)
    tl.store(out + m[:, None] * M + m[None, :], acc)


@triton.jit
def pile_up(x, total, before, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    old = tl.atomic_add(total + o % 4, tl.load(x + o), mask=o < BLOCK - 4)
    tl.store(before + o, old)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"], warmup=1, rep=1)
@triton.jit
def tuned_double(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n) * 2, mask=o < n)


def numbers(dtype: torch.dtype, seed: int, shape: tuple[int, ...] = (N,)) -> torch.Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3
    return values.to(dtype)


def elementwise(op: str, dtype: torch.dtype) -> Probe:
    def probe() -> tuple[torch.Tensor, torch.Tensor]:
        a, b, out = numbers(dtype, 1), numbers(dtype, 2), torch.empty(N, dtype=dtype)
        arithmetic[(1,)](a, b, out, OP=op, BLOCK=N)
        expected: dict[str, Callable[[], torch.Tensor]] = {
            "add": lambda: a + b,
            "sub": lambda: a - b,
            "mul": lambda: a * b,
            "neg_abs": lambda: -a.abs(),
            "maximum": lambda: torch.maximum(a, b),
            "minimum": lambda: torch.minimum(a, b),
            "where": lambda: torch.where(a > b, a, b),
            "full": lambda: torch.full((N,), 1.7, dtype=dtype),
            "div": lambda: (a.float() / b.float()).to(dtype),
            "fma": lambda: (a.float() * b.float() + b.float()).to(dtype),
        }
        return out, expected[op]()

    return probe


def fp8_sum() -> tuple[torch.Tensor, torch.Tensor]:
    a, b = numbers(E4M3, 1), numbers(E4M3, 2)
    out = torch.empty(N, dtype=E4M3)
    arithmetic[(1,)](a, b, out, OP="add", BLOCK=N)
    return out, (a.float() + b.float()).clamp(-448, 448).to(E4M3)


def comparisons(dtype: torch.dtype) -> Probe:
    def probe() -> tuple[torch.Tensor, torch.Tensor]:
        a, b, out = numbers(dtype, 1), numbers(dtype, 2), torch.empty(N, dtype=torch.int32)
        b[::4] = a[::4]
        a[::7] = 0
        compare[(1,)](a, b, out, BLOCK=N)
        parts = (a > b, a >= b, a == b, a != b, a < 0.5, a != 0)
        return out, sum((part.int() << i for i, part in enumerate(parts)), torch.zeros_like(out))

    return probe


def reductions(op: str, dtype: torch.dtype) -> Probe:
    def probe() -> tuple[torch.Tensor, torch.Tensor]:
        a = numbers(dtype, 3, (8, 64))
        largest, index = a.float().max(dim=1)
        expected = {
            "sum": lambda: a.float().sum(1).to(dtype),
            "max": lambda: a.max(1).values,
            "min": lambda: a.min(1).values,
            "argmax": lambda: index.int(),
            "max_with_index": lambda: largest + index,
            "generic": lambda: a.max(1).values,
        }[op]()
        out = torch.empty(8, dtype=expected.dtype)
        reduce_rows[(1,)](a, out, OP=op, R=8, C=64)
        return close(out, a.double().sum(1), 1e-6) if (op, dtype) == ("sum", torch.float32) else (out, expected)

    return probe


def casts(source: torch.Tensor, dtype: torch.dtype, expected: torch.Tensor, rounding: str | None = None) -> Probe:
    def probe() -> tuple[torch.Tensor, torch.Tensor]:
        out = torch.empty(source.shape, dtype=dtype)
        cast[(1,)](source, out, ROUNDING=rounding, BLOCK=source.numel())
        return out, expected

    return probe


def toward_zero(values: torch.Tensor) -> torch.Tensor:
    return (values.view(torch.int32) & -65536).view(torch.float32).to(BF16)


def close(result: torch.Tensor, expected: torch.Tensor, relative: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums may be added up in any order: what lies within a few roundings of the exact sum counts as equal to it."""
    near = (result.double() - expected).abs() <= relative * expected.abs().max()
    return result.double(), torch.where(near, result.double(), expected)


def along_rows(op: str, dtype: torch.dtype) -> Probe:
    def probe() -> tuple[torch.Tensor, torch.Tensor]:
        count = 64 if op == "sort" else N
        a, out = numbers(dtype, 1, (count,)), torch.empty(count, dtype=dtype)
        if op == "cumprod":
            a = (1 + a.float() * 1e-3).to(dtype)
        along[(1,)](a, out, OP=op, BLOCK=count)
        wide = a.float() if dtype == BF16 else a.double()
        expected = {
            "cumsum": lambda: wide.cumsum(0),
            "cumsum_reverse": lambda: wide.flip(0).cumsum(0).flip(0),
            "cumprod": lambda: wide.cumprod(0),
            "sort": lambda: wide.sort().values,
        }[op]()
        return (out, expected.to(BF16)) if dtype == BF16 else close(out, expected, 4 * torch.finfo(dtype).eps)

    return probe


def products(dtype: torch.dtype) -> Probe:
    def probe() -> tuple[torch.Tensor, torch.Tensor]:
        a, b = numbers(dtype, 4, (32, 128)), numbers(dtype, 5, (128, 32))
        out = torch.empty(32, 32)
        product[(1,)](a, b, out, M=32, K=128, BK=32, k_end=128)
        return close(out, a.double() @ b.double(), 1e-6)

    return probe


def atomics() -> tuple[torch.Tensor, torch.Tensor]:
    x, total, before = numbers(BF16, 6, (64,)), numbers(BF16, 7, (4,)), torch.empty(64, dtype=BF16)
    running, expected = total.clone(), []
    for i in range(60):
        expected.append(running[i % 4].clone())
        running[i % 4] += x[i]
    pile_up[(1,)](x, total, before, BLOCK=64)
    return torch.cat([total, before[:60]]), torch.cat([running, torch.stack(expected)])


def autotuned() -> tuple[torch.Tensor, torch.Tensor]:
    x = numbers(BF16, 8, (200,))
    out = torch.empty_like(x)
    tuned_double[lambda meta: (triton.cdiv(200, meta["BLOCK"]),)](x, out, 200)
    return out, x * 2


def probes() -> dict[str, Probe]:
    wide = torch.cat([numbers(torch.float32, 9, (1020,)), torch.tensor([0.0, 3.5e38, float("inf"), float("nan")])])
    fp8 = torch.cat([wide[:1000], torch.tensor([1.989, 7.85, 447.0, 449.0, 464.1, 9e4, -500.0, 1e-3]), wide[:16] * 9e4])
    integers = torch.arange(-512, 512, dtype=torch.int32) * 97
    everything = {
        name: casts(torch.arange(256, dtype=torch.uint8).view(kind), torch.float32, decoded)
        for name, kind, decoded in (
            ("cast.e4m3_to_fp32", E4M3, torch.arange(256, dtype=torch.uint8).view(E4M3).float()),
            ("cast.e5m2_to_fp32", E5M2, torch.arange(256, dtype=torch.uint8).view(E5M2).float()),
        )
    }
    binary = ("add", "sub", "mul", "neg_abs", "maximum", "minimum", "where")
    for name, dtype in (("bf16", BF16), ("fp16", torch.float16), ("fp32", torch.float32)):
        everything |= {f"{name}.{op}": elementwise(op, dtype) for op in binary}
        everything |= {f"{name}.{op}": along_rows(op, dtype) for op in ("cumsum", "cumsum_reverse", "sort")}
        everything[f"{name}.compare"] = comparisons(dtype)
        everything |= {f"{name}.rows.{op}": reductions(op, dtype) for op in ("sum", "max", "min", "argmax")}
        everything |= {f"{name}.rows.{op}": reductions(op, dtype) for op in ("max_with_index", "generic")}
        everything[f"{name}.dot"] = products(dtype)
    return everything | {
        "bf16.div": elementwise("div", BF16),
        "bf16.fma": elementwise("fma", BF16),
        "bf16.full": elementwise("full", BF16),
        "bf16.cumprod": along_rows("cumprod", BF16),
        "e4m3.add": fp8_sum,
        "e4m3.dot": products(E4M3),
        "e5m2.dot": products(E5M2),
        "cast.fp32_to_bf16": casts(wide, BF16, wide.to(BF16)),
        "cast.fp32_to_bf16_toward_zero": casts(wide[:512], BF16, toward_zero(wide[:512]), "rtz"),
        "cast.fp32_to_fp16": casts(wide, torch.float16, wide.half()),
        "cast.fp16_to_bf16": casts(wide.half(), BF16, wide.half().to(BF16)),
        "cast.bf16_to_fp32": casts(wide.to(BF16), torch.float32, wide.to(BF16).float()),
        "cast.int32_to_bf16": casts(integers, BF16, integers.float().to(BF16)),
        "cast.bf16_to_int32": casts(wide[:512].to(BF16), torch.int32, wide[:512].to(BF16).int()),
        "cast.fp32_to_e4m3": casts(fp8, E4M3, fp8.clamp(-448, 448).to(E4M3)),
        "cast.bf16_to_e4m3": casts(fp8.to(BF16), E4M3, fp8.to(BF16).float().clamp(-448, 448).to(E4M3)),
        "cast.fp32_to_e5m2": casts(fp8, E5M2, fp8.clamp(-57344, 57344).to(E5M2)),
        "cast.e4m3_to_bf16": casts(fp8.clamp(-448, 448).to(E4M3), BF16, fp8.clamp(-448, 448).to(E4M3).to(BF16)),
        "bf16.atomic_add": atomics,
        "autotune": autotuned,
    }


def differing(result: torch.Tensor, expected: torch.Tensor) -> int:
    """Values that differ; two NaNs are the same value."""
    if result.dtype != expected.dtype or result.shape != expected.shape:
        return expected.numel()
    a, b = result.double(), expected.double()
    return int(((a != b) & ~(a.isnan() & b.isnan())).sum())


def main() -> None:
    if "--plain" not in sys.argv:
        numerics.install()
        numerics.install()
    answers: dict[str, Any] = {}
    for name, probe in probes().items():
        try:
            answers[name] = differing(*probe())
        except Exception as problem:  # noqa: BLE001 - the plain interpreter fails in many ways: each is an answer here
            answers[name] = f"{type(problem).__name__}: {problem}"
    print(json.dumps(answers))


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    main()
