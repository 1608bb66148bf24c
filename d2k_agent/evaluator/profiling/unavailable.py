"""Why there is no profile, in one sentence that says what to do."""

from __future__ import annotations

MISSING = (
    "Nsight Compute (ncu) was not found on the PATH, in CUDA_HOME, below /usr/local/cuda* or below "
    "/opt/nvidia/nsight-compute: install it, it comes with the CUDA toolkit, or put it on the evaluator's PATH"
)
PERMISSION = (
    "this machine keeps the GPU's performance counters to administrators (ERR_NVGPUCTRPERM): who runs it has to load "
    "the NVIDIA driver with NVreg_RestrictProfilingToAdminUsers=0; nothing inside a run can change that, and timing "
    "works without it"
)


class ProfileUnavailable(Exception):
    """The machine or the profiler gave no profile; the candidate is not to blame. The text is one sentence."""
