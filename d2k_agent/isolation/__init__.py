"""Confinement of a process by itself: what it may read, write, reach and signal. Linux, standard library only.

Covers: Landlock, seccomp, capabilities, process trees, and which folders make up the toolchain. Used by the
evaluator on the GPU machine and by the sandbox around the agent's tools. Does not cover: bubblewrap (sandbox),
and what is measured inside.
"""

from d2k_agent.isolation.confinement import Policy, confine, hide_process
from d2k_agent.isolation.landlock import landlock_abi
from d2k_agent.isolation.processes import become_subreaper, descendants, end_descendants
from d2k_agent.isolation.toolchain import toolchain_paths

__all__ = [
    "Policy",
    "become_subreaper",
    "confine",
    "descendants",
    "end_descendants",
    "hide_process",
    "landlock_abi",
    "toolchain_paths",
]
