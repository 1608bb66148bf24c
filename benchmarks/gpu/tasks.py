"""What a task's reference, baseline and expert take on the GPU that is here, and how well that is measured.

    python benchmarks/gpu/tasks.py muon [--repeats 10] [--json FILE] [--write]
    python benchmarks/gpu/tasks.py muon --only-spread short,long --repeats 20
    python benchmarks/gpu/tasks.py ep_dispatch_fp8 --ranks 4

One evaluator, one session, the shipped timing policies. First the three sources on every registered workload, with all
clocks; the expert is measured A B B A with the baseline. Then the spread: the same source in fresh candidate processes,
as a user's submissions would be, for a call of a few microseconds (short), one of a few milliseconds (long) and the
task's first workload (first). `overhead` is what a submission takes beyond compiling, tuning and timed calls, with the
evaluator warm.

A task for several ranks has one on each GPU, and the bytes that each sends over its links in a call stand beside those
that have to cross. Where there are fewer GPUs, ranks share them, and nothing is stored.

Needs one NVIDIA GPU, torch and triton; nothing of the controller. Each result is appended to FILE as it is measured,
and what FILE holds already is not measured again. --write stores the latencies as hidden/baselines.json of the task.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import runpy
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from d2k_agent.app.proving import shortcoming
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import Task, find_task
from d2k_agent.contract import EvaluatorJob, JobKind, TaskBundle, Verdict, VerdictStatus, source_sha256
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.launchers import ProcessLauncher
from d2k_agent.reports.tables import table
from tests.evaluator import scaling

SPREADS = ("short", "long", "first")
NEVER = 1e9
"""A speedup that nothing beats: the source is measured once, without A B B A."""


class Session:
    """One evaluator and the file of results. What was judged before counts where every text it rests on is the same."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self._known: dict[str, dict[str, Any]] = {item["key"]: item for item in map(json.loads, lines)}
        self._began = time.monotonic()
        self._id = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {secrets.token_hex(4)}"
        self._launcher = ProcessLauncher(here().evaluator_environment(), progress=self._say)

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {text}", file=sys.stderr, flush=True)

    def judge(self, name: str, job: EvaluatorJob) -> dict[str, Any]:
        """The verdict on a job as data, with `session`; from the file where it is known. Exits where it is no pass."""
        texts = [
            job.task.digest,
            job.candidate,
            job.baseline or "",
            job.kind.value,
            *([str(job.ranks)] * bool(job.ranks)),
        ]
        key = f"{name} {source_sha256(chr(0).join(texts))}"
        if key not in self._known:
            self._say(f"== {name}")
            verdict = self._launcher.launch(job)
            if verdict.status is not VerdictStatus.PASSED:
                sys.exit(f"{name}: {verdict.status}: {verdict.message}")
            item = {"key": key, "session": self._id, "verdict": to_data(verdict)}
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(item) + "\n")
            self._known[key] = item
        return {**self._known[key]["verdict"], "session": self._known[key]["session"]}

    def close(self) -> None:
        """End the evaluator."""
        self._launcher.close()


def job(bundle: TaskBundle, source: str, baseline: str | None, **options: Any) -> EvaluatorJob:
    """A job under a fresh seed, for the GPU that is here."""
    return EvaluatorJob(
        kind=options.pop("kind", JobKind.EVALUATE),
        task=bundle,
        candidate=source,
        seed=secrets.token_hex(32),
        target=None,
        device="cuda",
        baseline=baseline,
        **options,
    )


def sources_of(task: Task) -> dict[str, str]:
    """reference, baseline and expert as texts."""
    assert task.guidance is not None
    return {
        "reference": task.bundle().public["reference.py"],
        "baseline": (task.guidance / "baseline.py").read_text(encoding="utf-8"),
        "expert": (task.guidance / "expert.py").read_text(encoding="utf-8"),
    }


def latencies(session: Session, task: Task, ranks: int | None = None) -> dict[str, dict[str, Any]]:
    """The verdict on each of the three sources."""

    def asked(source: str, **options: Any) -> EvaluatorJob:
        return job(bundle, source, baseline, ranks=ranks, **options)

    sources, bundle = sources_of(task), task.bundle()
    baseline = sources["baseline"]
    return {
        "reference": session.judge("reference", asked(sources["reference"], beat=NEVER, trusted=True)),
        "baseline": session.judge("baseline", asked(baseline, beat=NEVER, kind=JobKind.CONFIRM)),
        "expert": session.judge("expert", asked(sources["expert"], kind=JobKind.CONFIRM)),
    }


