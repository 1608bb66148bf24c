"""What a candidate's process needs of the device it runs on. Holds no evidence: the process may be hostile."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Protocol

import torch

from d2k_agent.evaluator.attached import AttachedSet
from d2k_agent.evaluator.devices import driver
from d2k_agent.evaluator.devices.hold_ups import AccessHoldUps, HoldUps, LaunchHoldUps
from d2k_agent.evaluator.devices.nodes import graph_to_read, kernel_nodes
from d2k_agent.evaluator.devices.reach import Reach
from d2k_agent.evaluator.metering import CallMeter, unmetered

_FILLING = "warn"
"""The mode in which new memory is filled. torch.use_deterministic_algorithms would set it as well, and import its
compiler first: more than a second in every process."""
_CYCLES_A_S = 1.5e9
"""About: a GPU's clock moves."""
_LATE_S = 0.01
"""Long enough for run() to launch all that it launches."""
_TAKEN_AWAY = 0xFF
"""NaN in floating-point formats."""
_ROUNDING = 512
"""Bytes: PyTorch's allocator rounds what a tensor asks for up to a multiple."""


def asked_bytes(statistics: Mapping[str, int]) -> int:
    """The most bytes that tensors asked for at once, by `torch.cuda.memory_stats()` since its peaks were reset.

    Without the rounding: of small tensors it is more than they ask for, and more than a small shape's bound allows.
    What a block has beyond the rounding counts.
    """
    beyond = statistics["allocated_bytes.all.peak"] - _ROUNDING * statistics["allocation.all.peak"]
    return max(statistics.get("requested_bytes.all.peak", 0), beyond)


class Mark(Protocol):
    """A moment in the device's own order of work."""

    def synchronize(self) -> None:
        """Return when the work before it is done."""


class Inside(Protocol):
    """One device, seen from inside."""

    hold_ups: HoldUps
    """The places at which a rank among others may be held up."""
    reach: Reach
    """What kernels touched beyond what they may; nothing where the device does not look."""

    def start(self) -> None:
        """Make the device ready, once, after confinement."""

    def open_block(self, shared: dict[str, Any], descriptors: Iterator[int]) -> torch.Tensor:
        """A block that the supervisor lends (Block.share), as bytes."""

    def open_peer(self, shared: dict[str, Any], descriptors: Iterator[int]) -> int:
        """The address of a block in the place of another rank, for kernels."""

    def read_peer(self, address: int, into: torch.Tensor) -> None:
        """Copy what lies at an address of open_peer(), at once."""

    def resident_programs(self) -> int:
        """Programs of a kernel that are sure to run at the same time."""

    def coming_late(self, block: torch.Tensor) -> Any:
        """A context at whose beginning a block's contents are taken away, to be written again in the order of the
        current stream and some milliseconds later: only work that waits for that stream finds them there.
        """

    def lend(self, sets: Sequence[AttachedSet]) -> None:
        """The sets that calls are made on, over blocks opened before: what kernels may touch of them."""

    def close_blocks(self) -> None:
        """Let go of every block opened so far."""

    def synchronize(self) -> None:
        """Return when all work that was begun is done."""

    def mark(self) -> Any:
        """A Mark behind the work that was begun so far."""

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two marks, once the work before the second is done."""

    def importing(self) -> Any:
        """A context in which to import solution.py: what it keeps of it counts in every call."""

    def metered(self) -> Any:
        """A context that yields a CallMeter; afterwards its counts hold for the calls made within."""

    def observe(self, call: Callable[[], Any]) -> dict[str, int] | None:
        """Make a call: its launches by kernel, None where they cannot be read."""


class InsideCpu:
    """The interpreter on the processor. Its runs are slow, so there is nothing to be gained from leaving checks out."""

    def __init__(self) -> None:
        self._meter = CallMeter()
        self._blocks: list[torch.Tensor] = []
        self.hold_ups: HoldUps = AccessHoldUps()
        self.reach = Reach()

    def start(self) -> None:
        """New memory is filled with NaN: a result that was never written cannot look like one. And kernels, which run
        in this process, touch tensors only.
        """
        torch.set_deterministic_debug_mode(_FILLING)
        torch.set_num_threads(1)
        self.reach.watch()
        gc.freeze()  # PyTorch and Triton stay: a meter that collects garbage need not look at them

    def open_block(self, shared: dict[str, Any], descriptors: Iterator[int]) -> torch.Tensor:
        """Map the next descriptor."""
        self._blocks.append(torch.frombuffer(map_descriptor(next(descriptors)), dtype=torch.uint8))
        return self._blocks[-1]

    def open_peer(self, shared: dict[str, Any], descriptors: Iterator[int]) -> int:
        """Map the next descriptor."""
        return int(self.open_block(shared, descriptors).data_ptr())

    def read_peer(self, address: int, into: torch.Tensor) -> None:
        """By the processor."""
        ctypes.memmove(into.data_ptr(), address, into.nbytes)

    def resident_programs(self) -> int:
        """One: the interpreter runs one after the other."""
        return 1

    def coming_late(self, block: torch.Tensor) -> Any:
        """Nothing: a processor does one thing after the other."""
        return nullcontext()

    def lend(self, sets: Sequence[AttachedSet]) -> None:
        """Workspaces and signal pads of all ranks are lent as a whole."""
        self.reach.lend(sets, self._blocks)

    def close_blocks(self) -> None:
        """Mappings go with their tensors."""
        self._blocks.clear()
        self.reach.lend([], [])

    def synchronize(self) -> None:
        """A processor is always done."""

    def mark(self) -> Any:
        """The time."""
        return _Moment()

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """By the processor's clock."""
        return float(end.ns - start.ns) / 1e6

    def importing(self) -> Any:
        """The meter counts, as in a call."""
        return self._meter.call()

    def metered(self) -> Any:
        """The one meter of the process, which knows what earlier calls left."""
        return self._meter.call()

    def observe(self, call: Callable[[], Any]) -> dict[str, int] | None:
        """None: kernels are interpreted here, and launch nothing."""
        call()
        return None


