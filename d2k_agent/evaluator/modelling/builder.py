"""Triton's interpreter, counting: memory by what it touches, products and arithmetic by their shapes.

Every value knows whether it is real (`absent` says why not), whether it rests on memory (`loaded`) and came through a
pointer or a descriptor, whether the compiler could tell that it is a multiple of 16 (`odd`: it could not), and at which
clock it is there (`ready`). Blocks of floats that are not real
are one number, spread out, so that they cost no arithmetic. What decides a branch or a bound has to be real.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from d2k_agent.evaluator.modelling.counting import Meter, Reduction, Region, sectors_of, stretch_of
from d2k_agent.evaluator.modelling.lazy import NotModelled

H = interpreter.TensorHandle
OTHERS = "what an atomic operation returns depends on the other programs"
_SPECIAL = {np.divide, np.fmod, np.exp, np.exp2, np.log, np.log2, np.sqrt, np.sin, np.cos}
_MOST_DENSE = 1024
"""Blocks of more elements are kept as one number where they are not real."""
_KINDS = {"fp16": "fp16", "bf16": "bf16", "fp64": "fp64", "int8": "int8", "uint8": "int8"}


def install(meter: Meter) -> None:
    """Make the interpreter of this process count into `meter`, over the numerics that are in effect."""
    # A class attribute each: handles that nobody marked are real.
    H.absent, H.loaded, H.pointer_fed, H.odd, H.ready = "", False, False, False, 0.0
    builder = _counting(type(interpreter.interpreter_builder))(meter)
    interpreter.interpreter_builder = builder
    interpreter.interpreter_semantic.builder = builder
    for name in ("ReduceOps", "ScanOps"):
        setattr(interpreter, name, _counting_reduction(getattr(interpreter, name), meter))
    _guard_control(meter)
    _believe_hints()


def _counting(base: Any) -> Any:
    """A subclass of the interpreter's builder that counts. Every operation passes the marks of its operands on."""

    def passing(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = method(self, *args, **kwargs)
            for handle in result if isinstance(result, tuple) else (result,):
                if isinstance(handle, H):
                    _inherit(handle, args)
            return result

        return call

    methods = {name: passing(getattr(_Counting, name, None) or getattr(base, name)) for name in _operations(base)}
    return type("CountingBuilder", (_Counting, base), methods)


def _operations(base: Any) -> list[str]:
    return [name for name in dir(base) if name.startswith("create_") or name in ("cast_impl", "get_all_ones_value")]


def _inherit(result: Any, operands: Any) -> None:
    for operand in _handles(operands):
        if operand.absent and not result.absent:
            result.absent = operand.absent
        result.loaded = result.loaded or operand.loaded
        if operand.pointer_fed:
            result.pointer_fed = True
        if operand.odd:
            result.odd = True
        result.ready = max(result.ready, operand.ready)


def _handles(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, H):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _handles(value)


class _Counting:
    """What counts. Stands before the interpreter's builder in the order of classes."""

    options: Any

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self.meter = meter
        # Half of the time went into checks that integers do not overflow: that is for checks of correctness.
        self.options = dataclasses.replace(self.options, sanitize_overflow=False)

    # Arithmetic

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        return self._counted(super().binary_op, (lhs, rhs), op, special=op in _SPECIAL)  # type: ignore[misc]

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        return self._counted(super().ternary_op, (lhs, rhs, other), op)  # type: ignore[misc]

    def unary_op(self, arg: Any, op: Any) -> Any:
        return self._counted(super().unary_op, (arg,), op, special=op in _SPECIAL)  # type: ignore[misc]

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        return self._counted(super().create_fma, (x, y, z))  # type: ignore[misc]

    def create_erf(self, arg: Any) -> Any:
        return self._counted(super().create_erf, (arg,), special=True)  # type: ignore[misc]

    def create_rsqrt(self, arg: Any) -> Any:
        return self._counted(super().create_rsqrt, (arg,), special=True)  # type: ignore[misc]

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        return _spread(super().cast_impl, (src,), dst_type)  # type: ignore[misc]

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        return _spread(super().create_fp_to_fp, (src,), dst_type, rounding_mode)  # type: ignore[misc]

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, *rest: Any) -> Any:
        *batch, rows, depth = a.data.shape
        flops = 2.0 * rows * depth * b.data.shape[-1] * int(np.prod(batch, dtype=np.int64))
        self.meter.product(_product_kind(a, input_precision), flops, a.pointer_fed or b.pointer_fed)
        if a.absent or b.absent or d.absent:
            return H(np.broadcast_to(np.zeros((1,) * d.data.ndim, d.data.dtype), d.data.shape), d.dtype.scalar)
        return super().create_dot(a, b, d, input_precision, *rest)  # type: ignore[misc]

    def create_histogram(self, data: Any, bins: Any, mask: Any) -> Any:
        result = super().create_histogram(data, bins, mask)  # type: ignore[misc]
        result.ready = self.meter.integers(data.data.size, data.ready)
        return result

    def _counted(
        self, operation: Callable[..., Any], handles: tuple[Any, ...], *rest: Any, special: bool = False
    ) -> Any:
        """The result of an operation on each element of blocks, which counts where it rests on memory or is of floats.

        What is computed of places alone is left out: the compiler simplifies it, and takes it out of loops.
        """
        result = _spread(operation, handles, *rest)
        size, ready = max(handle.data.size for handle in handles), max(handle.ready for handle in handles)
        loaded = any(handle.loaded for handle in handles)
        if handles[-1].dtype.scalar.is_floating() and (loaded or size > 1):
            result.ready = self.meter.floats(size, ready, special)
        elif loaded:
            result.ready = self.meter.integers(size, ready)
        return result

    # Memory

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *rest: Any, **more: Any) -> Any:
        mask = _handled(mask)
        region, why, ready = self._accessed(ptrs, mask, None)
        dtype = ptrs.get_element_ty()
        if why:
            kind = interpreter._get_np_dtype(dtype)  # noqa: SLF001
            zeros = np.broadcast_to(np.zeros((1,) * ptrs.data.ndim, kind), ptrs.data.shape)
            result = H(zeros, dtype)
        else:
            result = super().create_masked_load(ptrs, mask, other, *rest, **more)  # type: ignore[misc]
        result.absent = why or (region.absent if region else "")
        result.loaded, result.pointer_fed, result.ready = True, True, ready
        return result

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        mask = _handled(mask)
        region, why, _ = self._accessed(ptrs, mask, value)
        if region is not None:
            region.stored = True
            region.absent = region.absent or value.absent
        if why:
            return None
        dense = H(np.ascontiguousarray(value.data), value.dtype)
        return super().create_masked_store(ptrs, dense, mask, *rest)  # type: ignore[misc]

    def create_atomic_rmw(self, rmw_op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        return self._atomic(ptr, mask, val, lambda: super(_Counting, self).create_atomic_rmw(  # type: ignore[misc]
            rmw_op, ptr, val, mask, *rest))  # fmt: skip

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, *rest: Any) -> Any:
        mask = H(np.ones_like(ptr.data, dtype=bool), tl.int1)
        return self._atomic(ptr, mask, val, lambda: super(_Counting, self).create_atomic_cas(  # type: ignore[misc]
            ptr, cmp, val, *rest))  # fmt: skip

    def _atomic(self, ptr: Any, mask: Any, val: Any, carry_out: Callable[[], Any]) -> Any:
        region, why, ready = self._accessed(ptr, mask, val)
        self.meter.tally.atomics += self.meter.weight * int(np.count_nonzero(mask.data))
        if region is not None:
            region.stored = True
        result = H(np.zeros_like(val.data), val.dtype.scalar) if why else carry_out()
        result.absent, result.loaded, result.ready = OTHERS, True, ready
        return result

    def create_descriptor_load(self, desc: Any, indices: Any, *rest: Any, **more: Any) -> Any:
        region, inside, ready = self._described(desc, indices, None)
        if region is None or region.lazy or region.absent or not inside or any(item.absent for item in indices):
            kind = interpreter._get_np_dtype(desc.base.dtype.element_ty)  # noqa: SLF001
            zeros = np.broadcast_to(np.zeros((1,) * desc.ndim, kind), desc.block_shape)
            result = H(zeros, desc.base.dtype.element_ty)
            result.absent = region.absent if region and region.absent else "what a descriptor reads is not there"
        else:
            with self.meter.paused():
                result = super().create_descriptor_load(desc, indices, *rest, **more)  # type: ignore[misc]
        result.loaded, result.pointer_fed, result.ready = True, False, ready
        return result

    def create_descriptor_store(self, desc: Any, value: Any, indices: Any) -> None:
        region, inside, _ = self._described(desc, indices, value)
        if region is not None and inside:
            region.stored = True
            region.absent = region.absent or value.absent
            if not (region.lazy or any(item.absent for item in indices)):
                with self.meter.paused():
                    super().create_descriptor_store(desc, value, indices)  # type: ignore[misc]

    def create_descriptor_reduce(self, _kind: Any, desc: Any, value: Any, indices: Any) -> None:
        """The interpreter has none: counted, and not carried out."""
        region, inside, _ = self._described(desc, indices, value)
        self.meter.tally.atomics += self.meter.weight * inside
        if region is not None and inside:
            region.stored = True
            region.absent = region.absent or "sums through a descriptor are not carried out"

    def _accessed(self, ptrs: Any, mask: Any, value: Any) -> tuple[Region | None, str, float]:
        """Count an access through pointers; `value` is stored, None for a load. The region, why it cannot be carried
        out (empty: it can), and when it is there."""
        ready = max(ptrs.ready, mask.ready, value.ready if value else 0.0)
        active = ptrs.data if mask.data.all() else ptrs.data[np.broadcast_to(mask.data, ptrs.data.shape)]
        if not active.size:
            return None, "", ready
        itemsize = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
        region = self.meter.regions.of(int(active.reshape(-1)[0]))
        name = region.name if region else "?"
        if self.meter.weight:
            single = bool(ptrs.data.size > 1 and (ptrs.odd or mask.odd) and itemsize < 4)
            store = value is not None
            moved = sectors_of(active, itemsize), stretch_of(active, itemsize)
            ready = self.meter.access(name, active.size, itemsize, *moved, ready, store=store, single=single)
        if ptrs.absent or mask.absent:
            self.meter.notes["addresses or masks rest on values that are not real here"] = None
        if region is None:
            return None, "an address is in no tensor that the launch was given", ready
        if region.lazy:
            return region, region.absent, ready
        lowest, highest = int(active.min()), int(active.max())
        if ptrs.absent or mask.absent or not region.holds(lowest, highest + itemsize - 1):
            return region, ptrs.absent or mask.absent or "an address lies outside of its tensor", ready
        return region, "", ready

    def _described(self, desc: Any, indices: Any, value: Any) -> tuple[Region | None, int, float]:
        """Count an access through a descriptor: the part of the block that is inside. Its elements, and when it is
        there."""
        element = desc.base.dtype.element_ty
        itemsize = element.primitive_bitwidth // 8
        first = last = int(desc.base.data.item())
        extents = []
        for index, size, block, stride in zip(indices, desc.shape, desc.block_shape, desc.strides, strict=True):
            begin, end = int(index.data.item()), int(index.data.item()) + int(block)
            extents.append(max(0, min(end, int(size.data.item())) - max(begin, 0)))
            step = int(stride.data.item()) * itemsize
            first, last = first + max(begin, 0) * step, last + (max(begin, 0) + extents[-1] - 1) * step
        elements = int(np.prod(extents, dtype=np.int64))
        region = self.meter.regions.of(int(desc.base.data.item()))
        ready = max(item.ready for item in (*indices, *([value] if value else [])))
        if not elements:
            return region, 0, ready
        sectors = elements // extents[-1] * -(-extents[-1] * itemsize // 32)
        name = region.name if region else "?"
        moved, store = (sectors, (first, last + itemsize - 1)), value is not None
        ready = self.meter.access(name, elements, itemsize, *moved, ready, store=store, single=False)
        return region, elements, ready


