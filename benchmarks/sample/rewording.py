"""The evaluator's recorded answers in another wording: read back from the tables that were recorded, and told anew.

Covers: verdicts, compile reports and profiles in this version's words. A report that these words cannot be made again
from is refused, so that what is counted is what was recorded. A profile is read without a diagnosis, as the sample has
it: what this version says of one is longer by what bounds each kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from d2k_agent.contract import CompileReport, JobKind, KernelProfile, KernelReport, Profile, Verdict, WorkloadResult
from d2k_agent.contract.wire import from_data
from d2k_agent.records import Measured, ToolFinished, Trace, VerdictReached, WorkloadTime
from d2k_agent.reports.brief_compile import brief_compile
from d2k_agent.reports.brief_profile import brief_profile
from d2k_agent.reports.brief_text import brief_answer
from d2k_agent.reports.compile_text import compile_text
from d2k_agent.reports.profile_text import profile_text
from d2k_agent.reports.tables import UNKNOWN

_COLUMNS = re.compile(r" {2,}")
_KERNEL = re.compile(r"(\w+):(\d+)")


def worded(trace: Trace, answer: ToolFinished, wording: str) -> str:
    """The answer in a wording; what was recorded is the tables."""
    if wording == "tables":
        return answer.text
    if answer.name == "compile":
        return brief_compile(read_compile(answer.text))
    if answer.name == "profile":
        return brief_profile(read_profile(answer.text))
    if answer.name == "submit":
        return brief_answer(JobKind.EVALUATE, verdict_of(trace, answer))
    return answer.text


def verdict_of(trace: Trace, answer: ToolFinished) -> Verdict:
    """The verdict that a submission got, from what was recorded of it."""
    key = (answer.turn, answer.call_id)
    (found,) = [e.verdict for e in trace.events if isinstance(e, VerdictReached) and (e.turn, e.call_id) == key]
    (times,) = [e.times for e in trace.events if isinstance(e, Measured) and (e.turn, e.call_id) == key]
    measured = {item.label: item for item in times.workloads}
    results = []
    for item in found.workloads:
        time = measured.get(item.label) or WorkloadTime(label=item.label)
        mean_ms = time.measurement.mean_ms if time.measurement else None
        head = (item.label, item.status, item.checks, item.registered, mean_ms, time.speedup, item.rel_norm)
        results.append(WorkloadResult(*head, time.measurement, time.message, time.baseline))
    report = found.compile_report
    return Verdict(
        status=found.status,
        candidate_sha256=found.candidate_sha256,
        message=times.message,
        environment=found.environment,
        workloads=tuple(results),
        compile_report=None if report is None else from_data(CompileReport, {"seconds": 0.0, **report}),
        peak_memory_bytes=found.peak_memory_bytes,
        geomean_speedup=times.geomean_speedup,
        notes=times.notes,
        baseline_sha256=times.baseline_sha256,
        drift=times.drift,
    )


def read_compile(text: str) -> CompileReport:
    """The report that compile_text() made `text` of. Raises ValueError for what it did not make."""
    text = text.removeprefix("Status: compile_error\n\n")
    told, _, rows = text.partition("\n\n")
    head, *warnings = told.split("\nwarning: ")
    fields = re.fullmatch(r"(?:Compiles|Does not compile) for (\w+) \((\w+), Triton ([\d.]+)\): (.*)", head, re.DOTALL)
    if fields is None:
        raise ValueError(f"no report of this version begins like this: {head[:80]}")
    target, architecture, triton, rest = fields.groups()
    at = re.search(r"launched by run\(\) at (.*?)\. This says", rest)
    kernels = tuple(_kernel(_COLUMNS.split(line.strip())) for line in rows.splitlines()[1:])
    labels = tuple(at[1].split(", ")) if at else ()
    report = CompileReport(target, architecture, triton, kernels, labels, warnings=tuple(warnings))
    report = report if at else replace(report, error=rest, error_kind="compile")
    left_out = any("\n" in warning for warning in warnings)  # a line says how many more there were
    if left_out or compile_text(report) != text:
        raise ValueError("a recorded compile report is not one of this version's")
    return report


def _kernel(cells: Sequence[str]) -> KernelReport:
    named = _KERNEL.fullmatch(cells[0])
    if named is None or len(cells) != 10:
        raise ValueError(f"no row of a compile report: {cells}")
    warps, stages, shared, launches = (int(cells[at].replace(",", "")) for at in (1, 2, 5, 7))
    registers, spill = (None if cells[at] == UNKNOWN else int(cells[at].replace(",", "")) for at in (3, 4))
    told = [] if cells[8] == "-" else [item.split(" ", 1) for item in cells[8].split(", ")]
    return KernelReport(
        name=named[1],
        num_warps=warps,
        num_stages=stages,
        registers=registers,
        spill_store_bytes=spill,
        spill_load_bytes=None if spill is None else 0,
        stack_bytes=0,
        shared_bytes=shared,
        tensor_memory_columns=None if cells[6] == "-" else int(cells[6]),
        instructions={kind: int(amount) for amount, kind in told},
        constexprs=dict(item.split("=", 1) for item in cells[9].split()),
        launches=launches,
        source_line=int(named[2]),
    )


def read_profile(text: str) -> Profile:
    """The profile that profile_text() made `text` of. Raises ValueError for what it did not make."""
    head, rows, stalls, *_ = text.split("\n\n")
    fields = re.fullmatch(r"Profile of one call of run\(\) on (\S+), by (.*?): .*, ([\d,.]+) us in all\.", head)
    if fields is None:
        raise ValueError(f"no profile of this version begins like this: {head[:80]}")
    waits = dict(re.findall(r"^  (\S+): (.*, \d+) %$", stalls, re.MULTILINE))
    kernels = tuple(_profiled(_COLUMNS.split(line.strip()), waits) for line in rows.splitlines()[1:])
    profile = Profile(fields[1], fields[2], kernels, float(fields[3].replace(",", "")))
    if profile_text(profile) != text:
        raise ValueError("a recorded profile is not one of this version's")
    return profile


def _profiled(cells: Sequence[str], waits: dict[str, str]) -> KernelProfile:
    name, share, us, launches, sm, tensor, dram, l2, occupancy, limit = cells
    limiter, _, registers = limit.removesuffix(" registers a thread)").rpartition(" (")
    stall, _, percent = waits[name].rpartition(", ")
    return KernelProfile(
        name=name,
        launches=int(launches),
        duration_us=float(us.replace(",", "")),
        share=float(share.rstrip("%")) / 100,
        grid=(),
        block=(),
        registers=int(registers),
        sm_percent=float(sm),
        tensor_percent=float(tensor),
        dram_percent=float(dram),
        l2_hit_percent=float(l2),
        occupancy_percent=float(occupancy),
        occupancy_limiter=limiter,
        main_stall=stall,
        main_stall_percent=float(percent),
    )
