"""Makes Triton's CPU interpreter compute bf16 and fp8 as a GPU does, instead of on their raw bit patterns.

Covers, on Triton 3.6 to 3.9: arithmetic, comparisons, selection, fused multiply-add, dot, sum, minimum and maximum
(values and indices), cumulative sum and product, user-defined reductions and scans, constants, casts (rounding to
nearest even or toward zero, e4m3 and e5m2 saturating) and atomic_add of bf16; an autotuner that times nothing; runtime
loop bounds under NumPy 2.4. fp16, fp32, fp64 and integers stay as the interpreter computes them.

Does not cover: inline PTX and external functions (the interpreter has neither), block-scaled dots on Triton 3.6, NaN
padding of a bf16 or fp8 block (reads as zero), and floats that NVIDIA GPUs have no instructions for (e4b15, e4b8,
e5b16).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import autotuner, interpreter

from d2k_agent.evaluator.narrow_floats import KINDS, code_type, narrow, widen

_BITWISE = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift)


def install() -> None:
    """Change the interpreter of this process. Call it with TRITON_INTERPRET=1 in effect, before a kernel runs.

    A second call changes nothing.
    """
    if isinstance(interpreter.interpreter_builder, _ExactBuilder):
        return
    builder = _ExactBuilder()
    interpreter.interpreter_builder = builder
    interpreter.interpreter_semantic.builder = builder
    interpreter.ReduceOps = _ExactReduceOps
    interpreter.ScanOps = _ExactScanOps
    autotuner.Autotuner._bench = _equal_timings
    _accept_one_element_indices()


def _kind(handle: Any) -> str | None:
    name: str = handle.dtype.scalar.name
    return name if name in KINDS else None


def _widened(handle: Any) -> Any:
    kind = _kind(handle)
    if kind is None:
        return handle
    return interpreter.TensorHandle(widen(np.asarray(handle.data), kind), tl.float32)


def _rounded(data: np.ndarray, dtype: Any) -> Any:
    """A handle of `dtype` from float32 results; the results of comparisons become one-bit integers."""
    if data.dtype == np.bool_:
        return interpreter.TensorHandle(data, tl.int1)
    return interpreter.TensorHandle(narrow(data, dtype.scalar.name), dtype.scalar)


class _ExactBuilder(interpreter.InterpreterBuilder):  # type: ignore[misc]  # triton is not typed
    """The interpreter's operations, with narrow operands widened to float32 and narrow results rounded once."""

    def get_bf16(self, value: float) -> Any:
        return interpreter.TensorHandle(narrow(np.array([value], dtype=np.float32), "bf16"), tl.bfloat16)

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        return self._convert(src, dst_type.scalar, toward_zero=False)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        target = dst_type.scalar
        covered = (*KINDS, "fp16", "fp32", "fp64")
        if src.dtype.scalar.name not in covered or target.name not in covered:
            return super().create_fp_to_fp(src, dst_type, rounding_mode)
        return self._convert(src, target, toward_zero=rounding_mode == interpreter._ir.ROUNDING_MODE.RTZ)

    def _convert(self, src: Any, target: Any, toward_zero: bool) -> Any:
        wide = np.asarray(_widened(src).data)
        with np.errstate(over="ignore", invalid="ignore"):
            if target.name in KINDS:
                return interpreter.TensorHandle(narrow(wide, target.name, toward_zero), target)
            data = wide.astype(interpreter._get_np_dtype(target))
            if toward_zero:
                data = np.where(np.abs(data) > np.abs(wide), np.nextafter(data, data.dtype.type(0)), data)
        return interpreter.TensorHandle(data, target)

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        if op in _BITWISE or not (_kind(lhs) or _kind(rhs)):
            return super().binary_op(lhs, rhs, op)
        with np.errstate(all="ignore"):
            return _rounded(op(_widened(lhs).data, _widened(rhs).data), lhs.dtype)

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        # A selection moves bit patterns and needs no arithmetic.
        if op is np.where or _kind(other) is None:
            return super().ternary_op(lhs, rhs, other, op)
        return _rounded(op(_widened(lhs).data, _widened(rhs).data, _widened(other).data), other.dtype)

    def unary_op(self, arg: Any, op: Any) -> Any:
        if _kind(arg) is None:
            return super().unary_op(arg, op)
        return _rounded(op(_widened(arg).data), arg.dtype)

    def create_erf(self, arg: Any) -> Any:
        result = super().create_erf(_widened(arg))
        return _rounded(result.data, arg.dtype) if _kind(arg) else result

    def create_rsqrt(self, arg: Any) -> Any:
        result = super().create_rsqrt(_widened(arg))
        return _rounded(result.data, arg.dtype) if _kind(arg) else result

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        result = super().create_fma(_widened(x), _widened(y), _widened(z))
        return _rounded(result.data, z.dtype) if _kind(z) else result

    def create_dot(self, a: Any, b: Any, d: Any, *precision: Any) -> Any:
        return super().create_dot(_widened(a), _widened(b), d, *precision)

    def create_atomic_rmw(self, rmw_op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        if rmw_op != interpreter._ir.ATOMIC_OP.FADD or _kind(val) is None:
            return super().create_atomic_rmw(rmw_op, ptr, val, mask, sem, scope)
        return interpreter.TensorHandle(_atomic_add(ptr.data, val.data, mask.data, val.dtype.scalar.name), val.dtype)


def _atomic_add(addresses: np.ndarray, codes: np.ndarray, mask: np.ndarray, kind: str) -> np.ndarray:
    """Add one element after the other, since several may name one address; programs of a grid run one by one."""
    before = np.zeros(addresses.shape, dtype=code_type(kind))
    always = np.ones(1, dtype=bool)
    for index in np.argwhere(mask):
        at = tuple(index)
        address = np.array([addresses[at]])
        old = interpreter._interpreter.load(address, always, before[at].reshape(1), before.dtype)
        total = widen(old, kind) + widen(codes[at].reshape(1), kind)
        interpreter._interpreter.store(address, narrow(total, kind), always)
        before[at] = old[0]
    return before


def _widened_input(tensor: Any) -> Any:
    """The tensor with its values in float32 under its own narrow type, so that results are rounded back to it."""
    if isinstance(tensor, tuple):
        return tuple(_widened_input(part) for part in tensor)
    return tl.core.tensor(_widened(tensor.handle), tensor.type) if _kind(tensor.handle) else tensor


def _rounded_result(result: Any, dtype: Any) -> Any:
    if dtype.scalar.name in KINDS and getattr(result, "dtype", None) == np.float32:
        return narrow(np.asarray(result), dtype.scalar.name)
    return result


class _ExactReduceOps(interpreter.ReduceOps):  # type: ignore[misc]  # triton is not typed
    """Reductions that accumulate narrow inputs in float32 and round the result once."""

    def to_tensor(self, ret: Any, dtype: Any) -> Any:
        return super().to_tensor(_rounded_result(ret, dtype), dtype)

    def sum(self, input: Any) -> Any:
        return super().sum(_widened_input(input))

    def min_max(self, input: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        return super().min_max(_widened_input(input), val_reduce_op, idx_reduce_op)


class _ExactScanOps(interpreter.ScanOps):  # type: ignore[misc]  # triton is not typed
    """Scans that accumulate narrow inputs in float32 and round every result once."""

    def to_tensor(self, ret: Any, dtype: Any) -> Any:
        return super().to_tensor(_rounded_result(ret, dtype), dtype)

    def cumsum(self, input: Any) -> Any:
        return super().cumsum(_widened_input(input))

    def cumprod(self, input: Any) -> Any:
        return super().cumprod(_widened_input(input))


def _equal_timings(tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
    """Stands in for the autotuner's benchmark: interpreted kernels have no time, so the first configuration wins."""
    return [1.0, 1.0, 1.0]


def _accept_one_element_indices() -> None:
    """Let a scalar of the interpreter (an array of one element) bound a loop: NumPy 2.4 refuses int() of it."""
    patch_tensor = interpreter._patch_lang_tensor

    def patched(tensor: Any, *scope: Any) -> None:
        patch_tensor(tensor, *scope)
        tensor.__index__ = lambda scalar: int(scalar.handle.data.item())

    interpreter._patch_lang_tensor = patched
