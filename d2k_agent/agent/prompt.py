"""The words that a run begins with, and the ones that the loop itself says. All are byte-stable: a changed prefix is
paid for as uncached input on every turn."""

from __future__ import annotations

from collections.abc import Iterable

from d2k_agent.models import Message

GUIDANCE = "guidance"
"""How the name of the file begins that holds it."""
SYSTEM = """\
You are an expert in GPU kernels. You work on one task in a folder of your own, and only through the tools given to you.

Your product is solution.py in that folder. An evaluator outside of your reach judges it: first it must be correct on \
every workload and follow the rules of the task, then it is timed. Among your accepted submissions the fastest one \
stands, so hand in a correct version early and improve it step by step. A submission that is worse than an earlier one \
takes nothing away.

How to work:
- Read the task's files before you write.
- Change solution.py, look at what the compiler and the evaluator answer, and decide the next change from that.
- Every reply calls at least one tool. Nobody answers questions; decide for yourself and go on.
- When you are sure that nothing is left to gain, say so without calling a tool."""

_ROLES = {
    "task_description.md": "what is to be computed, and what counts",
    "config.json": "the workloads with their shapes",
    "get_inputs.py": "how the inputs are made",
    "reference.py": "the computation in plain PyTorch; it defines correctness",
    "implementation_requirements.yaml": "what an implementation may use and must not use",
    "solution.py": "the template; this file is your work",
}
_GUIDANCE_ROLE = "design guidance from experts for this task; read it before you design"
_GUIDANCE_BELOW = "design guidance from experts for this task; it stands below"
_GUIDANCE_HEAD = "\n\nThe design guidance from experts, whole, as it stands in the workspace:\n"

BRIEF_LEGEND = """\
How answers are written:
- submit: the verdict, then the compiler's report. `passed` comes with the geometric mean of the speedups over the \
baseline, then a row a workload. `untimed` is correct, but candidates ran on a CPU here: no latency, no rank.
- compile: what all variants of a kernel share stands behind its name, what differs in rows below it or as a|b|c. regs \
is registers a thread, shared and spill are bytes, tmem is columns; instructions are counted in the PTX. What is 0 is \
left out. It says that kernels compile and fit, not that they are right or fast.
- profile: one call of run(), its slowest kernels first, in percent of the peak. Kernels run one at a time there, \
each several times: durations show where time goes, they are no latency. What counts is what submit measures.
- [as in the answer to TOOL, turn N] stands for a passage of that answer, word for word. Turns are your replies that \
call tools, counted from 1."""
"""Whatever would else stand in every answer of a run whose wording is brief."""
COMPACTION_LEGEND = """\
From time to time old answers are shortened to their first line, marked [shortened]. Files are as you left them; \
call a tool again to see more."""

NUDGE = (
    "That reply called no tool, so nothing happened. Go on with a tool call. If the work is done, go on answering "
    "without one: the third such reply in a row ends the run with the best of your submissions."
)
NUDGE_CUT = (
    "That reply was cut off by the limit on output tokens before it called a tool, so nothing happened. Be brief, and "
    "call a tool."
)
CUT_CALL = (
    "Not executed: the reply reached the limit on output tokens, so this call may be incomplete. Send it again, in "
    "smaller pieces if it is long."
)
DUPLICATE_CALL = (
    "Not executed: this reply holds the same call twice, under one id. It was executed once; its result stands with "
    "the first."
)
STOPPED = "Not executed: the run was asked to stop."


def opening(
    files: Iterable[str],
    tools: Iterable[str],
    *,
    brief: bool = False,
    compacts: bool = False,
    guidance: str | None = None,
) -> list[dict[str, str]]:
    """The first two messages, for a workspace that holds `files` and an agent that has `tools` (names).

    `brief`: answers are worded so; `compacts`: old ones are shortened. `guidance` is the text of the guidance file,
    where it is told here and need not be read. Nothing in them varies between runs of a task with the same levels,
    tools and protocol, so that these share a cached prefix too.
    """
    lines = []
    for name in sorted(files):
        guiding = _GUIDANCE_BELOW if guidance else _GUIDANCE_ROLE
        role = guiding if name.startswith(GUIDANCE) else _ROLES.get(name)
        lines.append(f"- {name}: {role}" if role else f"- {name}")
    legend = [BRIEF_LEGEND] * brief + [COMPACTION_LEGEND] * compacts
    legend += [""] * bool(legend)
    text = "\n".join(
        (
            "The workspace holds:",
            *lines,
            "",
            f"Tools: {', '.join(tools)}.",
            "",
            *legend,
            "Write solution.py so that it passes the evaluation on every workload and is as fast as you can make it.",
        )
    )
    text += f"{_GUIDANCE_HEAD}{guidance}" if guidance else ""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]


def guidance_in(messages: Iterable[Message]) -> str | None:
    """The guidance that the opening `messages` tell, None where they tell none."""
    texts = (str(message.get("content")).partition(_GUIDANCE_HEAD)[2] for message in messages)
    return next((text for text in texts if text), None)


def too_many_calls(limit: int) -> str:
    """The answer to a call beyond the number that one reply may make."""
    return f"Not executed: one reply may make at most {limit} calls. Send this call again in the next reply."


def bad_arguments(problem: str) -> str:
    """The answer to a call whose arguments are no JSON object."""
    return f"Not executed: the arguments are not a JSON object ({problem}). Send the call again with valid JSON."