class InsideCuda:
    """The GPU of that number, of those visible. Timed calls run as a user would run them; metered ones fill new memory
    with NaN, as on the processor.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._attached: list[int] = []
        self.hold_ups: HoldUps = LaunchHoldUps(self._delay)
        self.reach = Reach()

    def start(self) -> None:
        """Make the context: attaching a block does not do so by itself."""
        torch.cuda.set_device(self._number)
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()

    def open_block(self, shared: dict[str, Any], descriptors: Iterator[int]) -> torch.Tensor:
        """Attach the block behind a handle."""
        pointer = driver.attach(bytes.fromhex(shared["handle"]))
        self._attached.append(pointer)
        return driver.as_tensor(pointer, int(shared["bytes"]))

    def open_peer(self, shared: dict[str, Any], descriptors: Iterator[int]) -> int:
        """Attach the block behind a handle: the driver lets this GPU reach another one's memory with it."""
        self._attached.append(driver.attach(bytes.fromhex(shared["handle"])))
        return self._attached[-1]

    def read_peer(self, address: int, into: torch.Tensor) -> None:
        """By the driver, over the link where there is one."""
        driver.copy(into.data_ptr(), address, into.nbytes)

    def resident_programs(self) -> int:
        """One a multiprocessor."""
        return int(torch.cuda.get_device_properties(self._number).multi_processor_count)

    def _delay(self, seconds: float) -> None:
        """A kernel that only waits, on the current stream, before what is launched next."""
        torch.cuda._sleep(int(seconds * _CYCLES_A_S))  # noqa: SLF001 - PyTorch's own tests have no other such kernel

    @contextmanager
    def coming_late(self, block: torch.Tensor) -> Iterator[None]:
        """They wait in memory that PyTorch does not count. Where none is left, they do not come late."""
        try:
            pointer = driver.allocate(block.nbytes)
        except torch.OutOfMemoryError:
            yield
            return
        try:
            with unmetered():
                kept = driver.as_tensor(pointer, block.nbytes)
                kept.copy_(block)
                block.fill_(_TAKEN_AWAY)
                self.synchronize()
                self._delay(_LATE_S)
                block.copy_(kept)
            yield
        finally:
            with suppress(driver.DriverError):  # of a GPU's fault, which whoever waited for the work was told
                driver.release(pointer)

    def lend(self, sets: Sequence[AttachedSet]) -> None:
        """Nothing: the driver ends a kernel that touches what is not mapped."""

    def close_blocks(self) -> None:
        """Detach all blocks, and give cached memory back, which the supervisor or a baseline may need."""
        torch.cuda.synchronize()
        while self._attached:
            driver.detach(self._attached.pop())
        torch.cuda.empty_cache()

    def synchronize(self) -> None:
        """Wait for every stream of the GPU."""
        torch.cuda.synchronize()

    def mark(self) -> Any:
        """An event on the current stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """By the GPU's clock."""
        return float(start.elapsed_time(end))

    def importing(self) -> Any:
        """Nothing more: the allocator counts from the start."""
        return nullcontext()

    @contextmanager
    def metered(self) -> Iterator[CallMeter]:
        """The meter, with the allocator's own peak where that is higher."""
        torch.set_deterministic_debug_mode(_FILLING)
        torch.cuda.reset_peak_memory_stats()
        meter = CallMeter()
        try:
            with meter:
                yield meter
        finally:
            torch.set_deterministic_debug_mode("default")
        # All that PyTorch holds here is the candidate's, from import on: the inputs are the supervisor's.
        meter.peak_bytes = max(meter.peak_bytes, asked_bytes(torch.cuda.memory_stats()))

    def observe(self, call: Callable[[], Any]) -> dict[str, int] | None:
        """Its kernels: what operators launch is among them. They are captured, and do not run."""
        graph = graph_to_read()
        try:
            with torch.cuda.graph(graph):
                call()
            return dict(Counter(node.name for node in kernel_nodes(graph)))
        except Exception:  # noqa: BLE001 - honest calls may wait for the GPU, or need more memory than is left
            return None


class _Moment:
    def __init__(self) -> None:
        self.ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """What a processor was told to do is done."""


def inside(name: str, gpu: int = 0) -> Inside:
    """The device of that name (cpu or cuda); which GPU, of those visible."""
    return InsideCuda(gpu) if name == "cuda" else InsideCpu()


def map_descriptor(descriptor: int) -> mmap.mmap:
    """A shared memory block; the descriptor is closed."""
    block = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
    os.close(descriptor)
    return block