def _spread(operation: Callable[..., Any], handles: tuple[Any, ...], *rest: Any) -> Any:
    """The result of an elementwise operation; of blocks of floats that are not real, computed once and spread out."""
    largest = max(handles, key=lambda handle: handle.data.size)
    shape = largest.data.shape
    absent = any(handle.absent for handle in handles)
    if not absent or largest.data.size <= _MOST_DENSE or not largest.dtype.scalar.is_floating():
        return operation(*handles, *rest)
    with np.errstate(all="ignore"):
        result = operation(*(_corner(handle) for handle in handles), *rest)
    return H(np.broadcast_to(result.data, shape), result.dtype)


def _handled(mask: Any) -> Any:
    """A mask as a handle: the interpreter has bare arrays for those of blocks."""
    return H(mask, tl.int1) if isinstance(mask, np.ndarray) else mask


def _corner(handle: Any) -> Any:
    return H(np.ascontiguousarray(handle.data[(slice(0, 1),) * handle.data.ndim]), handle.dtype)


def _product_kind(operand: Any, input_precision: Any) -> str:
    scalar = operand.dtype.scalar
    if scalar.name == "fp32":
        precise = str(getattr(input_precision, "name", input_precision)).lower()
        return {"ieee": "fp32", "tf32x3": "tf32x3"}.get(precise, "tf32")
    return "fp8" if scalar.name.startswith("fp8") else _KINDS.get(scalar.name, str(scalar.name))


