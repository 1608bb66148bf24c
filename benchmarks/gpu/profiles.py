"""Profiles of each task's expert and baseline on the GPU that is here, beside what Nsight Compute prints itself.

    python benchmarks/gpu/profiles.py [TASK ...] [--json FILE] [--full] [--only-table]

For each source and workload (the first one; --full: every registered one) two looks at one call of run(): our profile
as a model gets it by default, and the profiler's own page (`--set detailed`, `--page details`). The table sets the
tokens of what a model is told against those of the page, one launch a kernel, and our bottleneck of the longest kernel
against what the profiler's own rule says of it, which is compute, memory or latency. The aim is a fifth of the tokens.

Needs one NVIDIA GPU, Nsight Compute, torch and triton; nothing of the controller. Each look is appended to FILE as it
is taken, and what FILE holds already of the same sources, GPU, driver and evaluator is not looked at again; the table
has that alone. Tokens are counted where the tokenizer is installed: with --only-table on another machine, from the same
FILE, where the newest look at the sources as they are now counts, whatever machine it was taken on.
"""

from __future__ import annotations

import argparse
import itertools
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gpu.pages import agrees, one_launch_a_kernel, page_of, page_says
from benchmarks.gpu.results import ResultsFile, end_when_terminated, machine_here
from d2k_agent.app.surroundings import here
from d2k_agent.catalog import Task, find_task, list_tasks, source_latencies
from d2k_agent.contract import EvaluatorJob, JobKind, Limits, Profile, ProfileWish, source_sha256
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.errors import D2KError
from d2k_agent.isolation import lease
from d2k_agent.launchers import ProcessLauncher
from d2k_agent.reports.tables import UNKNOWN, table

AIM = 0.2
"""The part of the page's tokens that our profile shall take."""
SOURCES = ("baseline", "expert")
LIMITS = Limits(compile_s=120.0)
"""Of which compile_s bounds a profile as well: a task's four looks take no longer than eight minutes."""
_MOST_PAGE_CHARS = 1 << 20
NOTHING = "FILE has no look at the sources of these tasks as they are now"
NOTHING_PROFILED = "nothing was profiled; the lines above say why"


@dataclass(frozen=True)
class Look:
    """One source on one workload: our profile, and the profiler's page; `no_page` says why there is none.

    Both are None where the page was not asked for yet. `gpu` is the UUID of the GPU, `device` its name.
    """

    task: str
    source: str
    workload: str
    device: str
    gpu: str
    profile: Profile
    page: str | None = None
    no_page: str | None = None

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.task} {self.source}"


def measure(results: ResultsFile, tasks: Sequence[Task], machine: str, *, full: bool) -> None:
    """Look at every source of the tasks that was not looked at before on this machine, as machine_here() has it.

    What cannot be profiled is told and left out.
    """
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", file=sys.stderr, flush=True)

    launcher = ProcessLauncher(here().evaluator_environment(), progress=say)
    try:
        for task in tasks:
            if task.ranks:
                say(f"{task.slug}: a call on several ranks is not profiled")
                continue
            labels = [workload.label for workload in task.workloads]
            for label in labels if full else labels[:1]:
                for source in SOURCES:
                    look_at(launcher, results, machine, task, source, label, say)
    finally:
        launcher.close()


def source_text(task: Task, source: str) -> str:
    """The expert's or the baseline's source."""
    assert task.guidance is not None
    return (task.guidance / f"{source}.py").read_text(encoding="utf-8")


def sources_key(task: Task, source: str, label: str) -> str:
    """What a look is at: a source and a workload, and the digest of all texts that it rests on."""
    return f"{source} {label} {source_sha256(chr(0).join([task.bundle().digest, source_text(task, source)]))}"


def looks_of(results: ResultsFile, tasks: Sequence[Task], machine: str | None) -> list[Look]:
    """The looks at the tasks' sources as they are now, from that machine; None: the newest, whatever machine it is of.

    Keys of earlier files end with the digest of the sources.
    """
    items, found = results.every(), list[Look]()
    for task in tasks:
        for label, source in itertools.product((workload.label for workload in task.workloads), SOURCES):
            key = sources_key(task, source, label)
            if machine is None:
                known = [item for item in items if item["key"] == key or item["key"].startswith(f"{key}, ")]
            else:
                known = [item for item in items if item["key"] == f"{key}, {machine}"]
            if known:
                newest = max(known, key=lambda item: item["time"])
                found.append(from_data(Look, newest["look"], "a result"))
    return found


def look_at(
    launcher: ProcessLauncher,
    results: ResultsFile,
    machine: str,
    task: Task,
    source: str,
    label: str,
    say: Callable[[str], None],
) -> None:
    """Both looks at one source on one workload, each added to `results` once it is taken."""
    text, key = source_text(task, source), f"{sources_key(task, source, label)}, {machine}"
    known = results.get(key)
    if known is None:
        say(f"== {task.slug} {source} {label}")
        found = profiled(launcher, task, source, label)
        if isinstance(found, str):
            say(found)
            return
        known = results.add(key, look=to_data(found))
    look: Look = from_data(Look, known["look"], "a result")
    if look.page is None and look.no_page is None:
        say(f"== {task.slug} {source} {label}: the profiler's own page")
        (inputs,) = [{**item.params, "label": label} for item in task.workloads if item.label == label]
        try:
            with lease.hold([look.gpu], say):
                page = page_of(text, task.bundle().public["get_inputs.py"], inputs)
            look = replace(look, page=page[:_MOST_PAGE_CHARS])
        except Exception as problem:  # noqa: BLE001 - whatever it is, the other sources are looked at
            look = replace(look, no_page=f"{type(problem).__name__}: {problem}")
            say(f"no page of the profiler's: {look.no_page}")
        results.add(key, look=to_data(look))


