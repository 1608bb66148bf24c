"""One workspace, and commands run in it under the isolation that this machine offers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from d2k_agent.errors import MachineError
from d2k_agent.isolation import Policy, find_toolchain, gpu_devices, startup, toolchain_paths
from d2k_agent.isolation.supervisor import Plan
from d2k_agent.sandbox.bubblewrap import command_line, find_bubblewrap
from d2k_agent.sandbox.gpu_share import GpuShare
from d2k_agent.sandbox.supervised import Completed, run_supervised

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from d2k_agent.isolation import Toolchain

IsolationKind = Literal["bubblewrap", "landlock", "none"]
_PROGRAMS = ("/usr/local/cuda/bin", "/usr/local/bin", "/usr/bin", "/bin")
_SCRATCH = ".tmp"
_STARTUP = Path(startup.__file__).resolve().parent


@dataclass(frozen=True)
class Isolation:
    """Which wall stands around the agent's commands, and what was found out about it (recorded in the run)."""

    kind: IsolationKind
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceLimits:
    """Bounds of each single process, in bytes. `memory_bytes` is address space: None where a GPU reserves much."""

    memory_bytes: int | None = None
    file_bytes: int = 8 << 30
    open_files: int = 4096

    def as_plan(self) -> dict[str, int]:
        """The limits by the names that the resource module gives them."""
        memory = {} if self.memory_bytes is None else {"RLIMIT_AS": self.memory_bytes}
        return {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": self.file_bytes, "RLIMIT_NOFILE": self.open_files, **memory}


class Sandbox:
    """Runs commands that see the workspace, the toolchain and `readable`, and nothing else; no network.

    A command's environment is a fixed short list plus what `run` is given. Nothing outlives a command: what it left in
    the background is ended when it returns. Temporary files are gone afterwards too.
    """

    def __init__(
        self,
        isolation: Isolation,
        workspace: Path,
        *,
        readable: Sequence[Path] = (),
        limits: ResourceLimits | None = None,
        gpus: GpuShare | None = None,
        unsafe_no_sandbox: bool = False,
    ) -> None:
        """`gpus` are what commands that ask for a GPU see (None: all of them).

        Raises MachineError when there is no isolation and `unsafe_no_sandbox` does not accept that.
        """
        if isolation.kind == "none" and not unsafe_no_sandbox:
            raise MachineError(
                "no sandbox is to be had on this machine, so the agent's commands will not be run: install bubblewrap "
                "or use a kernel with Landlock (6.12 or newer), or accept the risk with --unsafe-no-sandbox"
            )
        self.isolation = isolation
        self.workspace = workspace.resolve()
        self._readable = tuple(path.resolve() for path in readable)
        self._gpus = gpus or GpuShare()
        self._limits = limits or ResourceLimits(memory_bytes=None if gpu_devices() else _most_memory_bytes())

    def run(
        self,
        argv: Sequence[str],
        *,
        limit_s: float,
        output_bytes: int,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        readable: Sequence[Path] = (),
        gpu: bool = False,
    ) -> Completed:
        """Run `argv` in the workspace for at most `limit_s` seconds; keep `output_bytes` of each stream.

        Standard input is `stdin`, else closed. With `gpu` the GPU's devices are there too, and nobody measures on it
        meanwhile: waiting for that is no part of the limit. Raises MachineError when the command could not be started;
        a command that fails is a Completed.
        """
        visible = [*self._readable, *(path.resolve() for path in readable)]
        environment = {**self._environment(), **(env or {}), **(self._gpus.variables if gpu else {})}
        devices = gpu_devices() if gpu else ()
        plan = Plan(
            tuple(argv),
            environment,
            str(self.workspace),
            policy=self._policy(visible, devices) if self.isolation.kind == "landlock" else None,
            bubblewrap=self._bubblewrap(visible, devices) if self.isolation.kind == "bubblewrap" else (),
            limits=self._limits.as_plan(),
        )
        self._empty_scratch()
        try:
            with self._gpus.held() if gpu else contextlib.nullcontext(0.0) as queued_s:
                completed = run_supervised(plan, stdin, limit_s, output_bytes)
                return dataclasses.replace(completed, queued_s=queued_s)
        finally:
            self._empty_scratch(make=False)  # opens the workspace again, too: the host reads it between calls

    @functools.cached_property
    def _toolchain(self) -> Toolchain:
        return find_toolchain()

    @functools.cached_property
    def _readable_trees(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return toolchain_paths()

    def _environment(self) -> dict[str, str]:
        programs = [str(Path(sys.executable).parent), *map(str, self._toolchain.programs), *_PROGRAMS]
        own_tmp = self.isolation.kind == "bubblewrap"
        environment = {
            "PATH": os.pathsep.join(programs),
            "HOME": str(self.workspace),
            "TMPDIR": "/tmp" if own_tmp else str(self.workspace / _SCRATCH),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        if self.isolation.kind == "landlock":
            environment["PYTHONPATH"] = str(_STARTUP)
        return environment

    def _policy(self, visible: Sequence[Path], devices: Sequence[str]) -> Policy:
        read, listed = self._readable_trees
        return Policy(
            read=(*read, str(_STARTUP), *map(str, visible)),
            write=(str(self.workspace),),
            list_only=listed,
            devices=(*Policy.devices, *devices),
            proc_of_children=bool(devices),
        )

    def _bubblewrap(self, visible: Sequence[Path], devices: Sequence[str]) -> tuple[str, ...]:
        program = find_bubblewrap()
        if program is None:
            raise MachineError("bubblewrap is gone since this run was prepared: install it again, or start a new run")
        return command_line(program, self._toolchain, self.workspace, visible, devices)

    def _empty_scratch(self, make: bool = True) -> None:
        """Where there is no private /tmp, temporary files lie in a folder of the workspace, emptied around a call."""
        _reopen(self.workspace)
        if self.isolation.kind == "bubblewrap":
            return
        scratch = self.workspace / _SCRATCH
        if scratch.is_symlink() or scratch.is_file():
            scratch.unlink()
        if scratch.is_dir():
            _reopen(scratch)
        shutil.rmtree(scratch, ignore_errors=True)  # a command may have made files here that cannot be removed
        if make:
            with contextlib.suppress(FileExistsError):
                scratch.mkdir()


def _reopen(folder: Path) -> None:
    """Give `folder` back to its owner: a command may have closed it (chmod 000), and no later one could start in it."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        folder.chmod(mode | stat.S_IRWXU)


def _most_memory_bytes() -> int:
    """Four fifths of the machine's memory, and never less than 4 GiB, which importing torch asks for."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(4 << 30, total * 4 // 5)
