"""The job: all that a bare GPU machine needs to judge one candidate."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field

from d2k_agent.contract.profile import ProfileWish
from d2k_agent.contract.sanitize import SanitizerCheck


class JobKind(enum.StrEnum):
    """What is done with the candidate, or with the task: code runs that is not ours, so every kind is a job."""

    EVALUATE = "evaluate"
    CONFIRM = "confirm"
    """EVALUATE of a run's winner: measured once more by the profiler's clock."""
    COMPILE = "compile"
    PROFILE = "profile"
    SANITIZE = "sanitize"
    """The candidate's kernels under compute-sanitizer, at the smoke shapes."""
    MODEL = "model"
    """The candidate's latency on the target by a model, without a GPU and without any measurement."""
    PROVE = "prove"
    """The task itself is put to the test; the candidate is not looked at, and nothing of it runs."""

    @property
    def judges(self) -> bool:
        """True where the candidate is checked and, on a GPU, measured."""
        return self in (JobKind.EVALUATE, JobKind.CONFIRM)


@dataclass(frozen=True)
class TaskBundle:
    """A task as text: what the evaluator needs of its folder, hidden files included.

    `public` maps the names of the shared files to their text (config.json, reference.py, get_inputs.py, ...),
    `hidden` the names in hidden/ (workloads.json, check.py, rules.toml).
    """

    slug: str
    public: dict[str, str]
    hidden: dict[str, str]

    @property
    def digest(self) -> str:
        """sha256 over every file name and text, public and hidden."""
        total = hashlib.sha256()
        for part in (self.public, self.hidden):
            for name in sorted(part):
                total.update(f"{name}\0{len(part[name])}\0{part[name]}".encode())
        return total.hexdigest()


@dataclass(frozen=True)
class Limits:
    """Bounds of one job. Seconds are wall-clock seconds; bytes bound the candidate's address space on a CPU.

    `late_call_s` bounds a call of a late variation: in the interpreter an honest kernel with small tiles takes minutes.
    `job_s` bounds the time spent waiting for calls of a job, all together. `gpu_call_s` bounds a call, or a timed
    segment, on a GPU.
    """

    call_s: float = 300.0
    late_call_s: float = 900.0
    gpu_call_s: float = 60.0
    import_s: float = 60.0
    compile_s: float = 240.0
    job_s: float = 3000.0
    candidate_memory_bytes: int = 16 << 30

    @property
    def longest_step_s(self) -> float:
        """The longest that an evaluator may be silent: its steps are bounded, and it announces each."""
        return max(self.call_s, self.late_call_s, self.compile_s + self.import_s)


@dataclass(frozen=True)
class EvaluatorJob:
    """One candidate, one task, what to do and within which bounds.

    `workloads` names registered or smoke labels; empty means all. `target` is the GPU to compile for; None is the one
    that the candidate runs on, on a CPU the one that it is `meant_for`, else the one present, else a B200.
    `ranks` is for how many ranks a task that is for several is judged; None: as many as its config.json names first.
    `seed` is 64 hexadecimal digits from a secret source: it
    travels over stdin and reaches the supervisor alone. `static_rules` is off in tests of what stands behind them; no
    command line offers it. `baseline` is the source that speedups are over; None: there are none. `beat` is the
    incumbent's geometric-mean speedup: a candidate above it is measured A B B A with the baseline (None: any is).
    `modelling_s` is how much processor time may go into modelling a candidate that cannot be measured; 0: none.
    `trusted` says that the candidate is the task's own code, such as its reference: no rule holds, PyTorch may compute.
    `profile` and `check` belong to jobs of these kinds.
    """

    kind: JobKind
    task: TaskBundle
    candidate: str
    seed: str
    target: str | None
    device: str = "auto"
    workloads: tuple[str, ...] = ()
    ranks: int | None = None
    limits: Limits = field(default_factory=Limits)
    unsafe_no_sandbox: bool = False
    static_rules: bool = True
    baseline: str | None = None
    beat: float | None = None
    trusted: bool = False
    modelling_s: float = 0.0
    meant_for: str | None = None
    profile: ProfileWish = field(default_factory=ProfileWish)
    check: SanitizerCheck = SanitizerCheck.MEMCHECK

    def __post_init__(self) -> None:
        if self.ranks is not None and self.ranks < 1:
            raise ValueError(f"a job has at least one rank, not {self.ranks}")
        if len(self.seed) != 64 or set(self.seed) - set("0123456789abcdef"):
            raise ValueError("seed must be 64 hexadecimal digits")

    @property
    def candidate_sha256(self) -> str:
        """The candidate's name: the sha256 of its source text in UTF-8."""
        return source_sha256(self.candidate)


def source_sha256(source: str) -> str:
    """The name of a source text: its sha256 in UTF-8."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