def profiled(launcher: ProcessLauncher, task: Task, source: str, label: str) -> Look | str:
    """Our profile of one source on one workload, or why there is none."""
    measured = source_latencies(task.folder).get(label)
    call_ms = None if measured is None else getattr(measured, f"{source}_ms")
    asked = EvaluatorJob(
        kind=JobKind.PROFILE,
        task=task.bundle(),
        candidate=source_text(task, source),
        seed=secrets.token_hex(32),
        target=None,
        device="cuda",
        workloads=(label,),
        limits=LIMITS,
        profile=ProfileWish(call_ms=call_ms),
    )
    verdict = launcher.launch(asked)
    if verdict.profile is None:
        return f"no profile: {verdict.status}: {verdict.message}; {'; '.join(verdict.notes)}"
    environment = verdict.environment
    return Look(task.slug, source, label, environment.device_name, environment.details["uuid"], verdict.profile)


def report_lines(looks: Sequence[Look]) -> Iterator[str]:
    """A row a look, then how many name the same bottleneck and how many keep to the aim."""
    tokens, why_not = counting()
    header = (
        "source",
        "workload",
        "us",
        "bounded by",
        "longest kernel",
        "by the page",
        "tokens",
        "page",
        "one launch each",
        "ratio",
    )
    rows, same, compared, within = [], 0, 0, 0
    for look in looks:
        longest = max(look.profile.kernels, key=lambda kernel: kernel.duration_us)
        says = None if look.page is None else page_says(look.page, longest.name)
        alike = None if longest.diagnosis is None else agrees(says, longest.diagnosis.bottleneck)
        compared, same = compared + (alike is not None), same + bool(alike)
        counts = (None, None, None) if tokens is None else tokens(look)
        ratio = counts[0] / counts[2] if counts[0] and counts[2] else None
        within += ratio is not None and ratio <= AIM
        rows.append(
            (
                look.name,
                look.workload,
                f"{look.profile.duration_us:.1f}",
                str(look.profile.diagnosis.bottleneck) if look.profile.diagnosis else "-",
                str(longest.diagnosis.bottleneck) if longest.diagnosis else "-",
                says or "-",
                *(UNKNOWN if count is None else str(count) for count in counts),
                UNKNOWN if ratio is None else f"{ratio:.2f}",
            )
        )
    yield ", ".join(sorted({look.device for look in looks}))
    yield table(header, rows, (header[2], *header[6:]))
    yield f"{same} of {compared}: the profiler's own rule says the same of compute, memory or latency (longest kernel)"
    if why_not:
        yield f"tokens are not counted here ({why_not}); give the file to --only-table where the controller is"
    else:
        yield f"{within} of {len(looks)} with at most {AIM:.0%} of the page's tokens (one launch a kernel)"
    yield from (f"no page of {look.name}: {look.no_page}" for look in looks if look.no_page)


Tokens = Callable[[Look], tuple[int, int | None, int | None]]


def counting() -> tuple[Tokens | None, str]:
    """Counts the tokens of our digest, of the page and of its part; or None, and why that cannot be done here."""
    try:
        from d2k_agent.models.tokens import count_tokens
        from d2k_agent.reports.brief_profile import brief_profile

        count_tokens("")
    except (ImportError, D2KError) as problem:
        return None, str(problem)

    def tokens(look: Look) -> tuple[int, int | None, int | None]:
        ours = count_tokens(brief_profile(look.profile))
        if look.page is None:
            return ours, None, None
        return ours, count_tokens(look.page), count_tokens(one_launch_a_kernel(look.page))

    return tokens, ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="slugs (default: every task that ships)")
    parser.add_argument("--json", type=Path, help="append each look here, and go on from what is there")
    parser.add_argument("--full", action="store_true", help="every registered workload, not only the first")
    parser.add_argument(
        "--only-table", action="store_true", help="measure nothing, print what FILE holds of the tasks' present sources"
    )
    options = parser.parse_args(arguments)
    results, machine, ended = ResultsFile(options.json), None, False
    try:
        tasks = list(map(find_task, options.tasks)) or list_tasks()
    except D2KError as problem:
        sys.exit(str(problem))
    if not options.only_table:
        end_when_terminated()
        machine = machine_here()
        try:
            measure(results, tasks, machine, full=options.full)
        except KeyboardInterrupt:
            ended = True
        except D2KError as problem:
            sys.exit(str(problem))
    looks = looks_of(results, tasks, machine)
    print("\n".join(report_lines(looks)) if looks else NOTHING if options.only_table else NOTHING_PROFILED)
    if ended:
        print("ended early; the same command with the same --json goes on from there", flush=True)
        return 130
    return 0 if looks else 1


if __name__ == "__main__":
    sys.exit(main())