def spreads(session: Session, task: Task, repeats: int, wanted: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Verdicts on the same source in fresh processes, by what was wanted: SPREADS."""
    label = task.workloads[0].label
    quick, expert = _without_variations(task.bundle()), sources_of(task)["expert"]
    makes: dict[str, Callable[[], EvaluatorJob]] = {
        "short": lambda: job(scaling.task(n=1 << 20, mode="graph"), scaling.HONEST, None),
        "long": lambda: job(scaling.task(n=1 << 30), scaling.TWICE, None),
        "first": lambda: job(quick, expert, None, workloads=(label,)),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for number in range(repeats):
        for name in wanted:
            found[name].append(session.judge(f"{name} {number}", makes[name]()))
    return found


def _without_variations(bundle: TaskBundle) -> TaskBundle:
    """The task with one smoke workload and no hidden variation: what is repeated here is the timing."""
    data = json.loads(bundle.hidden["workloads.json"])
    data |= {"smoke": data["smoke"][:1], "variations": [], "repeat_calls": 2}
    return dataclasses.replace(bundle, hidden={**bundle.hidden, "workloads.json": json.dumps(data)})


def registered(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """The measured workloads of a verdict."""
    return [result for result in verdict["workloads"] if result["measurement"] is not None]


def overhead_s(verdict: dict[str, Any]) -> float:
    """Seconds of a job beyond compiling, tuning, timed calls, and the baseline that only the first job waits for."""
    seconds = verdict["seconds"]
    steps = sum(value for name, value in seconds.items() if "." not in name)
    tuning = sum(value for name, value in seconds.items() if name.endswith(".tuning"))
    once = seconds.get("compile", 0.0) + seconds.get("baseline", 0.0)
    return float(steps - once - tuning - seconds["timing.timed"])


def latency_lines(verdicts: dict[str, dict[str, Any]]) -> list[str]:
    """Machine, table, and the scores over the baseline."""
    environment = verdicts["expert"]["environment"]
    versions = ", ".join(f"{name} {environment[name]}" for name in ("driver", "torch", "triton"))
    scores = [f"{name} {_number(verdicts[name]['geomean_speedup'])}" for name in ("reference", "expert")]
    return [
        f"{environment['device_name']}, {versions}",
        "",
        clocks_table(verdicts),
        "",
        f"geometric-mean speedup over the baseline: {', '.join(scores)}",
        f"drift of the baseline: {_number(verdicts['expert']['drift'])}",
        "",
    ]


def clocks_table(verdicts: dict[str, dict[str, Any]]) -> str:
    """A line a source and workload: the four clocks, the error, the speedup over the baseline."""
    heads = ("source", "workload", "ms", "outside", "audit", "device", "rel_norm", "speedup", "SM MHz", "W")
    rows = []
    for name, verdict in verdicts.items():
        for result in registered(verdict):
            clock = result["measurement"]
            values = [clock[key] for key in ("mean_ms", "outside_ms", "audit_ms", "device_ms")]
            rest = (result["rel_norm"], result["speedup"], clock["sm_mhz"], clock["power_w"])
            rows.append((name, result["label"], *(_number(value) for value in (*values, *rest))))
    return table(heads, rows, heads[2:])


def link_table(task: Task, verdicts: dict[str, dict[str, Any]]) -> str:
    """A line a source and workload of a task for several ranks: MB a call over each one's links, and what must."""
    ranks = verdicts["expert"]["environment"]["details"]["ranks"]
    required = runpy.run_path(str(task.folder / "hidden" / "check.py"))["link_bytes"]
    compulsory = {workload.label: required({**workload.params, "ranks": ranks}) for workload in task.workloads}
    heads = ("source", "workload", "compulsory MB", *(f"rank {rank}" for rank in range(ranks)))
    rows = []
    for name, verdict in verdicts.items():
        for result in registered(verdict):
            sent = result["measurement"]["link_bytes"] or [None] * ranks
            counts = [None if count is None else count / 1e6 for count in (compulsory[result["label"]], *sent)]
            rows.append((name, result["label"], *map(_number, counts)))
    return table(heads, rows, heads[2:])


def unstorable(verdicts: dict[str, dict[str, Any]], ranks: int | None) -> str:
    """Why latencies of several ranks do not stand for the task; empty where they do, or it is for one."""
    details = verdicts["expert"]["environment"]["details"]
    if ranks is not None:
        return "the task's own number of ranks is the one that is stored: leave --ranks out"
    shared = len(set(details.get("gpus", []))) < details.get("ranks", 1) > 1
    return "ranks shared a GPU, so that nothing crossed a link: use a machine with a GPU for each" if shared else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def spread_lines(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The coefficient of variation over fresh processes, and the overhead of a submission."""
    lines = []
    for name, verdicts in found.items():
        means = [registered(verdict)[0]["measurement"]["mean_ms"] for verdict in verdicts]
        beyond = [overhead_s(verdict) for verdict in verdicts[1:] or verdicts]
        spread = statistics.stdev(means) / statistics.mean(means) if len(means) > 1 else float("nan")
        lines.append(
            f"{name}: {statistics.mean(means):.6g} ms, coefficient of variation {spread:.2%} over {len(means)} fresh "
            f"processes (aim 0.3 %), overhead {statistics.median(beyond):.1f} s a submission (aim 1.5 s)"
        )
    return lines


def baselines(verdicts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The contents of hidden/baselines.json: milliseconds by workload and source, and where they come from.

    Exits where they come from different sessions: such latencies are not to be compared. And where the expert uses up
    more of a gate than it may: the task is not to be shipped as it is.
    """
    sessions = {verdict["session"] for verdict in verdicts.values()}
    if len(sessions) > 1:
        sys.exit("the three sources were measured in different sessions; give a new file for --json and measure anew")
    (session,) = sessions
    judged = {name: value for name, value in verdicts["expert"].items() if name != "session"}
    if told := shortcoming(from_data(Verdict, judged)):
        sys.exit(f"baselines.json is not written: {told}")
    environment = verdicts["expert"]["environment"]
    labels = [result["label"] for result in registered(verdicts["expert"])]
    by_source = {
        name: {result["label"]: result["measurement"]["mean_ms"] for result in registered(verdict)}
        for name, verdict in verdicts.items()
    }
    return {
        "workloads": {
            label: {f"{name}_ms": float(f"{values[label]:.6g}") for name, values in by_source.items()}
            for label in labels
        },
        "provenance": {
            "device": environment["device_name"],
            "driver": environment["driver"],
            "torch": environment["torch"],
            "triton": environment["triton"],
            "python": environment["python"],
            "policy": ", ".join(
                dict.fromkeys(item["measurement"]["policy"] for item in registered(verdicts["expert"]))
            ),
            "date": session[:10],
            "task_digest": environment["task_digest"],
            "evaluator_digest": environment["evaluator_digest"],
            "sha256": {name: verdict["candidate_sha256"] for name, verdict in verdicts.items()},
            "method": "benchmarks/gpu/tasks.py: one evaluator, one session; the expert A B B A with the baseline",
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="a slug")
    parser.add_argument("--repeats", type=int, default=10, help="fresh processes for the spread (0: leave it out)")
    parser.add_argument(
        "--only-spread", nargs="?", const=",".join(SPREADS), help=f"leave the three sources out ({', '.join(SPREADS)})"
    )
    parser.add_argument("--ranks", type=int, help="for a task that is for several ranks: how many (its usual number)")
    parser.add_argument("--json", type=Path, help="append each verdict here, and go on from what is there")
    parser.add_argument("--write", action="store_true", help="store the latencies as hidden/baselines.json")
    options = parser.parse_args(arguments)
    wanted = (options.only_spread or ",".join(SPREADS)).split(",")
    if set(wanted) - set(SPREADS):
        parser.error(f"--only-spread takes {', '.join(SPREADS)}, with commas between")
    task = find_task(options.task)
    session = Session(options.json)
    try:
        if not options.only_spread:
            verdicts = latencies(session, task, options.ranks)
            print("\n".join(latency_lines(verdicts)), flush=True)
            if "ranks" in verdicts["expert"]["environment"]["details"]:
                print(link_table(task, verdicts), flush=True)
            if options.write:
                if told := unstorable(verdicts, options.ranks):
                    sys.exit(f"baselines.json is not written: {told}")
                text = json.dumps(baselines(verdicts), indent=2) + "\n"
                (task.folder / "hidden" / "baselines.json").write_text(text, encoding="utf-8")
        if options.repeats:
            print("\n".join(spread_lines(spreads(session, task, options.repeats, wanted))))
    finally:
        session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
