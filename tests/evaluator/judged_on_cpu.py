"""Judges candidates with the order of checks that a GPU has, on the CPU device; prints what each came to, one a line.

A program of its own, since it forks zygotes. stdin: a list of {"candidate": source, "baseline": source or null,
"static_rules": whether they are asked, "shipped": slug of a task that ships, timed at its first smoke workload; where
it is left out, the task is that of scaling.py}.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    asked = json.load(sys.stdin)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import torch

    from d2k_agent.evaluator import server, zygote
    from d2k_agent.isolation import become_subreaper

    become_subreaper()
    interpreting, compiling = zygote.start(server._prepare_interpreter), zygote.start(server._prepare_compiler)
    torch.set_num_threads(1)

    from d2k_agent.catalog import find_task
    from d2k_agent.contract import TaskBundle
    from d2k_agent.contract.wire import to_data
    from d2k_agent.evaluator import task as tasks
    from d2k_agent.evaluator.bench import Bench
    from d2k_agent.evaluator.faults import TaskFault
    from d2k_agent.evaluator.judge import judge
    from d2k_agent.isolation import lease
    from tests.evaluator.scaling import job, task
    from tests.evaluator.timed_cpu import TimedCpu, short_policy

    policy = short_policy()
    tasks.LoadedTask.timing = lambda self, label: policy  # type: ignore[method-assign]
    uuid = f"GPU-test-{os.getpid()}"
    bench = Bench(interpreting, compiling, interpreting, "digest", (steps := []).append)
    bench._devices["cpu"] = TimedCpu(uuid)

    def shrunk(slug: str) -> TaskBundle:
        """A task that ships, with its first smoke workload as the one that is registered."""
        bundle = find_task(slug).bundle()
        config, hidden = json.loads(bundle.public["config.json"]), json.loads(bundle.hidden["workloads.json"])
        small = hidden["smoke"][0]
        config["workloads"] = [{**small, "label": "small", "specialization_params": {}}]
        hidden |= {"smoke": [small], "variations": hidden["variations"][:1]}
        public = {**bundle.public, "config.json": json.dumps(config)}
        return TaskBundle(bundle.slug, public, {**bundle.hidden, "workloads.json": json.dumps(hidden)})

    def waits(text: str) -> None:
        raise AssertionError(f"the lease is still held: {text}")

    for item in asked:
        steps.clear()
        answer: dict[str, Any] = {}
        try:
            slug = item.pop("shipped", None)
            bundle = shrunk(slug) if slug else task(n=2000)
            verdict = judge(bench, job(item.pop("candidate"), device="cpu", task=bundle, **item))
            answer = {"status": verdict.status, "message": verdict.message, "results": to_data(verdict.workloads)}
        except TaskFault as fault:
            answer = {"task_fault": str(fault)}
        with lease.hold([uuid], waits):
            answer |= {"steps": steps, "baselines": sum(not known.ended for known in bench._baselines.values())}
        print(json.dumps(answer), flush=True)
    for baseline in bench._baselines.values():
        baseline.close()


if __name__ == "__main__":
    main()
