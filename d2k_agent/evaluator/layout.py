"""The fixed layout in which tensors are lent to a candidate and its answers come back: headers and raw bytes.

Nothing that a candidate sends is unpickled or evaluated: an answer is a header of integers, its contents are bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import torch

ALIGNMENT = 256
MAX_DIMENSIONS = 8
_POSITIONS = 64
_TENSOR = struct.Struct(f"<BB{MAX_DIMENSIONS}q")
_ANSWER = struct.Struct("<qqqI?Q64s")

# The codes are the wire format: append, never reorder.
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)


@dataclass(frozen=True)
class TensorHeader:
    """Element type and shape of one tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the contiguous contents."""
        count = 1
        for size in self.shape:
            count *= size
        return count * int(self.dtype.itemsize)

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


@dataclass(frozen=True)
class AnswerHeader:
    """What a candidate claims about one call: outputs, peak bytes of new tensors, bytes copied, nanoseconds it took.

    `foreign` names the first PyTorch operator that was not glue; empty when there was none. `again`: outputs lie in
    memory that an earlier call returned. `written`: positions of arguments that the call may only read and wrote to,
    even if it restored them, as far as its process sees that; below 64.
    """

    outputs: tuple[TensorHeader, ...]
    peak_bytes: int
    copied_bytes: int
    wall_ns: int
    foreign: str = ""
    again: bool = False
    written: tuple[int, ...] = ()


def header_of(tensor: torch.Tensor) -> TensorHeader:
    """The header of a tensor. Raises ValueError for a dtype or rank that the layout does not carry."""
    if tensor.dtype not in DTYPES or tensor.dim() > MAX_DIMENSIONS:
        raise ValueError(f"the layout does not carry {tensor.dtype} of {tensor.dim()} dimensions")
    return TensorHeader(tensor.dtype, tuple(tensor.shape))


def offsets(headers: list[TensorHeader]) -> tuple[list[int], int]:
    """Aligned byte offset of each tensor in one block, and the block's size (at least one alignment unit)."""
    places, end = [], 0
    for header in headers:
        places.append(end)
        end += -(-header.nbytes // ALIGNMENT) * ALIGNMENT
    return places, max(end, ALIGNMENT)


def view(block: torch.Tensor, header: TensorHeader, offset: int) -> torch.Tensor:
    """The tensor that `header` describes at `offset` of a block of bytes (uint8, one dimension); no copy."""
    raw = block[offset : offset + header.nbytes]
    return (
        raw.view(header.dtype).view(header.shape)
        if header.nbytes
        else raw.new_empty(0).view(header.dtype).view(header.shape)
    )


def pack_answer(answer: AnswerHeader) -> bytes:
    """An answer's header as bytes."""
    parts = [
        _ANSWER.pack(
            answer.peak_bytes,
            answer.copied_bytes,
            answer.wall_ns,
            len(answer.outputs),
            answer.again,
            sum(1 << position for position in answer.written if position < _POSITIONS),
            answer.foreign.encode()[:64],
        )
    ]
    for header in answer.outputs:
        padded = header.shape + (0,) * (MAX_DIMENSIONS - len(header.shape))
        parts.append(_TENSOR.pack(DTYPES.index(header.dtype), len(header.shape), *padded))
    return b"".join(parts)


def unpack_answer(data: bytes) -> AnswerHeader:
    """An answer's header from a candidate's bytes. Raises ValueError when they do not have the layout."""
    try:
        peak, copied, wall, count, again, bits, foreign = _ANSWER.unpack_from(data)
        if count > 64 or len(data) != _ANSWER.size + count * _TENSOR.size:
            raise ValueError("an answer of the wrong length")
        outputs = []
        for index in range(count):
            code, rank, *shape = _TENSOR.unpack_from(data, _ANSWER.size + index * _TENSOR.size)
            if code >= len(DTYPES) or rank > MAX_DIMENSIONS or min(shape) < 0:
                raise ValueError("an answer with an unknown dtype or a negative size")
            outputs.append(TensorHeader(DTYPES[code], tuple(shape[:rank])))
    except struct.error as problem:
        raise ValueError(str(problem)) from None
    name = foreign.rstrip(b"\0").decode("ascii", "replace")
    written = tuple(position for position in range(_POSITIONS) if bits >> position & 1)
    return AnswerHeader(tuple(outputs), peak, copied, wall, name, again, written)


def describe_arguments(arguments: list[Any]) -> list[dict[str, Any]]:
    """Arguments of run() as JSON data: a tensor by dtype code, shape and offset in its block, a scalar by value."""
    tensors = [header_of(value) for value in arguments if isinstance(value, torch.Tensor)]
    places = iter(zip(tensors, offsets(tensors)[0], strict=True))
    described: list[dict[str, Any]] = []
    for value in arguments:
        if isinstance(value, torch.Tensor):
            header, offset = next(places)
            described.append({"dtype": DTYPES.index(header.dtype), "shape": list(header.shape), "offset": offset})
        else:
            described.append({"value": value})
    return described


def attach_arguments(block: torch.Tensor, described: list[dict[str, Any]]) -> list[Any]:
    """The arguments of run() over a block of bytes, from describe_arguments()' data."""
    return [
        item["value"]
        if "value" in item
        else view(block, TensorHeader(DTYPES[item["dtype"]], tuple(item["shape"])), item["offset"])
        for item in described
    ]
