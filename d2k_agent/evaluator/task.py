"""A task inside the evaluator: its reference, generator, hidden variations and gates, from the text in the job."""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
import tomllib
import traceback
import types
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from d2k_agent.contract import Check, TaskBundle
from d2k_agent.evaluator import layout
from d2k_agent.evaluator.alarm import Alarm
from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.gates import Answer, compare
from d2k_agent.evaluator.rules.policy import policy_of
from d2k_agent.evaluator.state import Mutated, mutated_of
from d2k_agent.evaluator.task_format import check_gates, check_labels, check_precision, check_variations, entries
from d2k_agent.evaluator.timing.policy import TimingPolicy, policies_of

MOST_REFERENCE_S = 300.0
"""For one call of the reference."""
_WITH_NAN = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class _Endless(BaseException):
    """The reference used up its time."""


def _in_time() -> AbstractContextManager[None]:
    """A context for one call of the reference. Those of several ranks have threads, where no alarm rings."""
    in_main = threading.current_thread() is threading.main_thread()
    return Alarm(MOST_REFERENCE_S, _Endless) if in_main else nullcontext()


@dataclass(frozen=True)
class Expected:
    """What the reference gave: the outputs that run() returns, and what the mutated arguments hold after one call."""

    outputs: list[torch.Tensor]
    state: list[torch.Tensor]

    @property
    def headers(self) -> list[layout.TensorHeader]:
        """Of the outputs."""
        return [layout.header_of(tensor) for tensor in self.outputs]


