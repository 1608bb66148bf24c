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
that have to cross. Where there are fewer GPUs, ranks share them, and nothing is stored. Its spread is of the first
workload alone: the other two kinds are for one rank.

Needs one NVIDIA GPU, torch and triton; nothing of the controller. Each result is appended to FILE as it is measured,
and what FILE holds already is not measured again: the same command goes on where it was ended, on the same machine, and
the baseline beside each source shows that nothing moved meanwhile. --write stores the latencies as
hidden/baselines.json of the task.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import secrets
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gpu.floors import headroom_rows, headroom_table
from benchmarks.gpu.results import ResultsFile, end_when_terminated
from benchmarks.gpu.storing import compulsory_bytes, registered, store
from d2k_agent.app.evaluation import check_ranks
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import Task, find_task
from d2k_agent.contract import EvaluatorJob, JobKind, TaskBundle, Verdict, VerdictStatus, source_sha256
from d2k_agent.contract.wire import to_data
from d2k_agent.errors import D2KError, UsageError
from d2k_agent.launchers import ProcessLauncher
from d2k_agent.reports.tables import table
from tests.evaluator import scaling

SPREADS = ("short", "long", "first")
SETTLES = (
    'Calls of less than a millisecond, which Python may begin too slowly, settle in graphs: "timing": {"mode": '
    '"graph"} in hidden/workloads.json.'
)
NEVER = 1e9
"""A speedup that nothing beats: the source is measured once, without A B B A."""


class Session:
    """One evaluator and the file of results. What was judged before counts where every text it rests on is the same."""

    def __init__(self, path: Path | None) -> None:
        self._results = ResultsFile(path)
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
        item = self._results.get(key)
        if item is None:
            self._say(f"== {name}")
            verdict = self._launcher.launch(job)
            if verdict.status is not VerdictStatus.PASSED:
                sys.exit("\n".join([f"{name}: {verdict.status}: {verdict.message}", *cures(job.task, verdict)]))
            item = self._results.add(key, session=self._id, verdict=to_data(verdict))
        return {**item["verdict"], "session": item["session"]}

    def close(self) -> None:
        """End the evaluator."""
        self._launcher.close()


def cures(task: TaskBundle, verdict: Verdict) -> list[str]:
    """What a task's author may change where clocks of a workload do not settle: calls that are not in graphs yet."""
    timing = {"mode": "batch", "workloads": {}, **json.loads(task.hidden["workloads.json"]).get("timing", {})}
    noisy = [result.label for result in verdict.workloads if result.status is VerdictStatus.NOISY]
    return [SETTLES] if "batch" in {timing["workloads"].get(label, timing["mode"]) for label in noisy} else []


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


