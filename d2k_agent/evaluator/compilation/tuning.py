"""What an autotuned kernel means without a GPU: its first configurations are compiled, none is measured.

The first eight of each round within the time given, and beyond eight until one of them fits. Configurations left out
are counted, so that a report can say how much it has not seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from triton.runtime.autotuner import Autotuner

from d2k_agent.evaluator.compilation.stub_driver import call_once

CONFIGURATIONS = 8
UNMEASURED = [1.0, 1.0, 1.0]
UNFIT = [float("inf")] * 3


class LeftOut(Exception):
    """A configuration that is not compiled because the time for configurations is used up."""


@dataclass
class Tuner:
    """One autotuned kernel: the configurations it offered, and those that were compiled or refused."""

    tuner: Any
    offered: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)
    unfit: dict[str, None] = field(default_factory=dict)
    round_arguments: Any = None
    round_tried: int = 0
    round_fitting: int = 0

    @property
    def name(self) -> str:
        return str(self.tuner.base_fn.__name__)

    @property
    def left_out(self) -> int:
        """Distinct configurations that nothing is known about."""
        return len(self.offered - self.tried)


class Tuning:
    """Stands in for measuring while active. `tuners` says what was offered and tried.

    Trying a configuration happens inside `aside`: what a tuner needs to measure (copies of what kernels change) is not
    what run() needs, which is called with everything tuned.
    """

    def __init__(self, aside: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext) -> None:
        self.tuners: dict[int, Tuner] = {}
        self._aside = aside
        self.current: Tuner | None = None
        """The tuner whose configuration is being tried right now, else None."""

    @property
    def optional(self) -> bool:
        """True while a configuration is tried that the kernel can do without, since an earlier one fits."""
        return self.current is not None and self.current.round_fitting > 0

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        measure = Autotuner._bench  # noqa: SLF001 - the one place where all of Triton's ways to measure meet

        def bench(autotuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
            return self._try(autotuner, config, lambda: measure(autotuner, *args, config=config, **meta))

        Autotuner._bench = bench  # noqa: SLF001
        try:
            yield
        finally:
            Autotuner._bench = measure  # noqa: SLF001

    def _try(self, autotuner: Any, config: Any, measure: Callable[[], Any]) -> Any:
        tuner = self.tuners.setdefault(id(autotuner), Tuner(autotuner))
        if tuner.round_arguments is not autotuner.nargs:
            tuner.round_arguments, tuner.round_tried, tuner.round_fitting = autotuner.nargs, 0, 0
        name = str(config)
        tuner.offered.add(name)
        if tuner.round_fitting and tuner.round_tried >= CONFIGURATIONS:
            return UNFIT
        autotuner.do_bench = call_once
        self.current = tuner
        try:
            with self._aside():
                timings = measure()
        except LeftOut:
            return UNFIT
        finally:
            self.current = None
        tuner.round_tried += 1
        tuner.tried.add(name)
        if timings[0] == UNFIT[0]:
            tuner.unfit[name] = None
            return UNFIT
        tuner.round_fitting += 1
        return UNMEASURED
