"""Where a rank is held up within a call: one access or one launch of it, and what of a store others see until then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
interpreter = pytest.importorskip("triton.runtime.interpreter")

from triton import knobs  # noqa: E402 - triton may be missing
from triton import language as tl  # noqa: E402
from triton._C.libtriton import ir  # noqa: E402

from d2k_agent.evaluator.devices.hold_ups import AccessHoldUps, LaunchHoldUps  # noqa: E402

RELEASE, RELAXED = ir.MEM_SEMANTIC.RELEASE, ir.MEM_SEMANTIC.RELAXED
SYSTEM, GPU = ir.MEM_SYNC_SCOPE.SYSTEM, ir.MEM_SYNC_SCOPE.GPU
SECONDS = 0.5


class Rank:
    """A kernel's ways to memory, of which a part is the own workspace and a part is another rank's."""

    def __init__(self) -> None:
        self.memory = np.zeros(32, np.int32)
        first = int(self.memory.ctypes.data)
        self.hold_ups = AccessHoldUps()
        self.hold_ups.watch(range(first, first + 32), [range(first + 32, first + 64)])

    def _pointer(self, number: int) -> Any:
        address = np.array([self.memory.ctypes.data + 4 * number], np.uint64)
        return interpreter.TensorHandle(address, tl.pointer_type(tl.int32))

    def store(self, number: int) -> None:
        value = interpreter.TensorHandle(np.ones(1, np.int32), tl.int32)
        interpreter.interpreter_builder.create_store(self._pointer(number), value, None, None)

    def load(self, number: int) -> int:
        return int(interpreter.interpreter_builder.create_load(self._pointer(number), None, None, False).data[0])

    def flag(self, order: Any = RELEASE, scope: Any = SYSTEM) -> None:
        """At word 24, in no workspace."""
        value = interpreter.TensorHandle(np.ones(1, np.int32), tl.int32)
        mask = interpreter.TensorHandle(np.ones(1, bool), tl.int1)
        exchange = ir.ATOMIC_OP.XCHG
        interpreter.interpreter_builder.create_atomic_rmw(exchange, self._pointer(24), value, mask, order, scope)

    def launch(self) -> None:
        """What was called before was one launch."""
        interpreter.GridExecutor._restore_args_dev(None, (), (), {}, {})

    def calls(
        self, run: Callable[[], Any], share: float = 0.0, seconds: float = SECONDS, kind: str = "store"
    ) -> list[int]:
        """What lies in memory when run() is over, and the launch is not."""
        with self.hold_ups.within(share, seconds, kind):
            run()
            left = self.memory.tolist()
            self.launch()
        return left


@pytest.mark.parametrize(
    ("orders", "seen"), [([(RELEASE, SYSTEM)], 1), ([(RELAXED, SYSTEM)], 0), ([(RELEASE, GPU)], 0), ([], 0)]
)
def test_a_store_is_seen_from_the_next_release_for_all_gpus_on(orders: list[tuple[Any, Any]], seen: int) -> None:
    rank = Rank()

    def run() -> None:
        rank.store(8)
        for order in orders:
            rank.flag(*order)

    left = rank.calls(run)
    assert left[8] == seen
    assert left[24] == len(orders)
    assert rank.memory[8] == 1, "at the end of its launch at the latest"


def test_a_kernel_finds_what_it_stored_itself() -> None:
    rank = Rank()
    found: list[int] = []
    rank.calls(lambda: (rank.store(8), found.append(rank.load(9)), found.append(rank.load(8))))
    assert found == [0, 1]


def test_a_load_comes_later() -> None:
    rank = Rank()
    began = time.monotonic()
    rank.calls(lambda: rank.load(0), seconds=0.1, kind="load")
    assert time.monotonic() - began >= 0.1


def test_each_launch_is_as_likely_and_then_each_of_its_places() -> None:
    rank = Rank()
    late: list[int] = []

    def launch(*words: int) -> None:
        for word in words:
            rank.store(word)
        late.extend(word for word in words if not rank.memory[word])
        rank.launch()

    def run() -> None:
        launch(0, 8)
        launch(9, 10, 11, 11, 12, 20)  # one is as in a loop that waits, one in no workspace
        launch(1)

    rank.calls(run, seconds=0.0)
    for share, word in ((0.1, 8), (0.3, 8), (0.34, 9), (0.45, 10), (0.66, 12), (0.9, 1)):
        late.clear()
        rank.memory[:] = 0
        rank.calls(run, share, seconds=0.2)
        assert set(late) == {word}


def test_nothing_of_it_is_left_after_a_call() -> None:
    plain = vars(interpreter.InterpreterBuilder)["create_masked_store"]
    rank = Rank()
    with pytest.raises(ZeroDivisionError):
        rank.calls(lambda: 1 // 0)
    builder = type(interpreter.interpreter_builder)
    assert builder.create_masked_store is plain
    rank.store(8)
    assert rank.memory[8] == 1


def test_on_a_gpu_one_launch_begins_later() -> None:
    launched: list[float | str] = []
    hold_ups = LaunchHoldUps(launched.append)

    def call(share: float, seconds: float) -> list[float | str]:
        launched.clear()
        with hold_ups.within(share, seconds, "store"):
            for name in "abcd":
                knobs.runtime.launch_enter_hook(None)
                launched.append(name)
        knobs.runtime.launch_enter_hook(None)
        return launched

    assert call(0.9, 0.002) == [0.002, "a", "b", "c", "d"], "nothing is known before the first call"
    assert call(0.5, 0.002) == ["a", "b", 0.002, "c", "d"]
    assert call(0.99, 0.001) == ["a", "b", "c", 0.001, "d"]
    assert call(0.5, 0.0) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", ["load", "store"])
def test_blocks_by_pointer_and_by_descriptor_are_held_up_like_others(kind: str) -> None:
    rank, builder = Rank(), interpreter.interpreter_builder

    def number(value: int) -> Any:
        return interpreter.TensorHandle(np.array([value], np.int32), tl.int32)

    base = interpreter.TensorHandle(np.array([rank.memory.ctypes.data], np.uint64), tl.pointer_type(tl.int32))
    ones = interpreter.TensorHandle(np.ones(4, np.int32), tl.int32)
    block = interpreter.BlockPointerHandle(base, [number(3)], [number(1)], [number(0)], [4], [0])
    described = interpreter.TensorDescHandle(base, [number(3)], [number(1)], [4], ir.PADDING_OPTION.PAD_ZERO)
    found: list[list[int]] = []

    def by_block() -> None:
        if kind == "store":
            builder.create_tensor_pointer_store(block, ones, [0], None, None)
        found.append(builder.create_tensor_pointer_load(block, [0], None, None, None, False).data.tolist())

    def by_descriptor() -> None:
        if kind == "store":
            builder.create_descriptor_store(described, ones, [number(0)])
        found.append(builder.create_descriptor_load(described, [number(0)], None, None).data.tolist())

    for run in (by_block, by_descriptor):
        rank.calls(run, seconds=0.05, kind=kind)
        rank.memory[:] = 0
    assert [values[:3] for values in found] == [[int(kind == "store")] * 3] * 2, "a process finds what it stored itself"
