"""What compute-sanitizer found in the kernels of a candidate."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class SanitizerCheck(enum.StrEnum):
    """What is looked for."""

    MEMCHECK = "memcheck"
    """Accesses out of bounds or misaligned."""
    RACECHECK = "racecheck"
    """Accesses to shared memory without a barrier between them."""
    INITCHECK = "initcheck"
    """Reads of global memory that nothing was written to."""


@dataclass(frozen=True)
class SanitizerError:
    """The first error of a kind. `details` say more of it, without addresses; `line` is one of solution.py.

    `printed` counts those of the kind that the tool printed; it stops printing at a limit, so there may be more.
    """

    kind: str
    kernel: str | None
    line: int | None
    details: tuple[str, ...] = ()
    printed: int = 1


@dataclass(frozen=True)
class SanitizerReport:
    """One check of the candidate at the shapes of `workloads`. `errors` and `warnings` are the tool's own totals.

    Where the tool did not come to its end, a note says so, `errors` are those that it printed, and `warnings` are None.
    """

    check: SanitizerCheck
    tool: str
    workloads: tuple[str, ...]
    errors: int
    warnings: int | None = 0
    first: tuple[SanitizerError, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """True where nothing was found."""
        return self.errors == 0 and self.warnings == 0
