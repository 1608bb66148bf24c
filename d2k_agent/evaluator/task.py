"""A task inside the evaluator: its reference, generator, hidden variations and gates, from the text in the job."""

from __future__ import annotations

import hashlib
import json
import tomllib
import types
from collections.abc import Sequence
from typing import Any

import torch

from d2k_agent.contract import TaskBundle
from d2k_agent.evaluator.faults import TaskFault


class LoadedTask:
    """The task's own code and data, trusted, in the supervisor only."""

    def __init__(self, bundle: TaskBundle) -> None:
        self.slug = bundle.slug
        self.digest = bundle.digest
        self.config = _json(bundle.public, "config.json")
        self.hidden = _json(bundle.hidden, "workloads.json")
        try:
            self.rules = tomllib.loads(bundle.hidden.get("rules.toml", ""))
        except tomllib.TOMLDecodeError as problem:
            raise TaskFault(f"{bundle.slug}/hidden/rules.toml: {problem}") from None
        self._reference = _module(bundle, bundle.public, "reference.py")
        self._generator = _module(bundle, bundle.public, "get_inputs.py")
        self._checks = _module(bundle, bundle.hidden, "check.py")
        self.registered: list[dict[str, Any]] = list(self.config["workloads"])
        self.smoke: list[dict[str, Any]] = list(self.hidden["smoke"])
        self.variations: list[dict[str, Any]] = list(self.hidden.get("variations", []))
        self.gates: list[dict[str, Any]] = [*self.hidden["gates"], *self.hidden.get("reported", [])]
        self.output_names: list[str] = list(self.hidden["outputs"])
        self.mutated: list[int] = list(self.hidden.get("mutated_inputs", []))
        self.repeat_calls = int(self.hidden.get("repeat_calls", 12))

    def arguments(self, workload: dict[str, Any], seed: str, device: str = "cpu") -> list[Any]:
        """Fresh arguments of run() for a workload; the contents follow from `seed` alone."""
        config = {**workload, "seed": number(seed), "device": device}
        return list(self._call("get_inputs.py", self._generator.get_inputs, config))

    def vary(self, name: str, arguments: Sequence[Any], seed: str) -> list[Any]:
        """The arguments of a hidden variation."""
        generator = torch.Generator().manual_seed(number(seed))
        return list(self._call("hidden/check.py", getattr(self._checks, name), list(arguments), generator))

    def expected(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """Reference outputs, from copies of the arguments."""
        copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]
        result = self._call("reference.py", self._reference.run, *copies)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def memory_cap_bytes(self, workload: dict[str, Any]) -> int | None:
        """The task's bound on tensors alive during a call, outputs included; None where the task has none."""
        return self._bound("memory_cap_bytes", workload)

    def copy_budget_bytes(self, workload: dict[str, Any]) -> int | None:
        """The task's bound on bytes that PyTorch may copy in a call; None where the task has none."""
        return self._bound("copy_budget_bytes", workload)

    def _bound(self, name: str, workload: dict[str, Any]) -> int | None:
        bound = getattr(self._checks, name, None)
        return int(self._call("hidden/check.py", bound, workload)) if bound else None

    def _call(self, file: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as problem:  # the task's author wrote this code: any failure of it is the task's
            raise TaskFault(f"task {self.slug}: {file} raised {type(problem).__name__}: {problem}") from problem


def derive(root: str, *parts: object) -> str:
    """A seed for one purpose from the job's secret seed: 64 hexadecimal digits."""
    return hashlib.sha256("\0".join([root, *map(str, parts)]).encode()).hexdigest()


def number(seed: str) -> int:
    """A seed as the 63-bit integer that torch's generators take."""
    return int(seed[:16], 16) >> 1


def _json(files: dict[str, str], name: str) -> dict[str, Any]:
    try:
        data = json.loads(files[name])
    except KeyError:
        raise TaskFault(f"the task has no {name}") from None
    except ValueError as problem:
        raise TaskFault(f"{name}: {problem}") from None
    if not isinstance(data, dict):
        raise TaskFault(f"{name}: an object was expected")
    return data


def _module(bundle: TaskBundle, files: dict[str, str], name: str) -> types.ModuleType:
    module = types.ModuleType(f"task_{bundle.slug}_{name.removesuffix('.py')}")
    try:
        exec(compile(files[name], f"{bundle.slug}/{name}", "exec"), module.__dict__)
    except KeyError:
        raise TaskFault(f"task {bundle.slug} has no {name}") from None
    except Exception as problem:  # the task's author wrote this code: any failure of it is the task's
        raise TaskFault(f"task {bundle.slug}: {name} raised {type(problem).__name__}: {problem}") from problem
    return module
