"""Confinement of a process by itself: what it may read, write, reach and signal. Linux, standard library only.

Covers: Landlock, seccomp, capabilities, process trees, which folders make up the toolchain, and the lease of a GPU
(lease.py), which keeps one user's work out of another's measurement. Used by the
evaluator on the GPU machine and by the sandbox around the agent's tools. Does not cover: bubblewrap (sandbox),
and what is measured inside.
"""

from __future__ import annotations

from d2k_agent.isolation.confinement import Policy, confine, hide_process
from d2k_agent.isolation.gpus import gpu_devices
from d2k_agent.isolation.landlock import landlock_abi
from d2k_agent.isolation.processes import (
    become_subreaper,
    descendants,
    end_descendants,
    end_with_parent,
    libraries_of,
)
from d2k_agent.isolation.startup.sitecustomize import skip_unreadable_packages
from d2k_agent.isolation.toolchain import Toolchain, find_toolchain, toolchain_paths

__all__ = [
    "Policy",
    "Toolchain",
    "become_subreaper",
    "confine",
    "descendants",
    "end_descendants",
    "end_with_parent",
    "find_toolchain",
    "gpu_devices",
    "hide_process",
    "landlock_abi",
    "libraries_of",
    "skip_unreadable_packages",
    "toolchain_paths",
]
