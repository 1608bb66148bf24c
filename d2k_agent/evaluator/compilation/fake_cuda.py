"""torch pretending to have the target GPU: properties, streams, and tensors that claim to lie on it.

Two kinds of tensors, both of the CPU and both claiming to be on the GPU. `FakeTensors`: production shapes, no memory,
no values; host code that reads a value raises `ValuesNeeded`. `HostTensors`: real ones, for code that must read values.
"""

from __future__ import annotations

import contextlib
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import torch
from torch._subclasses import fake_tensor
from torch.overrides import TorchFunctionMode

from d2k_agent.evaluator.compilation.targets import Target

_CLAIMED = torch.device("cuda", 0)


class ValuesNeeded(RuntimeError):
    """Host code asked for the value of a tensor that has none."""


class HostTensors(TorchFunctionMode):  # type: ignore[misc]
    """Inside, everything asked for on "cuda" lies in host memory and says that it is on cuda:0.

    Kernels do not run, so what they would write is zero: new uninitialised tensors are zeroed.
    """

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        if func == torch.Tensor.is_cuda.__get__:
            return True
        if func == torch.Tensor.device.__get__:
            return _CLAIMED
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        placed = {name: _on_host(value) for name, value in (kwargs or {}).items()}
        return self._answer(func, [_on_host(value) for value in args], placed)

    def _answer(self, func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if "empty" in getattr(func, "__name__", ""):
            result.zero_()
        return result


class FakeTensors(HostTensors):
    """Inside, tensors have shape, dtype, strides and a stable 256-byte aligned address, and nothing else.

    They are torch's fake tensors of the CPU: those of a GPU reach for the CUDA library in some operations.
    To be made before torch_claims is entered: torch looks at its own modules when the first one is made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._mode = fake_tensor.FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True)
        self._addresses: Any = weakref.WeakKeyDictionary()
        self._next_address = 1 << 40
        self._outside = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._outside.enter_context(self._mode)
        self._outside.enter_context(_replaced(fake_tensor.FakeTensor, {"device": property(_claimed_device)}))
        super().__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        super().__exit__(*problem)
        self._outside.close()

    def _answer(self, func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", str(func))
        if name == "data_ptr":
            return self._address(args[0])
        if name == "numpy":
            raise ValuesNeeded("numpy() reads tensor values on the host")
        try:
            return func(*args, **kwargs)
        except (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException) as problem:
            raise ValuesNeeded(f"torch's {name} reads tensor values on the host") from problem

    def _address(self, tensor: Any) -> int:
        storage = tensor.untyped_storage()
        if storage not in self._addresses:
            self._addresses[storage] = self._next_address
            self._next_address += 1 << 36
        return int(self._addresses[storage] + tensor.storage_offset() * tensor.element_size())


_true_device = fake_tensor.FakeTensor.device.fget


def _claimed_device(tensor: Any) -> Any:
    """The device that a fake tensor names: the truth for torch itself, the GPU for everybody else."""
    asking = str(sys._getframe(1).f_globals.get("__name__", ""))  # noqa: SLF001
    return _true_device(tensor) if asking.partition(".")[0] == "torch" else _CLAIMED


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value):
        return "cpu"
    return value


def needs_values(problem: BaseException | None) -> bool:
    """Whether host code stopped because its tensors hold no values (ValuesNeeded, perhaps inside another exception)."""
    for _ in range(20):
        if problem is None or isinstance(problem, ValuesNeeded):
            return problem is not None
        problem = problem.__cause__ or problem.__context__
    return False


@contextlib.contextmanager
def torch_claims(target: Target) -> Iterator[None]:
    """Inside, torch.cuda answers as on a machine with one `target`; no CUDA call is made."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_replaced(torch.cuda, _cuda_answers(target)))
        stack.enter_context(_replaced(torch, {"Generator": _HostGenerator}))
        yield


@contextlib.contextmanager
def _replaced(module: Any, new: Mapping[str, Any]) -> Iterator[None]:
    old = {name: getattr(module, name) for name in new if hasattr(module, name)}
    for name, value in new.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name in new:
            if name in old:
                setattr(module, name, old[name])
            else:
                delattr(module, name)


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


class _HostGenerator(torch.Generator):  # type: ignore[misc]
    """A generator that may be asked for on "cuda"; it draws on the host."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, "cpu")


class _Event:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    record = wait = synchronize = _nothing

    def query(self) -> bool:
        return True

    def elapsed_time(self, _end: Any) -> float:
        return 1.0


class _Stream:
    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = torch.device("cuda", 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    synchronize = wait_stream = wait_event = _nothing

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        return event or _Event()


def _cuda_answers(target: Target) -> dict[str, Any]:
    """What torch.cuda says, by name."""
    properties = types.SimpleNamespace(
        name=target.product,
        major=target.capability // 10,
        minor=target.capability % 10,
        multi_processor_count=target.multiprocessors,
        total_memory=target.memory_bytes,
        L2_cache_size=target.l2_bytes,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=target.shared_limit_bytes,
        shared_memory_per_multiprocessor=233472,
        is_integrated=False,
    )
    stream = _Stream()
    silent = ("set_device", "synchronize", "empty_cache", "init", "_lazy_init", "manual_seed", "manual_seed_all")
    return {
        **dict.fromkeys((*silent, "seed", "seed_all", "reset_peak_memory_stats", "set_stream"), _nothing),
        **{name: _always(0) for name in ("current_device", "memory_allocated", "max_memory_allocated")},
        **{name: _always(0) for name in ("memory_reserved", "max_memory_reserved")},
        **{name: _always(stream) for name in ("current_stream", "default_stream")},
        **{name: _always(contextlib.nullcontext()) for name in ("stream", "device", "device_of")},
        "is_available": _always(True),
        "is_initialized": _always(True),
        "is_current_stream_capturing": _always(False),
        "device_count": _always(1),
        "get_device_capability": _always(divmod(target.capability, 10)),
        "get_device_properties": _always(properties),
        "get_device_name": _always(target.product),
        "mem_get_info": _always((target.memory_bytes, target.memory_bytes)),
        "Stream": _Stream,
        "Event": _Event,
    }
