"""How far a modelled latency can be trusted: beside what was measured on an H200, for every source that was.

    python benchmarks/modelled.py [TASK ...] [--json FILE]

Measured values are stored ones: hidden/baselines.json of the tasks, and the recorded sample runs, which only the
controller's environment can read. So it runs without a GPU; what was not measured yet, or of another text, is left out
and named. It asks three questions. Does the model put the sources of one workload in the right order (pairs, and rank
correlation where there are enough of them)? How far is it off (ratios, by kind of source)? And does it tell how much
faster the expert is than the baseline (speedups)? There is no rank correlation over all workloads together: how much
work each of them has puts their latencies in order already.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from d2k_agent.app.evaluation import open_evaluation
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import Task, find_task, list_tasks
from d2k_agent.config import Settings
from d2k_agent.contract import JobKind, source_sha256
from d2k_agent.contract.gpu import is_target
from d2k_agent.reports.tables import milliseconds, number, table

TARGET = "h200"
ROOT = Path(__file__).resolve().parent.parent
FEWEST_RANKED = 3
"""Sources of a workload that have a rank correlation: of two it is 1 or -1, whatever the model is worth."""
SAMPLES = "sample candidates"


@dataclass(frozen=True)
class Source:
    """A candidate with milliseconds that were measured, by workload."""

    task: str
    name: str
    text: str
    measured_ms: dict[str, float]


@dataclass(frozen=True)
class Point:
    """One source at one workload: measured, and modelled (None: not, and `why_not`)."""

    task: str
    workload: str
    source: str
    measured_ms: float
    modelled_ms: float | None
    why_not: str | None = None

    @property
    def kind(self) -> str:
        """Expert, baseline, or one of SAMPLES."""
        return self.source if self.source in ("expert", "baseline") else SAMPLES


def measured_sources(task: Task, left_out: list[str]) -> Iterator[Source]:
    """Baseline, expert and sample candidates that were measured on the target; what is missing goes to `left_out`."""
    stored = ROOT / "tasks" / task.slug / "hidden" / "baselines.json"
    if stored.is_file():
        yield from _stored(task, json.loads(stored.read_text(encoding="utf-8")), left_out)
    else:
        left_out.append(f"{task.slug}: baseline and expert were not measured yet")
    yield from _recorded(task, left_out)


def _recorded(task: Task, left_out: list[str]) -> Iterator[Source]:
    """Candidates of the recorded sample runs that were measured on the target."""
    try:
        from d2k_agent.records import read_trace
    except ImportError as problem:
        left_out.append(f"{task.slug}: candidates of sample runs, which only the controller reads ({problem})")
        return
    for folder in sorted((ROOT / "traces" / "samples").iterdir()):
        trace = read_trace(folder)
        if Path(trace.run.config.task).name != task.slug or trace.run.origin is not None:
            continue  # what was put together of another run's turns has no measurements of its own
        for submission in trace.submissions:
            times, where = submission.times, submission.verdict.environment.device_name
            if times is None or not submission.measured or not is_target(where, TARGET):
                left_out.append(f"{task.slug}: turn {submission.turn} of the sample {folder.name} was not measured")
                continue
            text = (folder / "candidates" / f"{submission.sha256}.py").read_text(encoding="utf-8")
            measured = {item.label: item.measurement.mean_ms for item in times.workloads if item.measurement}
            yield Source(task.slug, f"sample turn {submission.turn}", text, measured)


def _stored(task: Task, data: dict[str, Any], left_out: list[str]) -> Iterator[Source]:
    left_out.append(f"{task.slug}: the reference is no Triton")
    if "provenance" not in data:
        left_out.append(f"{task.slug}: baseline and expert were measured on other numbers of ranks alone")
        return
    if not is_target(data["provenance"]["device"], TARGET):
        left_out.append(f"{task.slug}: baseline and expert were measured on {data['provenance']['device']}")
        return
    for name in ("baseline", "expert"):
        text = (ROOT / "guidance" / task.slug / f"{name}.py").read_text(encoding="utf-8")
        if source_sha256(text) != data["provenance"]["sha256"][name]:
            left_out.append(f"{task.slug}: the {name} was changed since it was measured")
            continue
        yield Source(task.slug, name, text, {key: item[f"{name}_ms"] for key, item in data["workloads"].items()})


def modelled_points(task: Task, sources: Sequence[Source]) -> Iterator[Point]:
    """The sources of one task, modelled by one evaluator."""
    around = here()
    settings = around.settings(Settings(target=TARGET, device="cpu"))
    with open_evaluation(around, settings, task, lambda _: None) as evaluation:
        for source in sources:
            verdict = evaluation.judge(JobKind.MODEL, source.text)
            found = {item.label: item for item in verdict.modelled.workloads} if verdict.modelled else {}
            for label, measured_ms in source.measured_ms.items():
                item = found.get(label)
                why_not = item.why_not if item else verdict.message
                yield Point(task.slug, label, source.name, measured_ms, item.ms if item else None, why_not)


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Rank correlation of pairs, equal values having the mean of their ranks; None where it is not defined, and of
    fewer than FEWEST_RANKED."""
    if len(pairs) < FEWEST_RANKED:
        return None
    left, right = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
    if len(set(left)) == 1 or len(set(right)) == 1:
        return None
    return statistics.correlation(left, right)


