"""The GPUs that an agent's commands see, shared with everybody who measures on them."""

from __future__ import annotations

import contextlib
import functools
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from d2k_agent.contract.gpu import CUDA_VARIABLES, SMI_ORDER, visible_gpus
from d2k_agent.errors import MachineError
from d2k_agent.isolation import lease

_LIST = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")


@dataclass(frozen=True)
class GpuShare:
    """`variables` say which GPUs a command sees, as CUDA reads them; `progress` is told of a wait for one."""

    variables: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda _: None

    @contextlib.contextmanager
    def held(self) -> Iterator[float]:
        """Hold the lease of each GPU that a command sees, so that no measurement runs beside it; yields the wait.

        The wait, in seconds, is bounded by nothing. Raises MachineError where a lease cannot be had.
        """
        try:
            with lease.hold(visible_uuids(_uuids(), self.variables), self.progress) as queued_s:
                yield queued_s
        except lease.LeaseRefused as problem:
            raise MachineError(str(problem)) from None


def visible_uuids(uuids: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Those of a machine's GPUs (in the order of nvidia-smi) that CUDA's `variables` leave visible.

    All of them where an entry cannot be told: a lease too many makes somebody wait, one too few spoils a measurement.
    """
    visible, order = (variables.get(name) for name in CUDA_VARIABLES)
    if visible is None:
        return list(uuids)
    found: list[str] = []
    for entry in visible_gpus(visible):
        if entry.isdecimal():
            matching = list(uuids[int(entry) : int(entry) + 1]) if order == SMI_ORDER else []
        else:
            matching = [uuid for uuid in uuids if uuid.startswith(entry)]
        if not matching:
            return list(uuids)
        found += matching
    return found


@functools.cache
def _uuids() -> tuple[str, ...]:
    """The UUIDs of this machine's GPUs; none where nobody can list them."""
    try:
        done = subprocess.run(_LIST, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.startswith("GPU-"))
