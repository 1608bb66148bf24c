"""A profile in words: bounded, the slowest kernel first, unknown shown as such."""

from __future__ import annotations

from dataclasses import replace

from d2k_agent.contract import KernelProfile, Profile
from d2k_agent.reports.profile_text import MOST_KERNELS, NO_LATENCY, profile_text

PRODUCT = KernelProfile(
    name="_product",
    launches=30,
    duration_us=9000.0,
    share=0.9,
    grid=(132, 1, 1),
    block=(256, 1, 1),
    registers=168,
    sm_percent=82.27,
    tensor_percent=81.04,
    dram_percent=21.39,
    l2_hit_percent=70.1,
    occupancy_percent=12.44,
    occupancy_limiter="registers, shared memory",
    main_stall="long scoreboard (waiting for global memory)",
    main_stall_percent=30.2,
)
COPY = KernelProfile(name="_copy", launches=1, duration_us=1000.0, share=0.1, grid=(), block=())
PROFILE = Profile("large", "ncu 2025.3.1.0", (COPY, PRODUCT), 10000.0, ("only a part was profiled",))


def test_a_line_a_kernel_with_what_limits_it() -> None:
    lines = profile_text(PROFILE).splitlines()
    assert lines[0] == (
        "Profile of one call of run() on large, by ncu 2025.3.1.0: 31 launch(es) of 2 kernel(s), 10,000.0 us in all."
    )
    assert lines[3].split() == (
        "_product 90.0% 9,000.0 30 82.3 81.0 21.4 70.1 12.4 registers, shared memory (168 registers a thread)".split()
    )
    assert lines[4].split() == "_copy 10.0% 1,000.0 1 - - - - - -".split()
    assert "  _product: long scoreboard (waiting for global memory), 30 %" in lines
    assert not [line for line in lines if line.startswith("  _copy")]


def test_notes_are_told_and_durations_are_called_no_latency() -> None:
    assert profile_text(PROFILE).endswith(f"Note: only a part was profiled\n{NO_LATENCY}")


def test_many_kernels_with_long_names_stay_short_and_add_up() -> None:
    kernels = tuple(
        replace(PRODUCT, name=f"kernel_{i}_" + "x\n" * 500, share=0.02, duration_us=50.0) for i in range(50)
    )
    text = profile_text(Profile("w", "ncu", kernels, 2500.0))
    assert len(text) < 6000
    assert text.count("kernel_") == 2 * MOST_KERNELS
    rest = next(line for line in text.splitlines() if "more kernel(s)" in line)
    assert rest.split()[:6] == ["38", "more", "kernel(s)", "76.0%", "1,900.0", "1,140"]
