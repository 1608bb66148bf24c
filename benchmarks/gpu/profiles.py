"""Profiles of each task's expert and baseline on the GPU that is here, beside what Nsight Compute prints itself.

    python benchmarks/gpu/profiles.py muon fused_linear_ce [--json FILE] [--full] [--only-table]

For each source and workload (the first one; --full: every registered one) two looks at one call of run(): our profile,
with all sections, and the profiler's own page (`--set detailed`, `--page details`), with the counters behind it. The
table sets the tokens of what a model is told against those of the page, one launch a kernel, and says whether both come
to the same bottleneck. The aim is a fifth of the tokens.

Needs one NVIDIA GPU, Nsight Compute, torch and triton; nothing of the controller. Each result is appended to FILE as it
is measured, and what FILE holds already is not measured again. Tokens are counted where the tokenizer is installed:
with --only-table on another machine, from the same FILE.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from d2k_agent.app.surroundings import here
from d2k_agent.catalog import Task, find_task, source_latencies
from d2k_agent.contract import SECTIONS, EvaluatorJob, JobKind, Profile, ProfileWish, source_sha256
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.errors import D2KError
from d2k_agent.launchers import ProcessLauncher
from d2k_agent.reports.tables import table

AIM = 0.2
"""The part of the page's tokens that our profile shall take."""
SOURCES = ("baseline", "expert")
_LAUNCH = re.compile(
    r"^  (?P<name>\S.*?) \(\d+, \d+, \d+\)x\(\d+, \d+, \d+\), Context \d+, Stream \d+, Device \d+, CC "
)
PAGE_SET, PAGE_LIMIT_S = "detailed", 300.0
_MOST_PAGE_CHARS = 1 << 20


@dataclass(frozen=True)
class Look:
    """One source on one workload: our profile, the profiler's page, and the bottleneck by the counters behind it."""

    task: str
    source: str
    workload: str
    device: str
    profile: Profile
    page: str
    page_bottleneck: str | None

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.task} {self.source}"


