"""What is in use of a GPU's memory, as a check that decides nothing."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from d2k_agent.evaluator.checks.holding import Holding
from d2k_agent.evaluator.devices import CpuDevice


class Counted(CpuDevice):
    """A device whose memory in use is known."""

    def __init__(self, *in_use: int | None) -> None:
        self._in_use = iter(in_use)

    def others_bytes(self) -> int | None:
        return next(self._in_use)


@pytest.mark.parametrize(("in_use", "held"), [((100, 164), 64.0), ((100, 40), 0.0)])
def test_it_is_what_more_is_in_use_and_no_limit_holds(in_use: tuple[int, int], held: float) -> None:
    (check,) = Holding(Counted(*in_use)).checks()
    assert (check.gate, check.value, check.limit, check.passed) == ("device_memory", held, None, True)


def test_nobody_says_so_of_a_processor() -> None:
    assert Holding(CpuDevice()).checks() == []
    assert Holding(Counted(100, None)).checks() == []