class LoadedTask:
    """The task's own code and data, trusted, in the supervisor only.

    Every method, and making one, raises TaskFault where a file of the task is broken, and MemoryError where the task's
    code needs more memory than the machine has.
    """

    def __init__(self, bundle: TaskBundle) -> None:
        self.slug = bundle.slug
        self.ranks = 1
        self.digest = bundle.digest
        self.config = _json(bundle, bundle.public, "config.json")
        self.hidden = _json(bundle, bundle.hidden, "workloads.json")
        self.rules = _rules(bundle)
        self.headers: dict[str, list[layout.TensorHeader]] = {}
        """The outputs of workloads by label, as far as a reference has made them."""
        self._reference = _module(bundle, bundle.public, "reference.py", ("run",))
        self._generator = _module(bundle, bundle.public, "get_inputs.py", ("get_inputs",))
        self._checks = _module(bundle, bundle.hidden, "check.py", ())
        public, hidden = f"task {self.slug}: config.json", f"task {self.slug}: hidden/workloads.json"
        self.registered: list[dict[str, Any]] = entries(public, self.config, "workloads", dict)
        self.smoke: list[dict[str, Any]] = entries(hidden, self.hidden, "smoke", dict, 1)
        self.variations: list[dict[str, Any]] = entries(hidden, self.hidden, "variations", dict)
        self.output_names: list[str] = entries(hidden, self.hidden, "outputs", str, 1)
        self.mutated: list[Mutated] = mutated_of(
            hidden,
            entries(hidden, self.hidden, "mutated_inputs", dict),
            list(inspect.signature(self._reference.run).parameters),
        )
        self.gates: list[dict[str, Any]] = entries(hidden, self.hidden, "gates", dict, 1)
        self._reported: list[dict[str, Any]] = entries(hidden, self.hidden, "reported", dict)
        self.repeat_calls = self.hidden.get("repeat_calls", 12)
        if not isinstance(self.repeat_calls, int) or self.repeat_calls < 1:
            raise TaskFault(f"{hidden}: repeat_calls must be a whole number of at least 1")
        check_gates(
            hidden,
            [*self.gates, *self._reported],
            self.output_names,
            [item.name for item in self.mutated],
            vars(self._checks),
        )
        check_variations(hidden, self.variations, vars(self._checks))
        check_precision(hidden, self.hidden)
        varied = [variation["workload"] for variation in self.variations]
        check_labels(hidden, [*self.registered, *self.smoke, *varied])
        try:
            self._timing = policies_of(self.hidden, [workload["label"] for workload in self.registered])
        except ValueError as problem:
            raise TaskFault(f"{hidden}: {problem}") from None

    def timing(self, label: str) -> TimingPolicy:
        """How a workload is timed."""
        return self._timing.get(label, self._timing[""])

    def arguments(self, workload: dict[str, Any], seed: str, device: str = "cpu") -> list[Any]:
        """Fresh arguments of run() for a workload; the contents follow from `seed` alone."""
        config = {**workload, "seed": number(seed), "device": device}
        return self._arguments("get_inputs.py", self._call("get_inputs.py", self._generator.get_inputs, config))

    def vary(self, name: str, arguments: Sequence[Any], seed: str) -> list[Any]:
        """The arguments of a hidden variation."""
        generator = torch.Generator().manual_seed(number(seed))
        varied = self._ask(name, list(arguments), generator)
        return self._arguments(f"hidden/check.py: {name}", varied)

    def vary_all(self, name: str, inputs: Sequence[list[Any]], seed: str) -> list[list[Any]]:
        """The arguments of a hidden variation that is about all ranks together, a list a rank."""
        generator = torch.Generator().manual_seed(number(seed))
        varied = self._ask(name, [list(values) for values in inputs], generator)
        if not isinstance(varied, (tuple, list)) or len(varied) != len(inputs):
            raise TaskFault(f"task {self.slug}: hidden/check.py: {name} must return a list of arguments for each rank")
        return [self._arguments(f"hidden/check.py: {name}", values) for values in varied]

    def expected(self, arguments: Sequence[Any]) -> Expected:
        """What the reference makes of copies of the arguments."""
        copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]
        return Expected(self.reference(copies), [copies[item.position] for item in self.mutated])

    def reference(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """The outputs of the reference, which changes the arguments where calls do."""
        try:
            with _in_time():
                result = self._call("reference.py", self._reference.run, *arguments)
        except _Endless:
            told = f"reference.py did not return within {MOST_REFERENCE_S:g} s: look for a loop that does not end"
            raise TaskFault(f"task {self.slug}: {told}, or make its workloads smaller") from None
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(outputs) != len(self.output_names):
            raise TaskFault(
                f"task {self.slug}: reference.py returned {len(outputs)} outputs, "
                f"hidden/workloads.json names {len(self.output_names)}"
            )
        for name, output in zip(self.output_names, outputs, strict=True):
            if not isinstance(output, torch.Tensor):
                raise TaskFault(f"task {self.slug}: reference.py returned no tensor for {name}, but {output!r:.80}")
            self._carried("reference.py", output)
            if output.dtype in _WITH_NAN and output.isnan().any():
                raise TaskFault(
                    f"task {self.slug}: reference.py gives NaN in {name}, which nothing can be compared with"
                )
        return outputs

    def compare(
        self,
        arguments: Sequence[Any],
        outputs: Sequence[torch.Tensor],
        state: Sequence[torch.Tensor],
        expected: Expected,
        calls: int = 1,
    ) -> list[Check]:
        """The gates on what `calls` calls with these arguments gave: the last one's outputs, and the state they left.

        Outputs and state must have the dtypes and shapes of the expected ones.
        """
        names = [*self.output_names, *(item.name for item in self.mutated)]
        before = [arguments[item.position] for item in self.mutated]
        after = [
            item.after(start, once, calls)
            for item, start, once in zip(self.mutated, before, expected.state, strict=True)
        ]
        answer = Answer(
            arguments,
            dict(zip(names, [*outputs, *state], strict=True)),
            dict(zip(names, [*expected.outputs, *after], strict=True)),
            {item.name: start for item, start in zip(self.mutated, before, strict=True)},
            calls,
        )
        return compare(answer, self.gates, self._ask, self._reported)

    def specified(self, arguments: Sequence[Any], expected: Expected) -> list[bool]:
        """Of each output, whether any gate looks at it for these arguments: some find no rows that they are for."""
        checked = {check.output for check in self.compare(arguments, expected.outputs, expected.state, expected)}
        return [name in checked for name in self.output_names]

    def _ask(self, name: str, *arguments: Any) -> Any:
        return self._call(f"hidden/check.py: {name}", getattr(self._checks, name), *arguments)

    def _arguments(self, file: str, values: Any) -> list[Any]:
        if not isinstance(values, (tuple, list)):
            raise TaskFault(f"task {self.slug}: {file} must return a list, the arguments of run()")
        for value in values:
            if isinstance(value, torch.Tensor):
                self._carried(file, value)
            elif not isinstance(value, (bool, int, float, str, type(None))):
                raise TaskFault(
                    f"task {self.slug}: {file} returned {value!r:.80}: only tensors, numbers, text and None"
                )
        for item in self.mutated:
            if item.position >= len(values) or not isinstance(values[item.position], torch.Tensor):
                raise TaskFault(f"task {self.slug}: {file} gives no tensor for {item.name}, which run() changes")
        return list(values)

    def _carried(self, file: str, tensor: torch.Tensor) -> None:
        try:
            layout.header_of(tensor)
        except ValueError as problem:
            raise TaskFault(f"task {self.slug}: {file}: {problem}") from None

    def memory_cap_bytes(self, workload: dict[str, Any]) -> int | None:
        """The task's bound on tensors alive during a call, outputs included; None where the task has none."""
        return self._bound("memory_cap_bytes", workload)

    def copy_budget_bytes(self, workload: dict[str, Any]) -> int | None:
        """The task's bound on bytes that PyTorch may copy in a call; None where the task has none."""
        return self._bound("copy_budget_bytes", workload)

    def _bound(self, name: str, workload: dict[str, Any]) -> int | None:
        function = getattr(self._checks, name, None)
        if function is None:
            return None
        bound = self._call("hidden/check.py", function, workload)
        if not isinstance(bound, (int, float)):
            raise TaskFault(f"task {self.slug}: hidden/check.py: {name} must return a number, not {bound!r:.80}")
        return int(bound)

    def _call(self, file: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (Exception, SystemExit) as problem:  # the task's author wrote this code: its failures are the task's
            if out_of_memory(problem):
                raise MemoryError(
                    f"task {self.slug}: {file} needs more memory than this machine gives ({problem}); "
                    "free some, or use a larger machine"
                ) from problem
            raise _raised(self.slug, file, problem) from problem


def _raised(slug: str, file: str, problem: BaseException) -> TaskFault:
    """The fault of a task whose code raised: file, what, and the last line of the task's own."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(problem.__traceback__)
        if frame.filename == f"{slug}/{file.rpartition('/')[2]}"
    ]
    line = problem.lineno if isinstance(problem, SyntaxError) else lines[-1] if lines else None
    where = "" if line is None else f" (line {line})"
    return TaskFault(f"task {slug}: {file} raised {type(problem).__name__}: {problem}{where}")


def out_of_memory(problem: BaseException) -> bool:
    """True where an exception says that the machine's memory is full. PyTorch says so in words alone on a CPU."""
    if isinstance(problem, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(problem, RuntimeError) and (
        "allocate memory" in str(problem) or "not enough memory" in str(problem)
    )


def derive(root: str, *parts: object) -> str:
    """A seed for one purpose from the job's secret seed: 64 hexadecimal digits."""
    return hashlib.sha256("\0".join([root, *map(str, parts)]).encode()).hexdigest()


def number(seed: str) -> int:
    """A seed as the 63-bit integer that torch's generators take."""
    return int(seed[:16], 16) >> 1


def _json(bundle: TaskBundle, files: dict[str, str], name: str) -> dict[str, Any]:
    if name not in files:
        raise TaskFault(f"task {bundle.slug} has no {name}")
    try:
        data = json.loads(files[name])
    except (ValueError, RecursionError) as problem:
        raise TaskFault(f"task {bundle.slug}: {name}: {problem}") from None
    if not isinstance(data, dict):
        raise TaskFault(f"task {bundle.slug}: {name}: an object was expected")
    return data


def _rules(bundle: TaskBundle) -> dict[str, Any]:
    try:
        rules = tomllib.loads(bundle.hidden.get("rules.toml", ""))
        policy_of(rules)
    except ValueError as problem:  # of TOML, or of what the rules know
        raise TaskFault(f"task {bundle.slug}: hidden/rules.toml: {problem}") from None
    return rules


def _module(bundle: TaskBundle, files: dict[str, str], name: str, functions: Sequence[str]) -> types.ModuleType:
    if name not in files:
        raise TaskFault(f"task {bundle.slug} has no {name}")
    module = types.ModuleType(f"task_{bundle.slug}_{name.removesuffix('.py')}")
    try:
        exec(compile(files[name], f"{bundle.slug}/{name}", "exec"), module.__dict__)
    except (Exception, SystemExit) as problem:  # the task's author wrote this code: its failures are the task's
        raise _raised(bundle.slug, name, problem) from problem
    for function in functions:
        if not callable(getattr(module, function, None)):
            raise TaskFault(f"task {bundle.slug}: {name} defines no {function}(...)")
    return module
