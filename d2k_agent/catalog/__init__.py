"""Tasks, tools, guidance and samples as typed objects, and the only place that knows where they lie.

Covers: finding and reading a task, slicing guidance by level, staging what an agent sees, checking a task folder.
Does not cover: running anything of a task. Standard library only; torch is never imported here.
"""

from d2k_agent.catalog.checking import Finding, check_task
from d2k_agent.catalog.finding import find_task, list_tasks, shipped_task
from d2k_agent.catalog.impossible import IMPOSSIBLE, hardware_floor, suspected
from d2k_agent.catalog.latencies import OTHER_RANKS, SourceLatencies, measured_digest, source_latencies
from d2k_agent.catalog.levels import LEVELS, parse_levels, slice_guidance
from d2k_agent.catalog.resources import (
    data_root,
    guidance_dir,
    sample_trace,
    samples_dir,
    schema_dir,
    tasks_dir,
    tools_dir,
)
from d2k_agent.catalog.scaffold import new_task
from d2k_agent.catalog.speed_of_light import (
    Counts,
    SpeedOfLight,
    cache_bytes,
    counts_as_run,
    counts_of,
    rotated_floor,
    speed_of_light,
)
from d2k_agent.catalog.staging import stage, staged_files
from d2k_agent.catalog.task import SHARED_FILES, Task, Workload
from d2k_agent.catalog.wrong import WrongKernel, wrong_kernels

__all__ = [
    "IMPOSSIBLE",
    "LEVELS",
    "OTHER_RANKS",
    "SHARED_FILES",
    "Counts",
    "Finding",
    "SourceLatencies",
    "SpeedOfLight",
    "Task",
    "Workload",
    "WrongKernel",
    "cache_bytes",
    "check_task",
    "counts_as_run",
    "counts_of",
    "data_root",
    "find_task",
    "guidance_dir",
    "hardware_floor",
    "list_tasks",
    "measured_digest",
    "new_task",
    "parse_levels",
    "rotated_floor",
    "sample_trace",
    "samples_dir",
    "schema_dir",
    "shipped_task",
    "slice_guidance",
    "source_latencies",
    "speed_of_light",
    "stage",
    "staged_files",
    "suspected",
    "tasks_dir",
    "tools_dir",
    "wrong_kernels",
]