def _counting_reduction(base: Any, meter: Meter) -> Any:
    """Reductions and scans: an operation an element, and values that cross threads.

    Of floats that are not real, one number is spread out.
    """

    class Counting(base):  # type: ignore[misc]
        def apply(self, input: Any) -> Any:  # noqa: A002 - the interpreter's name
            if not isinstance(input, tuple):
                return self.apply((input,))[0]
            handles = [item.handle for item in input]
            shape = handles[0].data.shape
            ready = _reduced(meter, handles, self.axis)
            absent = next((handle.absent for handle in handles if handle.absent), "")
            if not absent or handles[0].data.size <= _MOST_DENSE:
                results = super().apply(input)
            else:
                small = tuple(
                    tl.core.tensor(_corner(item.handle), tl.block_type(item.dtype, [1] * len(shape))) for item in input
                )
                results = tuple(self._over(result, shape) for result in super().apply(small))
            for result in results:
                _inherit(result.handle, handles)
                result.handle.ready = max(result.handle.ready, ready)
            return results

        def _over(self, result: Any, shape: tuple[int, ...]) -> Any:
            keeps = getattr(self, "keep_dims", True)
            if hasattr(self, "keep_dims"):
                axes = range(len(shape)) if self.axis is None else [self.axis % len(shape)]
                kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
                shape = tuple(kept if keeps else [size for axis, size in enumerate(kept) if axis not in axes])
            if not shape:
                return result
            data = np.broadcast_to(result.handle.data.reshape((1,) * len(shape)), shape)
            return tl.core.tensor(H(data, result.handle.dtype), tl.block_type(result.dtype, list(shape)))

    return Counting


