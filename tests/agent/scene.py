"""A small world for the loop: a run folder, real tools that work on its workspace, and verdicts by a simple rule.

Everything here is the product's own: the toolbox with tools that run on the host, the scripted model and the launcher
for dry runs. A solution's first line decides its verdict: `# speedup 2.5`, `# untimed`, anything else is incorrect.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from d2k_agent.agent import Confirm, Outcome, run_agent, submission_data
from d2k_agent.config import RunConfig
from d2k_agent.contract import (
    Check,
    Environment,
    EvaluatorJob,
    JobKind,
    Measurement,
    TaskBundle,
    Verdict,
    VerdictStatus,
    WorkloadResult,
)
from d2k_agent.launchers import FakeLauncher
from d2k_agent.models import Model, ModelReply, ScriptedModel, Usage
from d2k_agent.records import Event, RunFolder, RunRecord
from d2k_agent.sandbox import Isolation, Sandbox
from d2k_agent.toolbox import HostAnswer, HostTool, Toolbox, ToolSpec

WORKLOADS = ("small", "large")
HERE = Environment("host", "cpu", "cpu", "b200", "none", "3.11", "2.13", "3.7", "e" * 64, "t" * 64)

Requests = list[bytes]


def new_run(
    path: Path, turns: int = 20, workloads: Sequence[str] = WORKLOADS, budget_usd: float | None = None, **config: Any
) -> RunFolder:
    """A run in which nothing has happened; `config` holds further fields of its configuration."""
    whole = RunConfig(task="muon", model="scripted/test", turns=turns, budget_usd=budget_usd, **config)
    record = RunRecord(run_id="r", config=whole, task_slug="muon", task_digest="d", workloads=tuple(workloads))
    run = RunFolder.create(path, record)
    (run.workspace / "solution.py").write_text("# template\n")
    (run.workspace / "task_description.md").write_text("Add two numbers.\n")
    return run


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """One tool call of a scripted reply."""
    return {"name": name, "arguments": arguments}


def reply(*calls: dict[str, Any], content: str = "") -> dict[str, Any]:
    """A scripted reply that makes these calls."""
    return {"content": content, "tool_calls": list(calls)}


def hand_in(text: str) -> dict[str, Any]:
    """A reply that writes a solution and submits it."""
    return reply(call("write", path="solution.py", content=text), call("submit"))


def scripted(replies: Sequence[Any], requests: Requests | None = None) -> ScriptedModel:
    """A model that gives `replies`, and notes each request as the bytes that a provider would see."""

    def policy(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Any:
        if requests is not None:
            requests.append(request_bytes(messages, tools))
        return script.complete(messages, tools).message

    script = ScriptedModel(replies, "scripted/test")
    return ScriptedModel(policy, "scripted/test")


class Counted:
    """A model whose replies were counted and priced: every one the same."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model

    def complete(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> ModelReply:
        return replace(self._model.complete(messages, tools), usage=Usage(10, 20, 30, 5), cost_usd=0.25)


def request_bytes(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> bytes:
    """A request in a form whose prefixes are the prefixes of the conversation."""
    return json.dumps(list(tools)).encode() + b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def drive(
    run: RunFolder,
    model: Model,
    tools: Toolbox | None = None,
    progress: Callable[[Event], None] = lambda event: None,
    confirm: Confirm | None = None,
) -> Outcome:
    """Drive `run` to its end."""
    config = run.read_record().config
    return run_agent(run, config, model, tools or toolbox(run), progress, confirm)


def toolbox(run: RunFolder, **host: Callable[[Mapping[str, Any]], HostAnswer]) -> Toolbox:
    """The tools of a run; `host` replaces or adds some."""
    tools: dict[str, HostTool] = {**tools_of(run), **host}
    specs = {name: _spec(name) for name in tools}
    sandbox = Sandbox(Isolation("none"), run.workspace, unsafe_no_sandbox=True)
    return Toolbox(specs, sandbox, run.workspace, tools, {})


def _spec(name: str) -> ToolSpec:
    wanted = {"write": ("path", "content"), "read": ("path",), "bash": ("command",)}.get(name, ())
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string"} for argument in wanted},
        "required": list(wanted),
        "additionalProperties": False,
    }
    return ToolSpec(name, f"The tool {name}.", parameters, "host", 60.0, 20000)


def tools_of(run: RunFolder) -> dict[str, HostTool]:
    launcher = FakeLauncher(judge)

    def write(arguments: Mapping[str, Any]) -> HostAnswer:
        (run.workspace / arguments["path"]).write_text(arguments["content"])
        return HostAnswer("ok", f"wrote {arguments['path']}")

    def read(arguments: Mapping[str, Any]) -> HostAnswer:
        path = run.workspace / arguments["path"]
        return HostAnswer("ok", path.read_text()) if path.exists() else HostAnswer("error", "no such file")

    def bash(arguments: Mapping[str, Any]) -> HostAnswer:
        with (run.workspace / "commands.txt").open("a") as file:
            file.write(f"{arguments['command']}\n")
        return HostAnswer("ok", arguments["command"])

    def submit(arguments: Mapping[str, Any]) -> HostAnswer:
        source = (run.workspace / "solution.py").read_text()
        verdict = launcher.launch(EvaluatorJob(JobKind.EVALUATE, TaskBundle("muon", {}, {}), source, "0" * 64, "b200"))
        return HostAnswer("ok", verdict.message, submission_data(source, verdict))

    def compiling(arguments: Mapping[str, Any]) -> HostAnswer:
        return HostAnswer("ok", "it compiles", {"registers": 40})

    return {"write": write, "read": read, "bash": bash, "submit": submit, "compile": compiling, "profile": compiling}


def slowly(
    tool: Callable[[Mapping[str, Any]], HostAnswer], seconds: float
) -> Callable[[Mapping[str, Any]], HostAnswer]:
    """The same tool, taking longer."""

    def slow(arguments: Mapping[str, Any]) -> HostAnswer:
        time.sleep(seconds)
        return tool(arguments)

    return slow


def judge(job: EvaluatorJob) -> Verdict:
    """The verdict that the first line of a solution asks for."""
    words = job.candidate.partition("\n")[0].split()
    if words[1:2] == ["speedup"]:
        return passed(job.candidate_sha256, float(words[2]))
    if words[1:2] == ["untimed"]:
        return Verdict(VerdictStatus.UNTIMED, job.candidate_sha256, "correct, not timed", HERE)
    result = WorkloadResult("small", VerdictStatus.INCORRECT, (Check("result", "rel_norm", 0.5, 0.012, False),))
    return Verdict(VerdictStatus.INCORRECT, job.candidate_sha256, "small: wrong", HERE, workloads=(result,))


def passed(sha256: str, speedup: float, workloads: Sequence[str] = WORKLOADS) -> Verdict:
    """A verdict on a candidate that is `speedup` times as fast as a baseline of 2 ms everywhere."""
    measurement = Measurement(2.0 / speedup, 1000, 5, 2.001 / speedup, "graph_rotating")
    results = tuple(
        WorkloadResult(
            label,
            VerdictStatus.PASSED,
            (Check("result", "rel_norm", 0.003, 0.012, True),),
            mean_ms=measurement.mean_ms,
            speedup=speedup,
            rel_norm=0.003,
            measurement=measurement,
            message=f"{measurement.mean_ms} ms",
        )
        for label in workloads
    )
    return Verdict(
        VerdictStatus.PASSED,
        sha256,
        f"passed at {measurement.mean_ms} ms",
        HERE,
        workloads=results,
        geomean_speedup=speedup,
        notes=(f"{speedup} times",),
        seconds={"correctness": 1.5},
    )
