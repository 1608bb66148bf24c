"""What lives as long as the evaluator: zygotes, devices, baselines, and what is remembered by source digest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from d2k_agent.contract import CompileReport, EvaluatorJob, WorkloadResult, source_sha256
from d2k_agent.evaluator.checks.proving import holds
from d2k_agent.evaluator.devices import CpuDevice, Device
from d2k_agent.evaluator.devices.cuda import CudaDevice
from d2k_agent.evaluator.faults import TaskFault
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.task import LoadedTask
from d2k_agent.evaluator.timing.session import Baseline
from d2k_agent.evaluator.zygote import Zygote

Progress = Callable[[str], None]


@dataclass
class Bench:
    """Zygotes fork candidates: `interpreting` on a CPU, `running` on a GPU (None: there is none), `compiling`.

    `late` remembers what the late variations of a source came to: results, and the most bytes alive.
    """

    interpreting: Zygote
    compiling: Zygote
    running: Zygote | None
    evaluator_digest: str
    progress: Progress
    reports: dict[tuple[str, str, str], CompileReport] = field(default_factory=dict)
    late: dict[tuple[str, str, str], tuple[tuple[WorkloadResult, ...], int | None]] = field(default_factory=dict)
    _held: set[str] = field(default_factory=set)
    _devices: dict[str, Device] = field(default_factory=dict)
    _baselines: dict[tuple[str, str], Baseline] = field(default_factory=dict)

    def device(self, wanted: str) -> Device:
        """The device of that name; `auto` is the GPU where there is one.

        Raises TaskFault where it is not to be had, OSError where the GPU does not start.
        """
        name = ("cuda" if self.running else "cpu") if wanted == "auto" else wanted
        if name == "cuda" and self.running is None:
            raise TaskFault("device cuda is not to be had: torch sees no NVIDIA GPU here; use --device cpu")
        if name not in self._devices:
            self._devices[name] = _cuda() if name == "cuda" else CpuDevice()
        return self._devices[name]

    def require(self, task: LoadedTask, device: Device, seed: str) -> None:
        """Once a task: that it can tell right from wrong at all. Raises TaskFault as holds() does."""
        if task.digest not in self._held:
            holds(task, device, seed)
            self._held.add(task.digest)

    def candidate(
        self, zygote: Zygote, job: EvaluatorJob, device: str = "cpu", source: str = "", gpu: int = 0
    ) -> CandidateProcess:
        """A confined process for the job's candidate, or for another `source`, not entered yet.

        `gpu` is which one it runs on, of those visible.
        """
        return CandidateProcess(
            zygote, source or job.candidate, job.limits, self._lasting, job.unsafe_no_sandbox, device, gpu
        )

    def _lasting(self) -> list[int]:
        """The processes that outlive candidates."""
        zygotes = [item.pid for item in (self.interpreting, self.compiling, self.running) if item is not None]
        return zygotes + [pid for known in self._baselines.values() if not known.ended for pid in known.pids]

    def baseline(self, job: EvaluatorJob, start: Callable[[], Baseline]) -> Baseline:
        """The job's baseline as it stands ready, started if it does not, or where the last one failed."""
        assert job.baseline is not None
        key = (job.task.digest, f"{source_sha256(job.baseline)} {job.ranks}")
        if key not in self._baselines or self._baselines[key].ended:
            self._baselines[key] = start()
        return self._baselines[key]


def _cuda() -> Device:
    try:
        return CudaDevice()
    except RuntimeError as problem:
        raise OSError(f"the GPU cannot be used ({problem}); run `d2k-agent doctor`, or use --device cpu") from problem
