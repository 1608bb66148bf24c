"""One call of run() in a candidate's process, and everything that is checked of it: one small unit a check."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from d2k_agent.contract import Check, Limits, VerdictStatus
from d2k_agent.evaluator import layout
from d2k_agent.evaluator.devices import Device, Lent
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.foreign import broken_rule
from d2k_agent.evaluator.process import CandidateProcess, Raised
from d2k_agent.evaluator.task import Expected, LoadedTask

_OUT_OF_ORDER = (
    "the outputs are right only where the GPU is idle before run() and waited for after it: run() begins work on a "
    "stream of its own that the caller's does not wait for; launch on the stream that is current when run() is called"
)
_SAME_MEMORY = (
    "run() returned memory that an earlier call returned: whoever keeps the result of one call finds that of another "
    "in it; return new tensors"
)
_RESTORED = (
    "run() stored to its argument {}, which it may only read (atomics and fills count), and left it as it was: use "
    "memory of your own for what is not a result yet"
)


class Calls:
    """The calls of one process. Every method raises CandidateFault where the process fails.

    `tuning_s` is the time that first calls took. Of `trusted` code only the outputs are checked: what it computes with,
    and in how much memory, is its own affair. On a GPU, outputs must be right for whoever goes on in the order of the
    stream on which run() was called.
    """

    def __init__(
        self, task: LoadedTask, device: Device, process: CandidateProcess, limits: Limits, trusted: bool = False
    ) -> None:
        self._task, self._device, self._process, self._limits = task, device, process, limits
        self._trusted = trusted
        self._in_order = device.times and not trusted
        self.peak_memory_bytes: int | None = None
        self.tuning_s = 0.0

    def attach(self, sets: Sequence[Lent]) -> None:
        """Lend these sets, and only these, from now on."""
        shared, descriptors = [], []
        for lent in sets:
            data, own = lent.share()
            shared.append(data)
            descriptors += own
        self._process.order({"do": "attach", "sets": shared}, descriptors)
        self._process.answer(b"A", self._limits.import_s, "attaching inputs")

    def detach(self, failed: bool) -> None:
        """Take all sets back, since memory that a process has attached must not be freed.

        A process that does not let go, or that has `failed` before, is ended.
        """
        try:
            if not failed:
                self.attach([])
        except CandidateFault:
            failed = True
        if failed:
            self._process.kill()

    def warm_up(self, label: str, lent: Lent) -> None:
        """On a GPU: one call on the first set that nobody looks at, and its state restored.

        Kernels are compiled and tuned in it, with whatever that takes.
        """
        if self._device.times:
            began = time.monotonic()
            self._process.order({"do": "steps", "calls": 1})
            try:
                self._process.answer(b"B", self._first_call_s(), f"the first run() on {label}")
            except Raised as fault:
                self._blame(fault)
                raise
            self.tuning_s += time.monotonic() - began
            lent.restore()
            self._device.settle()

    def _first_call_s(self) -> float:
        """The longest that warm_up() waits."""
        return self._limits.compile_s

    def checked(
        self, label: str, workload: dict[str, Any], lent: Lent, expected: Expected, limit_s: float, index: int = 0
    ) -> list[Check]:
        """One metered call on the set at `index` of those attached: its checks. A failed one may end the list."""
        self._process.order({"do": "call", "set": index, "in_order": self._in_order})
        try:
            answer = self._answer(limit_s, f"run() on {label}")
        except Raised as fault:
            self._blame(fault)
            raise
        self.peak_memory_bytes = max(self.peak_memory_bytes or 0, answer.peak_bytes)
        checks: list[Check] = []
        if not self._trusted:
            if answer.foreign:
                raise broken_rule(answer.foreign)
            checks = self.bounds(workload, answer.peak_bytes, answer.copied_bytes)
            if not all(check.passed for check in checks):
                return checks  # comparing outputs needs memory, which a hog may have taken
        outputs = self._outputs(answer, lent, expected)
        if self._in_order and not all(check.passed for check in outputs) and self._order_decides(lent, expected, index):
            return [*checks, Check("*", "stream_order", None, None, False, _OUT_OF_ORDER)]
        if answer.again and not self._trusted and all(check.passed for check in outputs):
            outputs.append(Check("*", "aliasing", None, None, False, _SAME_MEMORY))
        return [*checks, *self.unchanged(lent, () if self._trusted else answer.written), *outputs]

    def _blame(self, fault: Raised) -> None:
        """Raises the rule that a call broke before it raised, where it broke one."""
        if fault.foreign and not self._trusted:
            raise broken_rule(fault.foreign) from fault

    def _order_decides(self, lent: Lent, expected: Expected, index: int) -> bool:
        """Whether one more call is right on an idle GPU, and another one in the order of the stream is wrong again."""
        right = []
        for in_order in (False, True):
            lent.refresh(lent.arguments)
            self._device.settle()
            self._process.order({"do": "call", "set": index, "in_order": in_order})
            try:
                answer = self._answer(self._limits.gpu_call_s, "run() on the same inputs")
            except CandidateFault:
                return False
            right.append(all(check.passed for check in self._outputs(answer, lent, expected)))
        return right == [True, False]

    def given(self, index: int, lent: Lent, expected: Expected, calls: int, limit_s: float) -> list[Check]:
        """Checks of what `calls` timed calls on a set left: the outputs of the last one, and the state."""
        self._process.order({"do": "give", "set": index})
        return self._outputs(self._answer(limit_s, "handing over the outputs of timed calls"), lent, expected, calls)

    def unchanged(self, lent: Lent, written: Sequence[int] = ()) -> list[Check]:
        """A failed check for each argument that may only be read and was written.

        Of those `written`, as a call told, nobody need see it afterwards.
        """
        changed = lent.changed()
        restored = [position for position in written if position not in changed]
        return [
            Check("*", "mutation", None, None, False, f"run() changed its argument {position}, which it may only read")
            for position in changed
        ] + [Check("*", "mutation", None, None, False, _RESTORED.format(position)) for position in restored]

    def _answer(self, limit_s: float, doing: str) -> layout.AnswerHeader:
        payload = self._process.answer(b"D", limit_s, doing)
        try:
            return layout.unpack_answer(payload)
        except ValueError as problem:
            raise CandidateFault(VerdictStatus.ENDED_EARLY, f"{doing} answered out of protocol: {problem}") from None

    def _outputs(self, answer: layout.AnswerHeader, lent: Lent, expected: Expected, calls: int = 1) -> list[Check]:
        count, wanted = len(answer.outputs), len(expected.outputs)
        if count != wanted:
            message = f"run() returned {count} tensors, {wanted} are expected"
            return [Check("*", "outputs", float(count), float(wanted), False, message)]
        for name, header, right in zip(self._task.output_names, answer.outputs, expected.headers, strict=True):
            if header != right:
                message = f"the output is {header}, expected is {right}"
                return [Check(name, "shape", None, None, False, message)]
        return self._task.compare(lent.arguments, lent.read(answer.outputs), lent.state(), expected, calls)

    def bounds(self, workload: dict[str, Any], peak_bytes: int, copied_bytes: int) -> list[Check]:
        """The checks of what a call held at once, and copied."""
        return [memory_check(self._task, workload, peak_bytes), self._copies(workload, copied_bytes)]

    def _copies(self, workload: dict[str, Any], copied_bytes: int) -> Check:
        budget = self._task.copy_budget_bytes(workload)
        passed = budget is None or copied_bytes <= budget
        message = "" if passed else f"PyTorch copied {copied_bytes} bytes in one call, the task allows {budget} as glue"
        return Check("*", "copies", float(copied_bytes), None if budget is None else float(budget), passed, message)


def memory_check(task: LoadedTask, workload: dict[str, Any], peak_bytes: int) -> Check:
    """The task's bound on the bytes of tensors that were alive at once in a call."""
    cap = task.memory_cap_bytes(workload)
    passed = cap is None or peak_bytes <= cap
    message = "" if passed else f"{peak_bytes} bytes of tensors were alive at once, the task allows {cap}"
    return Check("*", "memory", float(peak_bytes), None if cap is None else float(cap), passed, message)


def lacks_memory(checks: Sequence[Check]) -> bool:
    """True where the bound on memory is what failed."""
    return any(check.gate == "memory" and not check.passed for check in checks)
