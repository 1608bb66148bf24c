"""What a profile found, one line a finding, told to people and to models; and against an earlier one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from d2k_agent.config import PROFILE_TOKENS
from d2k_agent.contract import Bottleneck, Diagnosis, Evidence, HotLine, JobKind, KernelProfile, Profile, VerdictStatus
from d2k_agent.contract.profile import SECTIONS
from d2k_agent.evaluator.profiling.metrics import SECTION_METRICS
from d2k_agent.models.tokens import count_tokens
from d2k_agent.reports.brief_profile import brief_profile
from d2k_agent.reports.brief_text import brief_answer
from d2k_agent.reports.profile_change import change_text
from d2k_agent.reports.profile_findings import diagnosis_text, section_lines
from d2k_agent.reports.profile_text import NO_LATENCY, profile_text
from d2k_agent.reports.verdict_text import answer_text
from tests.reports.test_profile_text import COPY, PRODUCT
from tests.reports.test_verdict_text import verdict

TENSOR = Diagnosis(
    Bottleneck.TENSOR, (Evidence("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 82.27, 60.0),)
)
CALL = Diagnosis(
    Bottleneck.TENSOR,
    (
        Evidence("kernels bounded by tensor core, part of the kernels' time", 90.0),
        Evidence("part of the call's latency without a kernel", 4.0, 25.0, below=True),
    ),
)
MM = replace(
    PRODUCT,
    name="mm",
    l2_percent=38.2,
    pipe_percent=16.4,
    pipe="issue of instructions",
    waves=3.88,
    diagnosis=TENSOR,
    counters={
        "dram__bytes_read.sum": 174_024_192.0,
        "lts__t_sector_hit_rate.pct": 70.1,
        "l1tex__t_sector_hit_rate.pct": 0.0,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 22_313_691.0,
        "smsp__warps_eligible.avg.per_cycle_active": 0.22,
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 3.48,
        "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": 2.81,
        "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": 1.0,
    },
    hot_lines=(HotLine(12, 0.5, "long scoreboard (waiting for global memory)", "a = tl.load(p)"), HotLine(20, 0.1)),
)
FOUND = Profile("large", "ncu 2025.3.1.0", (MM, COPY), 10_000.0, (), ("memory", "scheduler", "source"), 10_400.0, CALL)


def test_evidence_names_the_counter_its_value_and_the_rule() -> None:
    assert diagnosis_text(TENSOR) == "tensor core (sm__pipe_tensor_cycles_active 82.3 % >= 60 %)"
    below = Diagnosis(Bottleneck.LATENCY, (Evidence("a", 47.5, 60.0, below=True), Evidence("b", 12.4)))
    assert diagnosis_text(below) == "latency or occupancy (a 47.5 % < 60 %; b 12.4 %)"


@pytest.mark.parametrize("text", [brief_profile(FOUND), profile_text(FOUND)])
def test_every_finding_is_a_line(text: str) -> None:
    lines = [line.strip() for line in text.splitlines()]
    assert (
        "The call is bounded by tensor core (kernels bounded by tensor core, part of the kernels' time 90.0 %; "
        "part of the call's latency without a kernel 4.0 % < 25 %), measured latency of the call 10400.0 us" in lines
    )
    assert any("mm" in line and "tensor core (sm__pipe_tensor_cycles_active 82.3 % >= 60 %)" in line for line in lines)
    assert "mm memory: DRAM read a launch 166.0 MiB, L2 hit 70.1 %, accesses (wavefronts) there 22,313,691" in lines
    assert (
        "mm scheduler: warps ready a scheduler 0.22, waits for long scoreboard 3.48 cycles an instruction, "
        "waits for barrier 2.81 cycles an instruction" in lines
    )
    assert "mm line 12: 50% of its samples, long scoreboard (waiting for global memory) | a = tl.load(p)" in lines
    assert "mm line 20: 10% of its samples" in lines


def test_counters_of_a_part_of_the_launches_say_of_how_many() -> None:
    some = list(section_lines(replace(MM, launches=40, section_launches=16), ("memory", "scheduler")))
    assert [line.partition(": ")[0] for line in some] == [
        "mm memory (means over 16 of 40 launches)",
        "mm scheduler (means over 16 of 40 launches)",
    ]
    for known in (replace(MM, launches=40, section_launches=40), replace(MM, section_launches=None)):
        assert "means" not in "".join(section_lines(known, ("memory",)))


def test_a_model_gets_a_row_a_kernel_with_what_bounds_it() -> None:
    lines = brief_profile(FOUND).splitlines()
    assert lines[2] == (
        "kernel share us launches SM% tensor% DRAM% L2% L2hit% pipe% occupancy% regs waves; "
        "occupancy limited by; most waiting; bounded by"
    )
    assert lines[4] == "_copy 10.0% 1000.0 1 - - - - - - - - -; -; -; -"


def test_a_column_that_no_kernel_has_is_not_there() -> None:
    light = replace(FOUND, kernels=(replace(MM, sm_percent=None, l2_hit_percent=None, main_stall=None),), sections=())
    header = brief_profile(light).splitlines()[2]
    assert (
        header
        == "kernel share us launches tensor% DRAM% L2% pipe% occupancy% regs waves; occupancy limited by; bounded by"
    )


def test_a_profile_keeps_to_its_tokens_and_sums_up_the_shortest_kernels() -> None:
    kernels = tuple(
        replace(MM, name=f"kernel_{i}", duration_us=900.0 - i, share=0.05, counters={}, hot_lines=()) for i in range(20)
    )
    many = replace(FOUND, kernels=kernels)
    text = brief_profile(many)
    assert count_tokens(text) <= PROFILE_TOKENS == 600
    assert "kernel_0 " in text and "kernel_11 " not in text and " more kernels " in text
    assert count_tokens(brief_profile(many, most_tokens=200)) <= 200
    assert len(brief_profile(many, most_tokens=3000)) > len(text)


def detailed(name: str, share: float) -> KernelProfile:
    """A kernel with counters of all sections and five long hot lines."""
    text = "accumulator = tl.dot(tl.load(left, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0), right)"
    lines = tuple(HotLine(10 + i, 0.3 - i / 20, "long scoreboard (waiting for global memory)", text) for i in range(5))
    counters = {counter: 3.21 for names in SECTION_METRICS.values() for counter in names}
    return replace(
        MM, name=name, share=share, duration_us=1000 * share, counters=counters, hot_lines=lines, diagnosis=TENSOR
    )


@pytest.mark.parametrize("sections", [SECTIONS, ("memory", "source")])
def test_details_never_hide_a_kernel_nor_what_bounds_it_nor_a_note(sections: tuple[str, ...]) -> None:
    shares = {"_symmetric_product": 0.34, "_apply": 0.33, "_normalise": 0.27, "_small": 0.06}
    kernels = tuple(detailed(name, share) for name, share in shares.items())
    profile = replace(FOUND, kernels=kernels, sections=sections, notes=("only the first 512 were profiled",))
    text = brief_profile(profile)
    assert count_tokens(text) <= PROFILE_TOKENS
    lines = text.splitlines()
    for name, share in shares.items():
        row = [line for line in lines if line.startswith(f"{name} {share:.1%} ")]
        assert bool(row) == (share > 0.1), "every kernel that counts, and no other in place of details"
        assert all("tensor core (" in line for line in row)
    assert any(line.startswith("1 more kernels 6.0% ") for line in lines)
    note = lines.index("note: only the first 512 were profiled")
    details = [line.split()[0] for line in lines[note + 1 : -1]]
    assert details and details == sorted(details, key=list(shares).index), "by share, and after the notes"
    left = int(lines[-1].removesuffix(" lines left out"))
    whole = brief_profile(profile, most_tokens=100_000).splitlines()
    assert left == len(whole) - len(shares) - note + 3 - len(details)


def test_hot_lines_are_told_by_their_part_of_the_call() -> None:
    kernels = (detailed("a", 0.6), detailed("b", 0.4))
    text = brief_profile(replace(FOUND, kernels=kernels, sections=("source",)), most_tokens=100_000)
    told = [line.split(":")[0] for line in text.splitlines() if " line " in line]
    assert told[:6] == ["a line 10", "a line 11", "b line 10", "a line 12", "b line 11", "a line 13"]


def test_the_change_names_time_percentages_and_the_kernels_that_moved() -> None:
    before = replace(
        FOUND,
        kernels=(replace(MM, duration_us=10_000.0, tensor_percent=47.5), replace(MM, name="gone", duration_us=500.0)),
        duration_us=12_500.0,
        diagnosis=Diagnosis(Bottleneck.LATENCY, ()),
    )
    text = change_text(FOUND, before, "the best submission (turn 6)")
    assert text.startswith(
        "Against the best submission (turn 6): kernel time 12500.0 -> 10000.0 us (-20.0 %), tensor 49.1 -> 81.0 %, DRAM"
    )
    assert "bounded by latency or occupancy -> tensor core" in text
    assert (
        "mm 10000.0 us -> 9000.0 us" in text and "gone 500.0 us -> none" in text and "_copy none -> 1000.0 us" in text
    )


def test_profiles_of_different_workloads_are_not_compared() -> None:
    text = change_text(FOUND, replace(FOUND, workload="small"), "FILE")
    assert text == "No comparison with FILE: that is a profile of small, not of large."


def test_an_old_profile_reads_as_it_did() -> None:
    old = Profile("large", "ncu", (PRODUCT, COPY), 10_000.0)
    assert "bounded by" not in profile_text(old) + brief_profile(old)
    text = change_text(FOUND, old, "it")
    assert "L2" not in text and "occupancy 12.4 -> 12.4 %" in text


def test_answers_hold_the_change_and_the_bound() -> None:
    profiled = verdict(VerdictStatus.UNTIMED, profile=FOUND)
    assert "\nAgainst it." in brief_answer(JobKind.PROFILE, profiled, "Against it.")
    assert count_tokens(brief_answer(JobKind.PROFILE, profiled, "Against it.", 120)) <= 120
    assert answer_text(JobKind.PROFILE, profiled, "Against it.").endswith(f"{NO_LATENCY}\n\nAgainst it.")
    nothing = verdict(VerdictStatus.UNTIMED, notes=("no profile",))
    assert "Against" not in answer_text(JobKind.PROFILE, nothing, "Against it.")


def test_a_kernel_without_a_name_of_its_own_stays_one_line() -> None:
    odd: KernelProfile = replace(MM, name="a\nb")
    assert "a b line 12" in profile_text(replace(FOUND, kernels=(odd,)))
