"""The launcher that the settings ask for: an evaluator on this machine, or one behind a command prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import RunConfig, Settings, prefix_words
from d2k_agent.contract.gpu import CUDA_VARIABLES, all_hidden, gpu_variables, no_gpu
from d2k_agent.errors import UsageError
from d2k_agent.isolation import gpu_devices

if TYPE_CHECKING:
    from d2k_agent.launchers import Launcher, Progress
    from d2k_agent.sandbox import GpuShare


def evaluator_command(around: Surroundings, settings: Settings) -> tuple[tuple[str, ...], str]:
    """The command prefix (empty: none) and the interpreter behind it."""
    prefix = prefix_words(settings.evaluator)
    # Where a prefix leads, this interpreter's path means nothing.
    return prefix, settings.evaluator_python or ("python3" if prefix else around.python)


def open_launcher(
    around: Surroundings, settings: Settings, progress: Progress, archive: bytes | None = None
) -> Launcher:
    """The evaluator that the settings name; it starts with its first job. `archive` is its code (None: this package's).

    Raises UsageError for a GPU that is hidden here.
    """
    from d2k_agent.launchers import ProcessLauncher

    require_gpu(around, settings)
    prefix, python = evaluator_command(around, settings)
    environment = around.evaluator_environment(through_prefix=bool(prefix))
    return ProcessLauncher(environment, python, progress, prefix=prefix, gpu=settings.gpu, archive=archive)


def require_gpu(around: Surroundings, wish: Settings | RunConfig) -> None:
    """Raise UsageError for a GPU that is not here or hidden. Behind a prefix the evaluator finds that out."""
    if wish.evaluator or not wants_gpu(wish):
        return
    environment = around.evaluator_environment()
    if wish.gpu is None and all_hidden(environment):
        raise UsageError("device cuda is not to be had: CUDA_VISIBLE_DEVICES hides every GPU; unset it")
    try:
        if wish.gpu is not None:
            gpu_variables(wish.gpu, environment)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    if not gpu_devices():
        raise UsageError(no_gpu(wish.gpu))


def wants_gpu(wish: Settings | RunConfig) -> bool:
    """True where a GPU was asked for, and not just any device that is there."""
    return wish.gpu is not None or wish.device == "cuda"


def surely_on_a_cpu(around: Surroundings, config: RunConfig) -> bool:
    """True where nothing can be measured. Behind a prefix, which device there is shows only with the first verdict."""
    if config.device == "cpu":
        return True
    return config.evaluator is None and (not gpu_devices() or all_hidden(around.evaluator_environment()))


def gpus_of_tools(around: Surroundings, config: RunConfig, progress: Progress) -> GpuShare:
    """The GPUs that the agent's own commands see: those of the evaluator, where that is on this machine."""
    from d2k_agent.sandbox import GpuShare

    environment = around.evaluator_environment()
    variables = {name: environment[name] for name in CUDA_VARIABLES if name in environment}
    here = config.gpu if config.evaluator is None else None
    return GpuShare(variables | gpu_variables(here, environment), progress)
