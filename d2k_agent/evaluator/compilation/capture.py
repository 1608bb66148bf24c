"""Runs a candidate against a GPU that is not there and writes down which kernels it launches, and how.

Covers one pass: arguments made, solution.py imported, run() called once for each workload and again a few times, every
kernel request sent to a compile function of the caller's. Does not cover compiling (compiler.py) or judging what was
seen (report.py).
"""

from __future__ import annotations

import importlib.util
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import triton
from triton.runtime.errors import OutOfResources

from d2k_agent.evaluator.compilation.compiler import Request
from d2k_agent.evaluator.compilation.fake_cuda import FakeTensors, HostTensors, torch_claims
from d2k_agent.evaluator.compilation.stub_driver import Grid, RegistersOf, StubDriver, make_active
from d2k_agent.evaluator.compilation.targets import Target
from d2k_agent.evaluator.compilation.tuning import Tuning
from d2k_agent.evaluator.metering import CallMeter
from d2k_agent.evaluator.solution import run_of

Call = tuple[str, Callable[[str], Sequence[Any]]]
"""A workload's label, and what makes the arguments of run() on a device given by name."""

CompileKernel = Callable[[Request], Any]

MODULE_NAME = "solution"
REPEATED_CALLS = 3
"""Further calls at each workload: what a source launches only later is compiled, and judged, like the rest."""


@dataclass
class KernelUse:
    """One kernel variant: what Triton compiled, and how often the first call at each workload launched it with which
    grids: 0 times with those of a later call.
    """

    compiled: Any
    request: Request
    grids: dict[str, Counter[Grid]] = field(default_factory=dict)

    @property
    def launches(self) -> int:
        return sum(sum(grids.values()) for grids in self.grids.values())


@dataclass
class Unfit:
    """A kernel that needs more than the target has: the first variant that did, and every workload that launches one.

    `labels` has None for the import of solution.py.
    """

    request: Request
    problem: OutOfResources
    labels: dict[str | None, None] = field(default_factory=dict)


class Capture:
    """One pass over a candidate. `problem` is what stopped it, None when every workload went through.

    `workloads` are those that did, by label: the most bytes of new tensors alive in the call, with what was kept of the
    import and of the calls before it, as a GPU's allocator counts. With `go_on` a kernel that needs more than the
    target has is left out instead and is in `unfit`, so that the others are seen; a workload that launches one does
    not go through.
    """

    def __init__(
        self, target: Target, compile_kernel: CompileKernel, registers_of: RegistersOf, *, go_on: bool = False
    ) -> None:
        self.uses: dict[str, KernelUse] = {}
        self.workloads: dict[str, int] = {}
        self.label: str | None = None
        """The workload being run; None while solution.py is imported."""
        self.problem: BaseException | None = None
        self.last_request: Request | None = None
        self.unfit: dict[str, Unfit] = {}
        """By the kernel's name."""
        self._go_on = go_on
        self._counts = True
        self._meter = CallMeter()
        self.tuning = Tuning(self._meter.tuning)
        self._target = target
        self._compile_kernel = compile_kernel
        make_active(StubDriver(target, self._record, registers_of))

    def run(self, path: str, calls: Sequence[Call], tensors: FakeTensors | HostTensors) -> None:
        """Go through all `calls` in order, up to the first that fails. What a candidate raises becomes `problem`."""
        original = triton.compiler.compile
        with torch_claims(self._target), tensors, self.tuning.active(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # In a first pass the candidate's code is not there yet. What goes wrong here is raised in any pass.
            arguments = [(label, list(make("cuda"))) for label, make in calls]
            triton.compiler.compile = self._compile
            try:
                with self._meter.call():
                    run = _load(path)
                for label, values in arguments:
                    self.label = label
                    with self._meter.call():
                        run(*values)
                    if not any(label in found.labels for found in self.unfit.values()):
                        self.workloads[label] = self._meter.peak_bytes
                self._counts = False
                for self.label, values in arguments * REPEATED_CALLS:
                    run(*values)
            except (Exception, SystemExit) as problem:  # noqa: BLE001 - it is news for the candidate's author
                self.problem = problem
            finally:
                triton.compiler.compile = original

    def without_kernels(self) -> Capture:
        """This capture less what it saw of kernels (a scout's are not compiled)."""
        self.uses.clear()
        return self

    def _compile(self, source: Any, target: Any = None, options: Any = None, **_: Any) -> Any:
        request = Request(source, target, options, optional=self.tuning.optional)
        self.last_request = request
        try:
            compiled = self._compile_kernel(request)
        except OutOfResources as problem:
            if not self._go_on or self.tuning.current is not None:
                raise
            unfit = self.unfit.setdefault(request.name, Unfit(request, problem))
            # Triton asks once for all workloads that need the same variant; each of them launches it.
            return _SilentKernel(request.key, lambda: unfit.labels.setdefault(self.label))
        self.uses.setdefault(str(compiled.hash), KernelUse(compiled, request))
        return compiled

    def _record(self, kernel_hash: str, grid: Grid) -> None:
        use = self.uses.get(kernel_hash)
        if use is not None and self.tuning.current is None:
            use.grids.setdefault(self.label or "import", Counter())[grid] += self._counts


def try_calls(calls: Sequence[Call], target: Target) -> None:
    """Make the arguments of `calls` once, before a candidate's code is there: what is raised is not its doing."""
    with torch_claims(target), HostTensors(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _, make in calls:
            make("cuda")


class Scout:
    """A compile function that compiles nothing: it collects requests and answers with kernels that do nothing.

    Sees all that can be seen without a compiler, so that the kernels can then be compiled side by side.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Any:
        self.requests.append(request)
        return _SilentKernel(request.key)

    def forget(self) -> None:
        """Take the silent kernels out of Triton's caches: code that solution.py imports is not imported afresh."""
        for request in self.requests:
            request.source.fn.device_caches.clear()


class _SilentKernel:
    function = packed_metadata = None

    def __init__(self, name: str, launched: Callable[[], None] = lambda: None) -> None:
        self.hash = name
        self._launched = launched

    def launch_metadata(self, *_: Any) -> None:
        return None

    def run(self, *_: Any) -> None:
        self._launched()


def _load(path: str) -> Callable[..., Any]:
    """Import the candidate afresh, from its file: Triton reads kernel sources there."""
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as a Python module")
    module: types.ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    spec.loader.exec_module(module)
    return run_of(module)
