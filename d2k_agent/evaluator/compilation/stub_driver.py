"""A Triton driver for a GPU that is not there: it answers as the target would and records launches.

Everything up to the launch is Triton's own: specialisation, heuristics, compilation, the checks of shared and tensor
memory. A launch is refused where the hardware would refuse its grid, and otherwise only written down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from d2k_agent.evaluator.compilation.targets import Target

WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
MAX_GRID = (2**31 - 1, 65535, 65535)

Grid = tuple[int, ...]
RecordLaunch = Callable[[str, Grid], None]
RegistersOf = Callable[[bytes], int | None]
"""Registers of a thread, by the binary; None when the compiler did not say."""


class LaunchRefused(RuntimeError):
    """A grid that no GPU accepts. Raised where the CUDA driver would answer "invalid argument"."""


class StubDriver(DriverBase):  # type: ignore[misc]
    """Stands for one `target`. Calls `record(kernel_hash, grid)` for each launch and executes nothing."""

    def __init__(self, target: Target, record: RecordLaunch, registers_of: RegistersOf) -> None:
        self.target = target
        self.utils = _Utils(target, registers_of)
        self.launcher_cls = _launcher(record)

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", self.target.capability, WARP_SIZE)

    def get_active_torch_device(self) -> Any:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_device_capability(self, _device: Any = None) -> tuple[int, int]:
        return divmod(self.target.capability, 10)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, _device: Any) -> None:
        return None

    def get_current_stream(self, _device: Any = None) -> int:
        return 0

    def map_python_to_cpp_type(self, ty: str) -> Any:
        from triton.backends.nvidia.driver import ty_to_cpp

        return ty_to_cpp(ty)

    def get_benchmarker(self) -> Any:
        return call_once

    def get_empty_cache_for_benchmark(self) -> Any:
        return torch.empty(1, dtype=torch.int)

    def clear_cache(self, _cache: Any) -> None:
        return None

    def allocate_default_profile_scratch(self, *_: Any) -> None:
        return None


def call_once(call: Callable[[], Any], quantiles: Any = None, **_: Any) -> Any:
    """A benchmarker that makes the call and times nothing: every configuration that compiles counts the same."""
    call()
    return [1.0] * len(quantiles) if quantiles else 1.0


def make_active(driver: StubDriver) -> None:
    """Make `driver` Triton's driver for the rest of this process (there may be no other to go back to)."""
    # Kept per device index, so it would outlive a change of target.
    triton.compiler.compiler.max_shared_mem.cache_clear()
    triton.runtime.driver.set_active(driver)


class _Utils:
    """The part of a driver that Triton calls `utils`."""

    def __init__(self, target: Target, registers_of: RegistersOf) -> None:
        self._target = target
        self._registers_of = registers_of

    def get_device_properties(self, _device: Any) -> dict[str, int]:
        return {
            "max_shared_mem": self._target.shared_limit_bytes,
            "max_num_regs": 65536,
            "multiprocessor_count": self._target.multiprocessors,
            "warpSize": WARP_SIZE,
        }

    def load_binary(self, name: str, binary: bytes, _shared: int, _device: Any) -> tuple[str, str, int, int, int]:
        """(module, function, registers, spills, most threads of a block)."""
        return name, name, self._registers_of(binary) or 0, 0, MAX_THREADS_PER_BLOCK

    def unload_module(self, *_: Any) -> None:
        return None

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, _device: Any) -> None:
        return None

    def get_default_stream(self, _device: Any) -> int:
        return 0

    def is_stream_capturing(self, _stream: Any) -> bool:
        return False

    def get_device_capability(self, _device: Any = None) -> tuple[int, int]:
        return divmod(self._target.capability, 10)

    def cuOccupancyMaxActiveClusters(self, *_: Any) -> int:  # noqa: N802 - Triton's name
        return self._target.multiprocessors

    def set_printf_fifo_size(self, _size: int) -> None:
        return None


def _launcher(record: RecordLaunch) -> type:
    class Launcher:
        def __init__(self, _source: Any, metadata: Any) -> None:
            self._hash = str(metadata.hash)

        def __call__(self, grid_x: Any, grid_y: Any, grid_z: Any, *_: Any) -> None:
            grid = (int(grid_x), int(grid_y), int(grid_z))
            if any(size < 0 or size > limit for size, limit in zip(grid, MAX_GRID, strict=True)):
                raise LaunchRefused(f"grid {grid} is outside what a GPU accepts: 0 to {MAX_GRID} in x, y, z")
            record(self._hash, grid)

    return Launcher