def _reduced(meter: Meter, handles: list[Any], axis: int | None) -> float:
    """When the results of a reduction or scan of these are there."""
    first, ready = handles[0], max(float(handle.ready) for handle in handles)
    floats = any(handle.dtype.scalar.is_floating() for handle in handles)
    if first.data.size < 2 or not (floats or any(handle.loaded for handle in handles)):
        return ready
    results = first.data.size // first.data.shape[axis] if axis is not None else 1
    at_once = len(handles) == 1 and first.dtype.scalar.name in ("int32", "uint32")
    return meter.reduction(Reduction(first.data.size, results, len(handles), floats, at_once), ready)


def _guard_control(meter: Meter) -> None:
    """A branch, or the bound of a loop, waits for its value, and ends the launch where that is not real."""
    patch_tensor = interpreter._patch_lang_tensor  # noqa: SLF001

    def real(scalar: Any, what: str) -> Any:
        if scalar.handle.absent:
            raise NotModelled(f"{what} of the kernel depends on contents that are not there ({scalar.handle.absent})")
        meter.wait(scalar.handle.ready)
        return scalar.handle.data

    def as_bool(tensor: Any) -> bool:
        return bool(real(tensor, "a branch")) if tensor.handle.data.size == 1 else True

    def patched(tensor: Any, *scope: Any) -> None:
        patch_tensor(tensor, *scope)
        tensor.__index__ = lambda scalar: int(real(scalar, "the bound of a loop").item())
        tensor.__bool__ = as_bool

    interpreter._patch_lang_tensor = patched  # noqa: SLF001


def _believe_hints() -> None:
    """tl.multiple_of(value, 16) tells the compiler what it could not know."""
    plain = H.set_attr

    def set_attr(handle: Any, key: str, value: Any) -> None:
        plain(handle, key, value)
        if key == "tt.divisibility" and all(int(item) % 16 == 0 for item in value):
            handle.odd = False

    H.set_attr = set_attr


@contextlib.contextmanager
def marked_regions(meter: Meter, regions: Any) -> Iterator[None]:
    """Inside, addresses are looked up in `regions`."""
    before, meter.regions = meter.regions, regions
    try:
        yield
    finally:
        meter.regions = before
