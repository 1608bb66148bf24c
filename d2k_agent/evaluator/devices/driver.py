"""The few calls of the CUDA driver that PyTorch does not offer: blocks of their own, lent to another process.

PyTorch's own sharing maps a whole segment of its allocator, neighbours included, and keeps counts in /dev/shm. A block
from cuMemAlloc is shared alone. Calls act on the current context, which PyTorch has made by then.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

HANDLE_BYTES = 64
_OUT_OF_MEMORY = 2
_LAZY_PEER_ACCESS = 1


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


class DriverError(RuntimeError):
    """A call of the CUDA driver failed."""


@functools.cache
def _library() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> None:
    """Call a driver function. Raises torch.OutOfMemoryError, or DriverError that names the call and the error."""
    code = getattr(_library(), name)(*arguments)
    if code == 0:
        return
    text = ctypes.c_char_p()
    _library().cuGetErrorName(code, ctypes.byref(text))
    told = (text.value or b"unknown error").decode("ascii", "replace")
    if code == _OUT_OF_MEMORY:
        raise torch.OutOfMemoryError(f"{name}: the GPU's memory is full ({told})")
    raise DriverError(f"{name} failed with {told} ({code})")


def allocate(size: int) -> int:
    """The address of a new block of `size` bytes. Raises torch.OutOfMemoryError."""
    pointer = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
    return int(pointer.value)


def release(pointer: int) -> None:
    """Give a block back."""
    call("cuMemFree_v2", ctypes.c_uint64(pointer))


def handle_of(pointer: int) -> bytes:
    """The handle under which another process of this user attaches the block."""
    handle = IpcHandle()
    call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(pointer))
    return bytes(handle)


def attach(handle: bytes) -> int:
    """The address in this process of a block that another one lends. Raises DriverError."""
    pointer = ctypes.c_uint64()
    call(
        "cuIpcOpenMemHandle_v2",
        ctypes.byref(pointer),
        IpcHandle.from_buffer_copy(handle),
        ctypes.c_uint(_LAZY_PEER_ACCESS),
    )
    return int(pointer.value)


def detach(pointer: int) -> None:
    """End attach()."""
    call("cuIpcCloseMemHandle", ctypes.c_uint64(pointer))


def copy(into: int, source: int, size: int) -> None:
    """Copy bytes between addresses on any GPU that this process reaches; returns when they are there."""
    call("cuMemcpy", ctypes.c_uint64(into), ctypes.c_uint64(source), ctypes.c_size_t(size))
    call("cuCtxSynchronize")


class _Span:
    """Bytes at an address, in the form in which PyTorch takes foreign memory."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


def as_tensor(pointer: int, size: int) -> torch.Tensor:
    """`size` bytes at `pointer` as a uint8 tensor on the current GPU; no copy, and it does not own them."""
    return torch.as_tensor(_Span(pointer, size), device="cuda")
