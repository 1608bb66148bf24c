"""Times candidates on the CPU by the evaluator's real processes, and prints what each came to as JSON, one a line.

A program of its own, since it forks zygotes. The CPU device measures nothing for users; here it shows that whatever is
timed is checked, without a GPU. stdin: {"task": "scaling" (also where it is left out) or "counting", "baseline": source
or null, "beat": number or null, "sources": {name: [the source of the first process, of the next, ...]}, "n": elements,
"graph": true or false, and "segment_s", "step_ms", "noise": those of the policy}.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def main() -> None:
    asked = json.load(sys.stdin)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import torch

    from d2k_agent.contract import Limits
    from d2k_agent.evaluator import server, zygote
    from d2k_agent.isolation import become_subreaper

    become_subreaper()
    interpreting = zygote.start(server._prepare_interpreter)
    torch.set_num_threads(1)

    from d2k_agent.contract.wire import to_data
    from d2k_agent.evaluator.faults import CandidateFault, TaskFault
    from d2k_agent.evaluator.process import CandidateProcess
    from d2k_agent.evaluator.task import LoadedTask
    from d2k_agent.evaluator.timing.results import failure_of, results_of
    from d2k_agent.evaluator.timing.session import Baseline, Comparison, Running, Setting
    from tests.evaluator import counting, scaling
    from tests.evaluator.timed_cpu import TimedCpu, short_policy

    task = {"scaling": scaling.task, "counting": counting.task}[asked.get("task", "scaling")]
    loaded = LoadedTask(task(n=asked["n"]))
    policy = short_policy(asked["graph"], asked["segment_s"], asked["step_ms"], asked["noise"])
    loaded.timing = lambda label: policy  # type: ignore[method-assign]
    limits = Limits(gpu_call_s=20.0, compile_s=30.0)
    setting = Setting(loaded, TimedCpu(), loaded.registered, "5e" * 32, limits, lambda _: None)
    alive = [interpreting.pid]

    def start(source: str) -> CandidateProcess:
        return CandidateProcess(interpreting, source, limits, lambda: alive, unsafe=False)

    def starts(texts: list[str]) -> Callable[[], CandidateProcess]:
        """A process of the first text, then of the next, the last one again and again."""
        left = list(texts)
        return lambda: start(left.pop(0) if len(left) > 1 else left[0])

    baseline = None
    if asked["baseline"] is not None:
        try:
            baseline = Baseline.start(lambda: start(asked["baseline"]), setting)
            alive.extend(baseline.pids)
        except TaskFault as fault:
            print(json.dumps({"task_fault": str(fault)}))
            return
    for name, texts in asked["sources"].items():
        answer: dict[str, Any] = {"name": name}
        try:
            if baseline is not None and not baseline.covers(setting):
                baseline.measure(setting, {})
            with Running(starts(texts)) as running:
                outcome = Comparison(setting, running, baseline, asked["beat"]).run()
            results = [failure_of(outcome)] if outcome.failed else results_of(outcome)
            answer |= {"results": to_data(results), "drift": outcome.drift, "notes": outcome.notes}
            answer |= {"geomean": outcome.geomean_speedup() if not outcome.failed else None}
        except CandidateFault as fault:
            answer |= {"fault": fault.status, "message": fault.message, "violations": to_data(fault.violations)}
        except TaskFault as fault:
            answer |= {"task_fault": str(fault)}
        print(json.dumps(answer), flush=True)
    if baseline is not None:
        baseline.close()


if __name__ == "__main__":
    main()