def latencies(session: Session, task: Task, ranks: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each of the three sources and the verdict on it, as it is reached.

    The reference is last: of several ranks it waits for the host, and the baseline that is brought up beside it would
    be timed as it is for the whole session.
    """

    def asked(source: str, **options: Any) -> EvaluatorJob:
        return job(bundle, source, baseline, ranks=ranks, **options)

    sources, bundle = sources_of(task), task.bundle()
    baseline = sources["baseline"]
    yield "baseline", session.judge("baseline", asked(baseline, beat=NEVER, kind=JobKind.CONFIRM))
    yield "expert", session.judge("expert", asked(sources["expert"], kind=JobKind.CONFIRM))
    yield "reference", session.judge("reference", asked(sources["reference"], beat=NEVER, trusted=True))


def spreads(
    session: Session, task: Task, repeats: int, wanted: Sequence[str], ranks: int | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Verdicts on the same source in fresh processes, by what was wanted: SPREADS."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for number in range(repeats):
        for name in wanted:
            found[name].append(session.judge(f"{name} {number}", spread_job(task, name, ranks)))
    return found


def spread_job(task: Task, name: str, ranks: int | None = None) -> EvaluatorJob:
    """What one of SPREADS judges, under a fresh seed; `ranks` are those of the task's own first workload."""
    if name == "short":
        return job(scaling.task(n=1 << 20, mode="graph"), scaling.HONEST, None)
    if name == "long":
        return job(scaling.task(n=1 << 30), scaling.TWICE, None)
    quick, label = _without_variations(task.bundle()), task.workloads[0].label
    return job(quick, sources_of(task)["expert"], None, workloads=(label,), ranks=ranks)


def _without_variations(bundle: TaskBundle) -> TaskBundle:
    """The task with one smoke workload and no hidden variation: what is repeated here is the timing."""
    data = json.loads(bundle.hidden["workloads.json"])
    data |= {"smoke": data["smoke"][:1], "variations": [], "repeat_calls": 2}
    return dataclasses.replace(bundle, hidden={**bundle.hidden, "workloads.json": json.dumps(data)})


def overhead_s(verdict: dict[str, Any]) -> float:
    """Seconds of a job beyond compiling, tuning, timed calls, and the baseline that only the first job waits for."""
    seconds = verdict["seconds"]
    steps = sum(value for name, value in seconds.items() if "." not in name)
    tuning = sum(value for name, value in seconds.items() if name.endswith(".tuning"))
    once = seconds.get("compile", 0.0) + seconds.get("baseline", 0.0)
    return float(steps - once - tuning - seconds["timing.timed"])


def latency_lines(task: Task, verdicts: dict[str, dict[str, Any]]) -> list[str]:
    """Machine, clocks, headroom over the modelled floors, bytes over links, and the scores over the baseline."""
    environment = next(iter(verdicts.values()))["environment"]
    versions = ", ".join(f"{name} {environment[name]}" for name in ("driver", "torch", "triton"))
    scores = [f"{name} {_number(verdict['geomean_speedup'])}" for name, verdict in verdicts.items()]
    headroom = [row for name, verdict in verdicts.items() for row in headroom_rows(task, name, verdict)]
    ranked = "ranks" in environment["details"]
    return [
        f"{environment['device_name']}, {versions}",
        "",
        clocks_table(verdicts),
        "",
        *([headroom_table(headroom), ""] if headroom else []),
        *([link_table(task, verdicts), ""] if ranked else []),
        f"geometric-mean speedup over the baseline: {', '.join(scores)}",
        *(f"drift of the baseline: {_number(verdicts[name]['drift'])}" for name in ("expert",) if name in verdicts),
        "",
    ]


def clocks_table(verdicts: dict[str, dict[str, Any]]) -> str:
    """A line a source and workload: policy, the four clocks, the error, the speedup over the baseline."""
    heads = ("source", "workload", "policy", "ms", "outside", "audit", "device", "rel_norm", "speedup", "SM MHz", "W")
    rows = []
    for name, verdict in verdicts.items():
        for result in registered(verdict):
            clock = result["measurement"]
            values = [clock[key] for key in ("mean_ms", "outside_ms", "audit_ms", "device_ms")]
            rest = (result["rel_norm"], result["speedup"], clock["sm_mhz"], clock["power_w"])
            numbers = (_number(value) for value in (*values, *rest))
            rows.append((name, result["label"], clock["policy"], *numbers))
    return table(heads, rows, heads[3:])


def link_table(task: Task, verdicts: dict[str, dict[str, Any]]) -> str:
    """A line a source and workload of a task for several ranks: MB a call over each one's links, and what must."""
    ranks = next(iter(verdicts.values()))["environment"]["details"]["ranks"]
    compulsory = compulsory_bytes(task, ranks)
    heads = ("source", "workload", "compulsory MB", *(f"rank {rank}" for rank in range(ranks)))
    rows = []
    for name, verdict in verdicts.items():
        for result in registered(verdict):
            sent = result["measurement"]["link_bytes"] or [None] * ranks
            counts = [None if count is None else count / 1e6 for count in (compulsory[result["label"]], *sent)]
            rows.append((name, result["label"], *map(_number, counts)))
    return table(heads, rows, heads[2:])


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="a slug")
    parser.add_argument("--repeats", type=int, default=10, help="fresh processes for the spread (0: leave it out)")
    parser.add_argument(
        "--only-spread", nargs="?", const="", help=f"leave the three sources out ({', '.join(SPREADS)})"
    )
    parser.add_argument("--ranks", type=int, help="for a task that is for several ranks: how many (its usual number)")
    parser.add_argument("--json", type=Path, help="append each verdict here, and go on from what is there")
    parser.add_argument("--write", action="store_true", help="store the latencies as hidden/baselines.json")
    options = parser.parse_args(arguments)
    task = find_task(options.task)
    try:
        check_ranks(task, options.ranks)
    except UsageError as problem:
        parser.error(str(problem))
    known = SPREADS[-1:] if task.ranks else SPREADS
    wanted = (options.only_spread or ",".join(known)).split(",")
    if set(wanted) - set(known):
        parser.error(f"--only-spread takes {', '.join(known)} of this task, with commas between")
    end_when_terminated()
    session = Session(options.json)
    verdicts: dict[str, dict[str, Any]] = {}
    try:
        if options.only_spread is None:
            for name, verdict in latencies(session, task, options.ranks):
                verdicts[name] = verdict
            print("\n".join(latency_lines(task, verdicts)), flush=True)
            told = store(task, verdicts) if options.write else ""
            if told:
                sys.exit(f"baselines.json is not written: {told}")
        if options.repeats:
            print("\n".join(spread_lines(spreads(session, task, options.repeats, wanted, options.ranks))))
    except KeyboardInterrupt:
        return ended_early(task, verdicts, options.json)
    except D2KError as problem:
        sys.exit(str(problem))
    finally:
        session.close()
    return 0


def ended_early(task: Task, verdicts: dict[str, dict[str, Any]], file: Path | None) -> int:
    """Print what is there; 130."""
    if verdicts:
        print("\n".join(latency_lines(task, verdicts)))
    kept = "is lost without --json FILE" if file is None else f"is in {file}: the same command goes on from there"
    print(f"ended early; what was measured {kept}", flush=True)
    return 130


if __name__ == "__main__":
    sys.exit(main())
