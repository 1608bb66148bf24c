"""What the order of the checks saves: GPU seconds with tiers, and with every step for every submission.

    python benchmarks/gpu/tiers.py [--gpus 0,1] [--all-workloads] [--json FILE]

The submissions of the sample run of Muon in their order, with the task's baseline as one that cannot win, at the task's
first workload or at all that are registered; then cheats of tests/cheats whose trick needs a GPU, on the task of those
tests. With tiers: as `solve` submits them, static rules first, A B B A only for what beats the incumbent. Without: no
static rules, A B B A for whatever is right. Both must rank the submissions alike. On two GPUs both run at a time.

Needs one NVIDIA GPU, torch and triton; nothing of the controller. Each verdict is appended to FILE as it is reached,
and what FILE holds already is not judged again: the same command goes on where it was ended.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gpu.results import ResultsFile, end_when_terminated
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import find_task
from d2k_agent.contract import EvaluatorJob, JobKind, TaskBundle, Verdict, source_sha256
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.launchers import ProcessLauncher
from d2k_agent.reports.tables import table
from tests.evaluator.corpus import CORPUS, REGISTERED, muon_small

SAMPLE = Path(__file__).resolve().parents[2] / "traces" / "samples" / "muon"
ON_THE_GPU = ("correctness", "timing", "device clock")
"""The steps of a job that hold the GPU, but for the baseline's: the first job's wait for it is nobody's."""
CHEATS = ("A09_graph_replay_inside_run", "A10e_composed_without_restart", "V33_graph_context", "V76_binary_by_hand")


def submissions(all_workloads: bool) -> Iterator[tuple[str, str, TaskBundle, tuple[str, ...]]]:
    """Names, sources, the tasks and workloads they are judged on, in the order of submission."""
    muon = find_task("muon")
    labels = tuple(workload.label for workload in muon.workloads)
    whole = muon.bundle(), labels if all_workloads else labels[:1]
    events = map(json.loads, (SAMPLE / "events.jsonl").read_text(encoding="utf-8").splitlines())
    digests = [event["sha256"] for event in events if event["type"] == "verdict_reached"]
    for number, digest in enumerate(dict.fromkeys(digests), 1):
        yield f"sample {number}", (SAMPLE / "candidates" / f"{digest}.py").read_text(encoding="utf-8"), *whole
        if number == 1:
            yield "baseline", baseline(), *whole
    for cheat in CORPUS:
        if cheat.name in CHEATS:
            yield cheat.name, cheat.source, muon_small(), (REGISTERED,)


def baseline() -> str:
    """The source that speedups are over."""
    text = find_task("muon").baseline_text()
    assert text is not None
    return text


def gpu_s(verdict: Verdict) -> float:
    """Seconds of the steps that hold the GPU."""
    return sum(verdict.seconds.get(name, 0.0) for name in ON_THE_GPU)


def judged(
    launcher: ProcessLauncher, source: str, task: TaskBundle, labels: tuple[str, ...], beat: float | None, tiers: bool
) -> Verdict:
    """The verdict on a source under a fresh seed."""
    job = EvaluatorJob(
        JobKind.EVALUATE,
        task,
        source,
        secrets.token_hex(32),
        None,
        "cuda",
        workloads=labels,
        static_rules=tiers,
        baseline=baseline(),
        beat=beat if tiers else None,
    )
    return launcher.launch(job)


def names(name: str, source: str, task: TaskBundle, labels: tuple[str, ...], tiers: bool) -> tuple[str, str]:
    """What a submission is called on the screen, and its key among the results: with all texts that it rests on."""
    called = f"{name}, {'with' if tiers else 'without'} tiers"
    return called, f"{called} {source_sha256(chr(0).join([task.digest, source, baseline(), *labels]))}"


