"""All that a verdict says about one submission, on a page for the author of the kernel.

Covers: what decided, what was checked, values beside their limits, clocks, memory, kernels, the machine. A pure
function of the verdict: what it does not carry is not here, and what nobody measured is no number. Unlike verdict_text
it names the machine and durations, so it is not what a model reads or a replay compares.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from d2k_agent.contract import Check, Environment, Verdict, VerdictStatus
from d2k_agent.reports.explained_kernels import WIDTH, kernels_text
from d2k_agent.reports.explained_steps import decided_by, series_text, steps_text
from d2k_agent.reports.explained_times import refused, times_text
from d2k_agent.reports.measured_text import DIGEST_CHARS
from d2k_agent.reports.profile_text import profile_text
from d2k_agent.reports.tables import UNKNOWN, number, size, table
from d2k_agent.reports.verdict_text import is_share, nearness, verdict_text

if TYPE_CHECKING:
    from d2k_agent.reports.headroom import Headroom

BYTES = ("memory", "copies", "device_memory")
"""Gates whose values are bytes."""
NEXT = {
    VerdictStatus.PASSED: "`d2k-agent profile TASK FILE` says where the time of a call goes.",
    VerdictStatus.UNTIMED: (
        "measure it: the same command on a machine with an NVIDIA GPU, or from here with --evaluator PREFIX."
    ),
    VerdictStatus.INCORRECT: (
        "compare with the task's reference.py where the check failed; `--workload LABEL` judges one smoke workload."
    ),
    VerdictStatus.RULE_VIOLATION: "change what is named above: the task's description says what a submission may do.",
    VerdictStatus.COMPILE_ERROR: "`d2k-agent compile TASK FILE` repeats that step alone.",
    VerdictStatus.RUNTIME_ERROR: "call run() yourself on the inputs of get_inputs.py, at the workload named above.",
    VerdictStatus.TIMED_OUT: "make what is named above faster, or its tiles larger: every call counts to the limit.",
    VerdictStatus.OUT_OF_MEMORY: "hold less at once: the section on memory has what was counted.",
    VerdictStatus.ENDED_EARLY: "run() must return its outputs, and may end no process.",
    VerdictStatus.NOISY: "hand it in again, when nothing else uses the GPU.",
}
NEXT_OF_RANKS = {
    VerdictStatus.UNTIMED: (
        "measure it: the same command on a machine with a GPU a rank (`--gpu 0,1` names two), or from here with "
        "--evaluator PREFIX; one GPU measures too, and shows nothing of links."
    ),
    VerdictStatus.RUNTIME_ERROR: "look at the line and the rank named above; what comm has is in task_description.md.",
    VerdictStatus.TIMED_OUT: "see what each rank waits for and who tells it, in every call; or be faster.",
}
"""Of a task for several ranks, where it is something else."""
HELD_UP = """\
Within each call one rank was held up, at a place drawn anew; before new inputs came, workspaces were filled with NaN.
Rounds of calls without a pause come behind the first smoke workload and each hidden variation that is not late, unless
a call before them failed."""
WHOLE = "have run() do its whole work in every call: nothing put off, remembered, or left to another thread or stream."


def explained_text(verdict: Verdict, headroom: Sequence[Headroom] = ()) -> str:
    """The page: sections in the order in which an author asks, each with its title.

    `headroom` is that of the measured workloads, where floors are known. The page is for people: no agent sees it.
    """
    sections = [
        _head(verdict),
        "Checked, in this order\n" + _indented(steps_text(verdict)),
        *_found(verdict),
        "Latencies, in milliseconds a call\n" + _indented(times_text(verdict)),
        *_above_floors(headroom),
        "Memory\n" + _indented(_memory(verdict)),
        "Kernels\n" + _indented(kernels_text(verdict)),
        *([] if verdict.profile is None else ["Profile\n" + _indented(profile_text(verdict.profile))]),
        "Machine and digests\n" + _indented("\n".join(_machine(verdict))),
    ]
    return "\n\n".join(sections)


def _above_floors(headroom: Sequence[Headroom]) -> Iterator[str]:
    if headroom:
        from d2k_agent.reports.headroom import headroom_text

        yield "Above the modelled floor\n" + _indented(headroom_text(headroom))


def _head(verdict: Verdict) -> str:
    if verdict.status.acceptable:
        lines = [f"Status: {verdict.status}", verdict.message]
    else:
        lines = [verdict_text(dataclasses.replace(verdict, compile_report=None, profile=None, notes=())), ""]
    advice = NEXT | NEXT_OF_RANKS if "ranks" in verdict.environment.details else NEXT
    lines += [f"Decided by: {decided_by(verdict)}", f"Next: {WHOLE if refused(verdict) else advice[verdict.status]}"]
    return "\n".join([*lines, *[f"Note: {note}" for note in verdict.notes]])


def _found(verdict: Verdict) -> Iterator[str]:
    """Series of calls, and of each gate the worst value: left out where no call was made."""
    series = series_text(verdict)
    if series is not None:
        held_up = f"\n{HELD_UP}" if "ranks" in verdict.environment.details else ""
        yield "Series of calls, each call on new inputs from a secret seed\n" + _indented(series + held_up)
    rows = [
        (
            check.output,
            check.gate,
            "-" if check.value is None else number(check.value, 4),
            "-" if check.limit is None else number(check.limit),
            _share(check),
            label,
        )
        for label, check in _worst(verdict)
        if check.gate not in BYTES
    ]
    if rows:
        header = ("output", "gate", "worst", "limit", "of limit", "at")
        yield "Worst value of each gate\n" + _indented(table(header, rows, header[2:5]))


def _worst(verdict: Verdict) -> list[tuple[str, Check]]:
    """Of each gate of each output the check that failed first, else the one nearest its limit, with its workload."""
    worst: dict[tuple[str, str], tuple[str, Check]] = {}
    for result in verdict.workloads:
        for check in result.checks:
            known = worst.get((check.output, check.gate))
            if known is None or (known[1].passed and (not check.passed or nearness(check) > nearness(known[1]))):
                worst[check.output, check.gate] = result.label, check
    return list(worst.values())


def _share(check: Check) -> str:
    if not check.passed:
        return "failed"
    if check.limit is None:
        return "passed" if check.value is None else "reported only"
    if check.value is None or not check.limit or is_share(check):
        return "-"
    return f"{100 * check.value / check.limit:.0f} %"


def _memory(verdict: Verdict) -> str:
    counted = {check.gate: (label, check) for label, check in _worst(verdict) if check.gate in BYTES}
    if not counted and verdict.peak_memory_bytes is None:
        return "nothing was counted: no call of run() came to its end"
    where = ", at the small shapes that a CPU is given" if verdict.environment.device == "cpu" else ""
    registered = {result.label for result in verdict.workloads if result.registered}
    lines = [f"Most bytes of tensors that one call held: {size(verdict.peak_memory_bytes)}{where}"]
    for gate, words in (("memory", "Nearest to the task's cap"), ("copies", "Copied by PyTorch in a call")):
        if gate in counted:
            label, check = counted[gate]
            cap = "no cap" if check.limit is None else f"{size(round(check.limit))} allowed"
            counted_there = (
                ", as it was compiled there" if verdict.environment.device == "cpu" and label in registered else ""
            )
            lines.append(f"{words}: {_bytes(check.value)}, {cap} ({label}{counted_there})")
    if "device_memory" in counted:
        label, check = counted["device_memory"]
        lines.append(
            f"More of the GPU's memory in use than before, as read from outside: {_bytes(check.value)} ({label})"
        )
    return "\n".join(lines)


def _bytes(value: float | None) -> str:
    return UNKNOWN if value is None else size(round(value))


def _machine(verdict: Verdict) -> Iterator[str]:
    here = verdict.environment
    yield f"{here.machine}; {', '.join(_device(here))}"
    compiled = "target" if verdict.compile_report is None else "compiled for"
    yield f"torch {here.torch}, triton {here.triton}, Python {here.python}; {compiled} {here.target}"
    match here.isolation:
        case None:
            yield "No code of the candidate was executed."
        case "none":
            yield "The candidate was not confined: it ran with the user's own rights."
        case measures:
            yield textwrap.fill(f"The candidate was confined by {measures.replace('+', ', ')}.", WIDTH)
    digests = {"source": verdict.candidate_sha256, "task": here.task_digest, "evaluator": here.evaluator_digest}
    yield "sha256 of " + ", ".join(f"{name} {digest[:DIGEST_CHARS]}" for name, digest in digests.items())
    if verdict.seed_commitment:
        yield f"seed commitment {verdict.seed_commitment}"
        yield "  sha256 of the secret seed of all inputs, fixed before the candidate ran. Whoever keeps the seed can"
        yield "  publish it later, and all can check that it is the one; `evaluate` draws a fresh seed and keeps none."


def _device(here: Environment) -> Iterator[str]:
    yield here.device_name
    ranks, gpus = here.details.get("ranks"), here.details.get("gpus")
    if ranks is not None:
        where = f"{len(set(gpus))} GPU" if gpus else "the CPU, where no link is counted"
        yield f"{ranks} ranks, a process each, on {where}"
    for word, value in (
        ("driver", here.driver),
        ("CUDA", here.details.get("cuda")),
        ("", here.details.get("uuid")),
    ):
        if value is not None:
            yield f"{word} {value}".strip()


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