class Results:
    """The file of results. What it holds counts where every text that it rests on is the same."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self._known: dict[str, dict[str, Any]] = {item["key"]: item for item in map(json.loads, lines)}

    def known(self, key: str) -> bool:
        """True where it was measured before."""
        return key in self._known

    def add(self, key: str, look: Look) -> None:
        """Append a result."""
        item = {"key": key, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "look": to_data(look)}
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(item) + "\n")
        self._known[key] = item

    def looks(self) -> list[Look]:
        """Everything that was measured."""
        return [from_data(Look, item["look"], "a result") for item in self._known.values()]


def measure(results: Results, tasks: Sequence[Task], *, full: bool) -> None:
    """Look at every source of the tasks that was not looked at before. What cannot be profiled is told and left out."""
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", file=sys.stderr, flush=True)

    launcher = ProcessLauncher(here().evaluator_environment(), progress=say)
    try:
        for task in tasks:
            labels = [workload.label for workload in task.workloads]
            for label in labels if full else labels[:1]:
                for source in SOURCES:
                    text = source_text(task, source)
                    key = f"{source} {label} {source_sha256(chr(0).join([task.bundle().digest, text]))}"
                    if results.known(key):
                        continue
                    say(f"== {task.slug} {source} {label}")
                    look = look_at(launcher, task, source, label)
                    if isinstance(look, Look):
                        results.add(key, look)
                    else:
                        say(look)
    finally:
        launcher.close()


def source_text(task: Task, source: str) -> str:
    """The expert's or the baseline's source."""
    assert task.guidance is not None
    return (task.guidance / f"{source}.py").read_text(encoding="utf-8")


def look_at(launcher: ProcessLauncher, task: Task, source: str, label: str) -> Look | str:
    """Both looks at one source on one workload, or why there are none."""
    text = source_text(task, source)
    (inputs,) = [{**item.params, "label": label} for item in task.workloads if item.label == label]
    measured = source_latencies(task.folder).get(label)
    call_ms = None if measured is None else getattr(measured, f"{source}_ms")
    asked = EvaluatorJob(
        kind=JobKind.PROFILE,
        task=task.bundle(),
        candidate=text,
        seed=secrets.token_hex(32),
        target=None,
        device="cuda",
        workloads=(label,),
        profile=ProfileWish(SECTIONS, call_ms),
    )
    verdict = launcher.launch(asked)
    if verdict.profile is None:
        return f"no profile: {verdict.status}: {verdict.message}; {'; '.join(verdict.notes)}"
    try:
        page, bottleneck = page_of(text, task.bundle().public["get_inputs.py"], inputs)
    except Exception as problem:  # noqa: BLE001 - whatever it is, the other sources are looked at
        return f"no page of the profiler's: {type(problem).__name__}: {problem}"
    device = verdict.environment.device_name
    return Look(task.slug, source, label, device, verdict.profile, page[:_MOST_PAGE_CHARS], bottleneck)


def page_of(source: str, generator: str, workload: dict[str, Any], device: str = "cuda") -> tuple[str, str | None]:
    """What the profiler prints of one call by itself, and the bottleneck by its counters. Raises ProfileUnavailable.

    `generator` is the text of get_inputs.py; `device` is "cpu" only to try it without a GPU.
    """
    from d2k_agent.evaluator.profiling import ProfileUnavailable, ncu, target
    from d2k_agent.evaluator.profiling.digest import digest
    from d2k_agent.evaluator.profiling.report import require_done
    from d2k_agent.evaluator.profiling.session import order_in, run_target, surroundings
    from d2k_agent.evaluator.profiling.table import in_range, read_launches

    given = surroundings(None)
    found = ncu.find_ncu(given)
    if found is None:
        raise ProfileUnavailable("Nsight Compute is not there")
    with tempfile.TemporaryDirectory(prefix="d2k-page-") as made:
        folder = os.path.realpath(made)
        order = order_in(folder, source, generator, [workload], device=device, unsafe=False)
        environment, report = ncu.tool_environment(given, order["scratch"]), os.path.join(folder, "page")
        watch = [*ncu.watching(found, ncu.MOST_LAUNCHES), "--set", PAGE_SET, "--export", report, *ncu.TARGET]
        require_done(*run_target(watch, order, environment, folder, PAGE_LIMIT_S), PAGE_LIMIT_S)
        (path,) = glob.glob(f"{report}*")  # newer profilers name their files otherwise

        def printed(*options: str) -> str:
            argv = [found, "--config-file", "off", "--import", path, *options]
            return ncu.run(argv, b"", environment, folder, 120.0).output

        launches = read_launches(printed("--page", "raw", "--csv", "--print-units", "base"))
        page = without_ours(printed("--page", "details"))
    diagnosis = digest(in_range(launches, target.PROFILED), str(workload["label"]), "ncu").diagnosis
    return page, None if diagnosis is None else str(diagnosis.bottleneck)


def without_ours(page: str) -> str:
    """The page without its first launch, the target's own before the candidate's: no model would be told of it."""
    lines = page.splitlines(keepends=True)
    heads = [place for place, line in enumerate(lines) if _LAUNCH.match(line)]
    if len(heads) < 2:
        return page
    return "".join(lines[: heads[0]] + lines[heads[1] :])


def one_launch_a_kernel(page: str) -> str:
    """The page with the first launch of every kernel, and what stands before."""
    kept: list[str] = []
    seen: set[str] = set()
    keep = True
    for line in page.splitlines():
        match = _LAUNCH.match(line)
        if match:
            keep = match["name"] not in seen
            seen.add(match["name"])
        if keep:
            kept.append(line)
    return "\n".join(kept)


def report_lines(looks: Sequence[Look]) -> Iterator[str]:
    """A row a look, then how many come to the same bottleneck within the aim."""
    try:
        from d2k_agent.models.tokens import count_tokens
        from d2k_agent.reports.brief_profile import brief_profile

        count_tokens("")
    except (ImportError, D2KError) as problem:
        yield f"tokens are not counted here ({problem}); give the file to --only-table where the controller is"
        return
    header = ("source", "workload", "us", "bounded by", "by the page", "tokens", "page", "one launch each", "ratio")
    rows, good = [], 0
    for look in looks:
        bottleneck = str(look.profile.diagnosis.bottleneck) if look.profile.diagnosis else "-"
        ours = count_tokens(brief_profile(look.profile))
        whole, single = count_tokens(look.page), count_tokens(one_launch_a_kernel(look.page))
        ratio = ours / single if single else float("nan")
        good += ratio <= AIM and bottleneck == look.page_bottleneck
        rows.append(
            (
                look.name,
                look.workload,
                f"{look.profile.duration_us:.1f}",
                bottleneck,
                look.page_bottleneck or "-",
                str(ours),
                str(whole),
                str(single),
                f"{ratio:.2f}",
            )
        )
    yield f"{', '.join(sorted({look.device for look in looks}))}"
    yield table(header, rows, (header[2], *header[5:]))
    aim = f"at most {AIM:.0%} of the page's tokens (one launch a kernel)"
    yield f"{good} of {len(looks)} at the same bottleneck with {aim}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", default=["muon"], help="slugs (default: muon)")
    parser.add_argument("--json", type=Path, help="append each result here, and go on from what is there")
    parser.add_argument("--full", action="store_true", help="every registered workload, not only the first")
    parser.add_argument("--only-table", action="store_true", help="measure nothing, print what FILE holds")
    options = parser.parse_args(arguments)
    results = Results(options.json)
    if not options.only_table:
        measure(results, [find_task(name) for name in options.tasks], full=options.full)
    looks = results.looks()
    print("\n".join(report_lines(looks)) if looks else "nothing was profiled; the lines above say why")
    return 0 if looks else 1


if __name__ == "__main__":
    sys.exit(main())
