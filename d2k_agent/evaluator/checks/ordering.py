"""The order of memory between ranks, read off the compiled kernels: no run on one machine shows that it is missing."""

from __future__ import annotations

from d2k_agent.contract import CompileReport, Violation

_SIDES = {
    "release.sys": 'no kernel tells other ranks that its rows are there with sem="release" (or "acq_rel")',
    "acquire.sys": 'no kernel waits for what other ranks tell with sem="acquire" (or "acq_rel")',
}
_CURE = (
    'at scope="sys", as every rank has to: without it a flag may be seen before the data that was stored ahead of it'
)


def ordering_violations(report: CompileReport, ranks: int) -> tuple[Violation, ...]:
    """What is missing in the kernels of a source for several ranks; empty for one rank.

    Necessary and not sufficient: which store needs the order cannot be read off. What was compiled are the kernels of
    one rank, the last: each has to tell and to wait.
    """
    if ranks < 2 or not report.kernels:
        return ()
    found = {kind for kernel in report.kernels for kind in kernel.instructions}
    return tuple(
        Violation("compiled.ordering", f"{told} {_CURE}") for kind, told in _SIDES.items() if kind not in found
    )