def _ranks(values: Sequence[float]) -> list[float]:
    return [
        (sum(other < value for other in values) + sum(other <= value for other in values) + 1) / 2 for value in values
    ]


def ordered_pairs(pairs: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """How many pairs of (measured, modelled) are in the right order, and how many there are; a tie is in neither."""
    both = list(itertools.combinations(pairs, 2))
    return sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in both), len(both)


def figures(points: Sequence[Point]) -> dict[str, Any]:
    """What the points come to: over all of them, and by workload, where the sources compete."""
    known = [(point, point.modelled_ms) for point in points if point.modelled_ms is not None]
    ratios, kinds = list[float](), dict[str, list[float]]()
    for point, modelled in known:
        ratios.append(modelled / point.measured_ms)
        kinds.setdefault(point.kind, []).append(ratios[-1])
    workloads = {}
    for key in dict.fromkeys((point.task, point.workload) for point, _ in known):
        own = {p.source: (p.measured_ms, modelled) for p, modelled in known if (p.task, p.workload) == key}
        right, every = ordered_pairs(list(own.values()))
        order = {"sources": len(own), "spearman": spearman(list(own.values())), "right": right, "pairs": every}
        workloads["/".join(key)] = {**order, **_speedups(own)}
    return {
        "points": len(points),
        "modelled": len(known),
        "median_ratio": statistics.median(ratios) if ratios else None,
        "least_ratio": min(ratios, default=None),
        "largest_ratio": max(ratios, default=None),
        "kinds": {kind: {"points": len(own), "median_ratio": statistics.median(own)} for kind, own in kinds.items()},
        "workloads": workloads,
    }


def _speedups(own: Mapping[str, tuple[float, float]]) -> dict[str, float | None]:
    """The expert's over the baseline, from milliseconds by source; None where one of them is not there."""
    if not {"expert", "baseline"} <= set(own):
        return {"measured_speedup": None, "modelled_speedup": None}
    measured, modelled = (own["baseline"][side] / own["expert"][side] for side in (0, 1))
    return {"measured_speedup": measured, "modelled_speedup": modelled}


def print_points(points: Sequence[Point], left_out: Sequence[str]) -> None:
    """The table, the figures, and what is not in them."""
    header = ("workload", "source", "measured", "modelled", "modelled/measured")
    rows = [
        (
            point.workload,
            point.source,
            milliseconds(point.measured_ms),
            "not modelled" if point.modelled_ms is None else milliseconds(point.modelled_ms),
            "-" if point.modelled_ms is None else f"{point.modelled_ms / point.measured_ms:.2f}",
        )
        for point in sorted(points, key=lambda point: (point.task, point.workload, point.measured_ms))
    ]
    print(f"Modelled for {TARGET} against measured on it, milliseconds a call\n")
    print(table(header, rows, header[2:]))
    print("\n".join(["", *figure_lines(figures(points))]))
    for point in points:
        if point.why_not is not None:
            print(f"not modelled: {point.workload}, {point.source}: {point.why_not}")
    for sentence in left_out:
        print(f"left out: {sentence}")


def figure_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What figures() found, for people."""
    span = f"{number(found['least_ratio'])} to {number(found['largest_ratio'])}"
    yield f"modelled {found['modelled']} of {found['points']}"
    yield f"modelled / measured: median {number(found['median_ratio'])}, {span}"
    for kind, item in found["kinds"].items():
        yield f"modelled / measured, {kind}: median {number(item['median_ratio'])} of {item['points']}"
    shares = []
    for name, item in found["workloads"].items():
        told = f"{name}: {item['right']} of {item['pairs']} pairs in the right order"
        if item["spearman"] is not None:
            told += f", rank correlation {number(item['spearman'])} of {item['sources']} sources"
        if item["measured_speedup"] is not None:
            shares.append(item["modelled_speedup"] / item["measured_speedup"])
            speedups = f"{number(item['measured_speedup'])} measured, {number(item['modelled_speedup'])} modelled"
            told += f"; expert over baseline {speedups}"
        yield told
    if shares:
        smaller = f"smaller than measured on {sum(share < 1 for share in shares)} of {len(shares)} workloads"
        span = f"{number(min(shares))} to {number(max(shares))}"
        yield f"modelled speedup / measured: median {number(statistics.median(shares))}, {span}; {smaller}"


def main() -> int:
    """Print the table; 1 where nothing could be compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", metavar="TASK", nargs="*", help="slugs (default: every task that ships)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write points and figures there as well")
    given = parser.parse_args()
    points, left_out = list[Point](), list[str]()
    for slug in given.tasks or [task.slug for task in list_tasks()]:
        task = find_task(slug)
        sources = list(measured_sources(task, left_out))
        if sources:
            points += modelled_points(task, sources)
    if given.json:
        data = {"target": TARGET, "points": [asdict(point) for point in points], **figures(points)}
        given.json.write_text(json.dumps({**data, "left_out": left_out}, indent=2) + "\n", encoding="utf-8")
    print_points(points, left_out)
    return 0 if any(point.modelled_ms is not None for point in points) else 1


if __name__ == "__main__":
    sys.exit(main())
