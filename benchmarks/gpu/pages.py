"""What Nsight Compute prints of one call by itself: its page of details, and what its own rule says of a kernel.

The page is text for people, so little is read off it: where a launch begins, how long it took, and the advice below its
speed of light, by which ncu names compute, memory or latency.
"""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

from d2k_agent.contract import Bottleneck

PAGE_SET, PAGE_LIMIT_S = "detailed", 120.0
WAITING = frozenset({Bottleneck.LATENCY, Bottleneck.TAIL, Bottleneck.LAUNCH})
COMPUTING = frozenset({Bottleneck.TENSOR, Bottleneck.PIPE})
_LAUNCH = re.compile(
    r"^  (?P<name>\S.*?) \(\d+, \d+, \d+\)x\(\d+, \d+, \d+\), Context \d+, Stream \d+, Device \d+, CC "
)
_DURATION = re.compile(r"^    Duration +(?P<unit>n|u|m)?s(?:econd)? +(?P<value>[\d.,]+)", re.M)
_LIGHT_SECTION = re.compile(r"^    Section: GPU Speed Of Light Throughput\n(.*?)(?=^    Section: |\Z)", re.M | re.S)
_ADVICE = re.compile(r"^    (?:INF|OPT|WRN) +(.*)", re.M | re.S)
_SAYS = (
    ("latency", ("typically indicate latency issues", "too small to fill the available resources")),
    ("compute or memory", ("well-balanced",)),
    ("compute", ("Compute is more heavily", "in the Compute Workload Analysis")),
    ("memory", ("Memory is more heavily", "in the Memory Workload Analysis")),
)
"""What the rule SOLBottleneck names, and the words by which it does."""


def page_of(source: str, generator: str, workload: dict[str, Any], device: str = "cuda") -> str:
    """The page of one call of run(), without the first launch, which is the target's own. Raises ProfileUnavailable.

    `generator` is the text of get_inputs.py; `device` is "cpu" only to try it without a GPU. Whoever calls holds the
    lease of the GPU.
    """
    from d2k_agent.evaluator.profiling import ProfileUnavailable, ncu
    from d2k_agent.evaluator.profiling.report import require_done
    from d2k_agent.evaluator.profiling.session import order_in, run_target, surroundings

    given = surroundings(None)
    found = ncu.find_ncu(given)
    if found is None:
        raise ProfileUnavailable("Nsight Compute is not there")
    with tempfile.TemporaryDirectory(prefix="d2k-page-") as made:
        folder = os.path.realpath(made)
        order = order_in(folder, source, generator, [workload], device=device, unsafe=False)
        environment, report = ncu.tool_environment(given, order["scratch"]), os.path.join(folder, "page")
        watch = [*ncu.watching(found, ncu.MOST_LAUNCHES), "--set", PAGE_SET, "--export", report, *ncu.TARGET]
        require_done(*run_target(watch, order, environment, folder, PAGE_LIMIT_S), PAGE_LIMIT_S)
        (path,) = glob.glob(f"{report}*")  # newer profilers name their files otherwise
        show = [found, "--config-file", "off", "--import", path, "--page", "details"]
        return without_ours(ncu.run(show, b"", environment, folder, 60.0).output)


def _launches(page: str) -> Iterator[tuple[str, str]]:
    """The name and the text of each launch, after the text before the first one, whose name is empty."""
    name, lines = "", list[str]()
    for line in page.splitlines(keepends=True):
        if match := _LAUNCH.match(line):
            yield name, "".join(lines)
            name, lines = match["name"], []
        lines.append(line)
    yield name, "".join(lines)


def without_ours(page: str) -> str:
    """The page without its first launch, the target's own before the candidate's: no model would be told of it."""
    head, *launches = _launches(page)
    return head[1] + "".join(text for _, text in (launches[1:] or launches))


def one_launch_a_kernel(page: str) -> str:
    """The page with the first launch of every kernel, and what stands before."""
    kept: dict[str, str] = {}
    for name, text in _launches(page):
        kept.setdefault(name, text)
    return "".join(kept.values())


def page_says(page: str, kernel: str) -> str | None:
    """What ncu's rule says bounds the longest launch of a kernel: "compute", "memory", "compute or memory" where they
    are balanced, "latency". None where the kernel is not on the page, or its advice is in words that nobody knows."""
    longest = max((text for name, text in _launches(page) if name == kernel), key=_duration_us, default="")
    section = _LIGHT_SECTION.search(longest)
    advice = _ADVICE.search(section[1]) if section else None
    told = " ".join(advice[1].split()) if advice else ""
    return next((kind for kind, words in _SAYS if any(word in told for word in words)), None)


def agrees(says: str | None, bottleneck: Bottleneck) -> bool | None:
    """Whether ncu's word is that of our class of the same kernel, None where ncu says nothing."""
    ours = "latency" if bottleneck in WAITING else "compute" if bottleneck in COMPUTING else "memory"
    return None if says is None else ours in says


def _duration_us(launch: str) -> float:
    found = _DURATION.search(launch)
    if found is None:
        return 0.0
    return float(found["value"].replace(",", "")) * {"n": 1e-3, "u": 1.0, "m": 1e3, None: 1e6}[found["unit"]]