def protocol(gpu: str, tiers: bool, all_workloads: bool, results: ResultsFile) -> list[tuple[str, Verdict]]:
    """All verdicts by an evaluator on that GPU, in the order of submission; those that `results` holds are not new."""
    best: float | None = None
    verdicts = []
    launcher = ProcessLauncher({**here().evaluator_environment(), "CUDA_VISIBLE_DEVICES": gpu})
    try:
        for name, source, task, labels in submissions(all_workloads):
            called, key = names(name, source, task, labels, tiers)
            item = results.get(key)
            if item is None:
                verdict = judged(launcher, source, task, labels, best, tiers)
                print(f"{called}: {verdict.status}, {gpu_s(verdict):.1f} GPU s", file=sys.stderr, flush=True)
                item = results.add(key, verdict=to_data(verdict))
            verdict = from_data(Verdict, item["verdict"])
            if verdict.geomean_speedup is not None:
                best = max(best or 0.0, verdict.geomean_speedup)
            verdicts.append((name, verdict))
    finally:
        launcher.close()
    return verdicts


def ranking(verdicts: Sequence[tuple[str, Verdict]]) -> list[str]:
    """The names of what may be selected, the fastest first."""
    eligible = [(verdict.geomean_speedup or 0.0, name) for name, verdict in verdicts if verdict.eligible]
    return [name for _, name in sorted(eligible, reverse=True)]


def lines(with_tiers: list[tuple[str, Verdict]], without: list[tuple[str, Verdict]]) -> list[str]:
    """The table, the totals, and whether both rank alike."""
    rows = []
    for (name, verdict), (_, full) in zip(with_tiers, without, strict=True):
        speedups = [f"{item.geomean_speedup:.3f}" if item.geomean_speedup else "-" for item in (verdict, full)]
        times = [f"{gpu_s(item):.1f}" for item in (verdict, full)]
        rows.append((name, verdict.status, speedups[0], times[0], full.status, speedups[1], times[1]))
    heads = ("submission", "with tiers", "speedup", "GPU s", "without", "full speedup", "full GPU s")
    totals = [sum(gpu_s(verdict) for _, verdict in verdicts) for verdicts in (with_tiers, without)]
    ranks = [ranking(verdicts) for verdicts in (with_tiers, without)]
    environment = with_tiers[0][1].environment
    versions = f"driver {environment.driver}, torch {environment.torch}, triton {environment.triton}"
    same = "the same" if ranks[0] == ranks[1] else f"NOT the same: {', '.join(ranks[1])}"
    return [
        f"{environment.device_name}, {versions}",
        "",
        table(heads, rows, ("speedup", "GPU s", "full speedup", "full GPU s")),
        "",
        f"GPU seconds: {totals[0]:.0f} with tiers, {totals[1]:.0f} without, {1 - totals[0] / totals[1]:.0%} saved",
        f"ranking: {', '.join(ranks[0])}; {same} without",
        *[
            f"{step}: {sum(verdict.seconds.get(step, 0.0) for _, verdict in with_tiers):.1f} s with tiers, "
            f"{sum(verdict.seconds.get(step, 0.0) for _, verdict in without):.1f} s without"
            for step in ("static", "compile", "correctness", "timing")
        ],
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, twice, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", default="0", help="indices of one GPU, or of two with a comma between")
    parser.add_argument("--all-workloads", action="store_true", help="all registered workloads of Muon, not the first")
    parser.add_argument("--json", type=Path, help="append each verdict here, and go on from what is there")
    options = parser.parse_args(arguments)
    gpus = options.gpus.split(",")
    if len(gpus) > 2:
        parser.error("--gpus takes one index, or two with a comma between")
    end_when_terminated()
    shared = options.all_workloads, ResultsFile(options.json)
    both = (gpus[0], True, *shared), (gpus[-1], False, *shared)
    try:
        if len(gpus) == 1:
            with_tiers, without = (protocol(*given) for given in both)
        else:
            with ThreadPoolExecutor(max_workers=2) as pool:
                with_tiers, without = pool.map(protocol, *zip(*both, strict=True))
    except KeyboardInterrupt:
        kept = "is lost without --json FILE" if options.json is None else "is kept: the same command goes on from there"
        print(f"ended early; what was judged {kept}", flush=True)
        return 130
    print("\n".join(lines(with_tiers, without)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
