"""Ceilings of GPUs as this machine knows them: what was measured here, what ships, what a data sheet says.

Covers: the user's cache of measurements, and the measurement itself, which is a process of the evaluator's.
Does not cover: how is measured (evaluator/ceilings).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.app.surroundings import Surroundings
from d2k_agent.catalog import cache_bytes, counts_of
from d2k_agent.config import Settings
from d2k_agent.contract.ceilings import NOT_MEASURED, Ceilings
from d2k_agent.contract.data_sheets import DATA_SHEETS, ceilings_of, data_sheet, shipped_measurement
from d2k_agent.contract.gpu import all_hidden, gpu_variables
from d2k_agent.contract.wire import WireError, from_data, to_data
from d2k_agent.errors import MachineError, UsageError
from d2k_agent.isolation import gpu_devices
from d2k_agent.reports.ceilings_text import KnownGpu

if TYPE_CHECKING:
    from d2k_agent.catalog import Task
    from d2k_agent.contract import Verdict
    from d2k_agent.reports.headroom import Headroom

_START = "import sys; sys.path.insert(0, sys.argv[1]); from d2k_agent.evaluator.ceilings import main; main()"


@dataclass(frozen=True)
class KnownCeilings:
    """Ceilings by the name that a driver gives a GPU; measurements of this machine go before all others."""

    around: Surroundings

    def measured(self, name: str) -> Ceilings | None:
        """What was measured here on a GPU of that name. Raises UsageError where the file is damaged."""
        path = self.path(name)
        return self._read(path) if path.is_file() else None

    def _read(self, path: Path) -> Ceilings:
        try:
            return from_data(Ceilings, json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as problem:
            told = str(problem) if isinstance(problem, WireError) else "it cannot be read as JSON"
            again = "`d2k-agent ceilings --measure`"
            raise UsageError(f"{path} holds no ceilings ({told:.200}): remove it, or measure again: {again}") from None

    def best(self, name: str) -> Ceilings | None:
        """The best that is known, value by value; None for a GPU of which nothing is."""
        return ceilings_of(name, self.measured(name))

    def every(self) -> tuple[Ceilings, ...]:
        """The best that is known of each GPU that has a data sheet or was measured here. Raises as `measured` does."""
        found = map(self.best, [*(item.device_name for item in DATA_SHEETS), *self.names()])
        return tuple(item for item in found if item is not None)

    def names(self) -> list[str]:
        """GPUs that were measured here and have no data sheet. Raises UsageError as `measured` does."""
        found = [self._read(path) for path in sorted(self.folder.glob("*.json"))]
        return [item.device_name for item in found if data_sheet(item.device_name) is None]

    def path(self, name: str) -> Path:
        """Where measurements on a GPU of that name are kept."""
        return self.folder / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.json"

    @property
    def folder(self) -> Path:
        """Where measurements of this machine are kept."""
        return self.around.cache_home / "d2k-agent" / "ceilings"

    def keep(self, ceilings: Ceilings) -> Path:
        """Write them down, and return where. Raises OSError where that cannot be done."""
        path = self.path(ceilings.device_name)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        try:
            fresh.write_text(json.dumps(to_data(ceilings), indent=1) + "\n", encoding="utf-8")
            fresh.replace(path)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        return path


def measured_gpu(found: Ceilings) -> KnownGpu:
    """What was measured here just now, kept or not."""
    return KnownGpu(found.device_name, found, measured_here=True, data_sheet=data_sheet(found.device_name))


def known_gpus(known: KnownCeilings) -> list[KnownGpu]:
    """What is known of each GPU that has a data sheet or was measured here.

    What ships is told where this machine measured nothing.
    """
    found = []
    for each in [*(item.device_name for item in DATA_SHEETS), *known.names()]:
        here, shipped = known.measured(each), shipped_measurement(each)
        found.append(KnownGpu(each, here or shipped, here is not None, data_sheet(each)))
    return found


def headroom_of_verdict(around: Surroundings, task: Task, verdict: Verdict) -> list[Headroom]:
    """How far the latencies of a verdict are above the modelled floors; empty where none is known."""
    from d2k_agent.reports.headroom import headroom_of
    from d2k_agent.reports.measured_text import measured_of_verdict

    ceilings = KnownCeilings(around).best(verdict.environment.device_name)
    counts = counts_of(task, verdict.environment.details)
    return headroom_of(measured_of_verdict(verdict), counts, ceilings, cache_bytes(verdict.environment))


def measure(around: Surroundings, command_line: Settings) -> Ceilings:
    """Measure the GPU that is here, or the one that `--gpu` names. What is being measured is said on stderr.

    Raises UsageError where there is no such GPU, MachineError where measuring ends early.
    """
    settings = around.settings(command_line)
    environment = around.evaluator_environment()
    if not gpu_devices() or (settings.gpu is None and all_hidden(environment)):
        raise UsageError(
            "there is no NVIDIA GPU here to measure: run this on the machine that has one, or leave --measure out "
            "to see what is known without"
        )
    try:
        environment |= gpu_variables(settings.gpu, environment)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    # Where a prefix leads, its interpreter is; this measures here.
    python = around.python if settings.evaluator else settings.evaluator_python or around.python
    return answer_of([python, "-c", _START, str(Path(__file__).parents[2])], environment)


def answer_of(command: Sequence[str], environment: Mapping[str, str]) -> Ceilings:
    """What the measuring program found; `command` starts it. Raises as measure() does."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=environment)
        answer = json.loads(done.stdout.strip().rpartition(b"\n")[2])
        if isinstance(answer, dict) and NOT_MEASURED in answer:
            raise UsageError(str(answer[NOT_MEASURED]))
        return from_data(Ceilings, answer)
    except (OSError, ValueError):
        raise MachineError("measuring ended early; run `d2k-agent doctor` to see what is missing, then again") from None
