"""Wire types of an evaluation: the job that goes to a GPU machine and the verdict that comes back.

Covers: frozen dataclasses, the rules that make an impossible record unconstructible, and their JSON form.
Does not cover: how a job travels (launchers) or how it is carried out (evaluator). Standard library only.
"""

from d2k_agent.contract.compilation import MOST_KERNELS, CompileReport, KernelReport
from d2k_agent.contract.job import EvaluatorJob, JobKind, Limits, TaskBundle, source_sha256
from d2k_agent.contract.profile import (
    SECTIONS,
    Bottleneck,
    Diagnosis,
    Evidence,
    HotLine,
    KernelProfile,
    Profile,
    ProfileWish,
)
from d2k_agent.contract.sanitize import SanitizerCheck, SanitizerError, SanitizerReport
from d2k_agent.contract.verdict import (
    MOST_DRIFT,
    QUEUED,
    Check,
    Environment,
    Measurement,
    Verdict,
    VerdictStatus,
    Violation,
    WorkloadResult,
)

__all__ = [
    "MOST_DRIFT",
    "MOST_KERNELS",
    "QUEUED",
    "SECTIONS",
    "Bottleneck",
    "Check",
    "CompileReport",
    "Diagnosis",
    "Environment",
    "EvaluatorJob",
    "Evidence",
    "HotLine",
    "JobKind",
    "KernelProfile",
    "KernelReport",
    "Limits",
    "Measurement",
    "Profile",
    "ProfileWish",
    "SanitizerCheck",
    "SanitizerError",
    "SanitizerReport",
    "TaskBundle",
    "Verdict",
    "VerdictStatus",
    "Violation",
    "WorkloadResult",
    "source_sha256",
]
