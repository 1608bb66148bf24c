"""Words for the author of a kernel: which kernel, which line of solution.py, what is wrong and what would help."""

from __future__ import annotations

import os
import re
import traceback
from dataclasses import dataclass
from pathlib import Path

from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from d2k_agent.evaluator.compilation.compiler import CompilerFailed, Request
from d2k_agent.evaluator.compilation.stub_driver import LaunchRefused
from d2k_agent.evaluator.compilation.targets import Target
from d2k_agent.evaluator.solution import NoRun

MAX_CHARS = 3500
EXCERPT_LINES = 4


@dataclass(frozen=True)
class Failure:
    """`kind` as CompileReport.error_kind has it: compile, launch, run, exit or time."""

    kind: str
    text: str


class CandidateSource:
    """The text of solution.py, for finding lines in it."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.text = Path(path).read_text(encoding="utf-8", errors="replace")

    def line_of(self, function_source: str | None) -> int | None:
        """The line where a function's source begins; None when it is not in this file, or not exactly once."""
        if not function_source or self.text.count(function_source) != 1:
            return None
        return self.text[: self.text.index(function_source)].count("\n") + 1

    def kernel_line(self, request: Request) -> int | None:
        """The line of a kernel's `def`."""
        return self.line_of(str(request.source.fn.src))

    def last_line(self, problem: BaseException) -> int | None:
        """The line of solution.py that was being executed when `problem` was raised."""
        frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == self.path]
        return frames[-1].lineno if frames else None

    def portable(self, text: str) -> str:
        """`text` without the folders of this machine."""
        return re.sub(r"(?<![^\s'\"(])/[^\s/]\S*/", "", text.replace(self.path, "solution.py"))


def describe(problem: BaseException, source: CandidateSource, request: Request | None, target: Target) -> Failure:
    """One failure in a few lines. `request` is the kernel asked for last."""
    called, kind = source.last_line(problem), "compile"
    kernel = _kernel(source, request, called)
    if isinstance(problem, CompilationError):
        text = _frontend(problem, source, kernel)
    elif isinstance(problem, OutOfResources):
        kind, text = "launch", _resources(problem, kernel, target)
    elif isinstance(problem, PTXASError):
        text = f"{kernel} passes Triton, but ptxas refuses its PTX: {_ptxas(str(problem))}"
    elif isinstance(problem, CompilerFailed):
        text = f"{kernel} cannot be compiled for {target.name}: {problem}. Try a simpler form or other tile sizes."
    elif isinstance(problem, SystemExit):
        kind, text = "exit", f"the code left with SystemExit({problem.code!r}){_at(called)}; it must return or raise"
    elif isinstance(problem, LaunchRefused):
        kind, text = "launch", f"{kernel} cannot be launched: {problem}"
    elif isinstance(problem, NoRun):
        kind, text = "run", str(problem)
    else:
        kind, text = "run", f"{type(problem).__name__}{_at(called)}: {problem}"
    text = source.portable(text)
    return Failure(kind, text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 20] + " ... (cut)")


def _at(line: int | None) -> str:
    return "" if line is None else f" at solution.py line {line}"


def _kernel(source: CandidateSource, request: Request | None, called: int | None) -> str:
    if request is None:
        return "a kernel"
    line = source.kernel_line(request)
    places = [f"line {line}"] if line else []
    places += [f"launched by line {called}"] if called else []
    return f"kernel {request.name}" + (f" ({', '.join(places)})" if places else "")


def _frontend(problem: CompilationError, source: CandidateSource, kernel: str) -> str:
    """The deepest error of the chain has the reason; the deepest one that lies in solution.py has the line."""
    chain = [problem]
    while isinstance(chain[-1].__cause__, CompilationError):
        chain.append(chain[-1].__cause__)
    reason = str(chain[-1].error_message or chain[-1].__cause__ or "no reason given")
    for error in reversed(chain):
        begin, node_line = source.line_of(error.src), getattr(error.node, "lineno", None)
        if begin is not None and node_line is not None:
            line = begin + node_line - 1
            lines = source.text.splitlines()[max(0, line - EXCERPT_LINES) : line]
            numbered = [f"{line - len(lines) + 1 + i:5d} | {text}" for i, text in enumerate(lines)]
            caret = " " * (8 + int(getattr(error.node, "col_offset", 0))) + "^"
            return f"{kernel} does not compile: solution.py line {line}: {reason}\n" + "\n".join([*numbered, caret])
    return f"{kernel} does not compile: {reason}\n{problem}"


def _resources(problem: OutOfResources, kernel: str, target: Target) -> str:
    unit, cure = {
        "shared memory": (" bytes", "Use smaller tiles or fewer num_stages."),
        "tensor memory": (" columns", "Use smaller accumulator tiles or fewer accumulators at once."),
        "threads": (" threads a block", "Use fewer num_warps."),
    }.get(problem.name, ("", "Use less of it."))
    return (
        f"{kernel} does not fit {target.name}: it needs {problem.required}{unit} of {problem.name}, "
        f"{problem.limit}{unit} are available. {cure}"
    )


def _ptxas(text: str) -> str:
    """The lines in which ptxas complains, without the command that reproduces it."""
    lines = [line.strip() for line in text.partition("Repro command:")[0].splitlines()]
    complaints = [line for line in lines if re.search(r"error|fatal|refused", line, re.IGNORECASE) and "ptxas" in line]
    return " ".join((complaints or lines)[:6])
