"""Judges and times sources on several ranks on the CPU, and prints what each came to as JSON, one a line.

A program of its own, since it forks zygotes. Asked on stdin: {"judged": [[name, changes of the job], ...],
"expert": whether that of the task that ships is judged on a small workload,
"timed": [[name, changes of the policy], ...], "jobs": [[name, changes of the job], ...]}, names being those of
shifting.py. "jobs" are judged by one evaluator as on a machine that times, with HONEST as their baseline. Each line
also says which processes were left over.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    asked = json.load(sys.stdin)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import torch

    from d2k_agent.contract import EvaluatorJob, JobKind, Limits
    from d2k_agent.evaluator import server, zygote
    from d2k_agent.isolation import become_subreaper

    become_subreaper()
    interpreting = zygote.start(server._prepare_interpreter)
    torch.set_num_threads(1)

    from d2k_agent.contract.wire import to_data
    from d2k_agent.evaluator.bench import Bench
    from d2k_agent.evaluator.faults import TaskFault
    from d2k_agent.evaluator.judge import judge
    from d2k_agent.evaluator.ranks import checking
    from tests.evaluator.ranks import shifting

    bench = Bench(interpreting, interpreting, None, "digest", lambda _: None)
    for name, changes in asked["judged"]:
        source = getattr(shifting, name)
        checking.INTERPRETED_S = changes.pop("interpreted_s", 60.0)
        job = EvaluatorJob(
            JobKind(changes.pop("kind", "evaluate")),
            shifting.task(),
            source,
            "5e" * 32,
            "b200",
            device="cpu",
            workloads=tuple(changes.pop("workloads", ("smoke_n64",))),
            limits=Limits(call_s=changes.pop("call_s", 30.0)),
            **changes,
        )
        try:
            verdict = judge(bench, job)
            answer: dict[str, Any] = {"status": verdict.status, "message": verdict.message}
            answer |= {"results": to_data(verdict.workloads), "details": verdict.environment.details}
            answer |= {"seconds": verdict.seconds}
        except TaskFault as fault:
            answer = {"task_fault": str(fault)}
        print(json.dumps({"name": name, "left": left({interpreting.pid}), **answer}), flush=True)
    if asked["expert"]:
        job = EvaluatorJob(JobKind.EVALUATE, *dispatch(), "5e" * 32, "b200", device="cpu", workloads=("tiny",))
        verdict = judge(bench, job)
        told = {"status": verdict.status, "message": verdict.message, "results": to_data(verdict.workloads)}
        print(json.dumps({"name": "expert", "left": left({interpreting.pid}), **told}), flush=True)
    for name, changes in asked["timed"]:
        answer = timed(interpreting, getattr(shifting, name), **changes)
        print(json.dumps({"name": f"timed {name}", "left": left({interpreting.pid}), **answer}), flush=True)
    for answer in in_one_bench(interpreting, asked["jobs"]):
        print(json.dumps({**answer, "left": left({interpreting.pid})}), flush=True)


def dispatch() -> tuple[Any, str]:
    """The task ep_dispatch_fp8 with a workload of a few tokens and nothing else, and its expert."""
    from d2k_agent.catalog import find_task, guidance_dir

    bundle = find_task("ep_dispatch_fp8").bundle()
    tiny = {"label": "tiny", "tokens": 3, "hidden": 128, "experts": 4, "topk": 2}
    hidden = {**json.loads(bundle.hidden["workloads.json"]), "smoke": [tiny], "variations": [], "repeat_calls": 1}
    files = {**bundle.hidden, "workloads.json": json.dumps(hidden)}
    source = Path(guidance_dir(), "ep_dispatch_fp8", "expert.py").read_text(encoding="utf-8")
    return dataclasses.replace(bundle, hidden=files), source


def timed(
    interpreting: Any,
    source: str,
    graph: bool = False,
    segment_s: float = 0.3,
    step_ms: float = 20.0,
    audit: float = 3.0,
) -> dict[str, Any]:
    """What timing a source came to, with tolerances for a machine that has other work to do."""
    from d2k_agent.contract import Limits
    from d2k_agent.contract.wire import to_data
    from d2k_agent.evaluator.faults import CandidateFault
    from d2k_agent.evaluator.process import CandidateProcess
    from d2k_agent.evaluator.ranks.choosing import device_for, load_task, processes
    from d2k_agent.evaluator.timing.results import failure_of, results_of
    from d2k_agent.evaluator.timing.session import Comparison, Running, Setting
    from tests.evaluator.ranks import shifting
    from tests.evaluator.timed_cpu import TimedCpu, short_policy

    loaded = load_task(shifting.task(), None)
    policy = dataclasses.replace(short_policy(graph, segment_s, step_ms), graph_calls=3, audit=audit)
    loaded.timing = lambda label: policy  # type: ignore[method-assign]
    limits = Limits(gpu_call_s=20.0, compile_s=30.0)
    device = device_for(loaded, TimedCpu())
    setting = Setting(loaded, device, loaded.registered, "5e" * 32, limits, lambda _: None)

    def start(gpu: int) -> CandidateProcess:
        alive = [interpreting.pid]
        return CandidateProcess(interpreting, source, limits, lambda: alive, unsafe=False, gpu=gpu)

    with Running(lambda: processes(start, device, gathers=False)) as running:
        try:
            outcome = Comparison(setting, running, None, None).run()
        except CandidateFault as fault:
            return {"message": fault.message, "violations": [item.check for item in fault.violations]}
    return {"results": to_data([failure_of(outcome)] if outcome.failed else results_of(outcome))}


def in_one_bench(interpreting: Any, jobs: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What each job came to. Nothing is compiled: the compiler's report is there before."""
    from d2k_agent.contract import CompileReport, EvaluatorJob, JobKind, Limits
    from d2k_agent.contract.wire import to_data
    from d2k_agent.evaluator import task as tasks
    from d2k_agent.evaluator.bench import Bench
    from d2k_agent.evaluator.faults import TaskFault
    from d2k_agent.evaluator.judge import judge
    from d2k_agent.evaluator.ranks.choosing import load_task
    from d2k_agent.evaluator.timing import policy as rules
    from d2k_agent.evaluator.timing import session
    from tests.evaluator.ranks import shifting
    from tests.evaluator.timed_cpu import TimedCpu, short_policy

    in_graphs = dataclasses.replace(short_policy(True, segment_s=0.2), id="graph_rotating", graph_calls=3)
    tasks.LoadedTask.timing = lambda self, label: in_graphs  # type: ignore[method-assign]
    # Only what gathers is timed by this one: its clocks never agree.
    rules.EVENTS_BATCH = dataclasses.replace(short_policy(segment_s=0.2), id="events_batch", wall=0.0)
    session.MOST_DRIFT = 9.0  # type: ignore[attr-defined]
    bench = Bench(interpreting, interpreting, interpreting, "digest", (steps := list[str]()).append)
    bench._devices["cpu"] = TimedCpu()
    bundle, limits = shifting.task(), Limits(call_s=30.0, gpu_call_s=30.0)
    digest, answers = load_task(bundle, None).digest, []
    for name, changes in jobs:
        source = getattr(shifting, name)
        job = EvaluatorJob(
            JobKind.EVALUATE, bundle, source, "5e" * 32, "b200", baseline=shifting.HONEST, limits=limits, device="cpu",
            static_rules=False, **changes,
        )  # fmt: skip
        bench.reports[digest, job.candidate_sha256, "b200 ['large'] 2"] = CompileReport(
            "b200", "sm_100", "", (), ("large",)
        )
        steps.clear()
        try:
            verdict = judge(bench, job)
            judged = [result for result in verdict.workloads if result.registered or not result.status.acceptable]
            answer = {"status": verdict.status, "message": verdict.message, "notes": verdict.notes}
            answer |= {"results": to_data(judged), "drift": verdict.drift}
        except TaskFault as fault:
            answer = {"task_fault": str(fault)}
        answers.append({"name": f"job {name}", "steps": list(steps), **answer})
    for baseline in bench._baselines.values():
        baseline.close()
    return answers


def left(kept: set[int]) -> list[int]:
    """Children of this process beside those."""
    told = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return sorted({int(pid) for pid in told} - kept)


if __name__ == "__main__":
    main()
