"""What a candidate may not do while it runs, by name: the rule that it breaks, and how acts outside PyTorch are seen.

An operator of PyTorch is named as the dispatcher names it (metering.py sees those), an act as Python's audit event.
"""

from __future__ import annotations

import _posixsubprocess
import _thread
import os
import platform  # noqa: F401 - imported here, its code is known
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
import torch.utils.dlpack

from d2k_agent.contract import VerdictStatus, Violation
from d2k_agent.evaluator.faults import CandidateFault
from d2k_agent.evaluator.known_code import KnownCode
from d2k_agent.evaluator.metering import HOST_READS

_FORK_EXEC = "_posixsubprocess.fork_exec"
_TO_DLPACK = "torch.to_dlpack"
_PROGRAMS = frozenset({"subprocess.Popen", "os.posix_spawn", _FORK_EXEC})
"""Processes that run a program."""
_WORKERS = _PROGRAMS | {
    *("_thread.start_new_thread", "_thread.start_joinable_thread", "os.fork", "os.forkpty", "os.system")
}
_NATIVE = frozenset(
    {
        *("ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function"),
        *("ctypes.cdata", "ctypes.cdata/buffer", "ctypes.string_at", "ctypes.wstring_at"),
    }
)
_ACTS = _WORKERS | _NATIVE | {_TO_DLPACK}
_COMPILERS = frozenset({"ptxas", "ptxas-blackwell", "gcc", "clang", "cc", "ldconfig", "file"})
"""What Triton runs where it compiles for a GPU: compilers, and what tells of libraries and of this Python."""
_MEANS = frozenset({"subprocess", "platform", "ctypes", "ctypes.util", __name__})
"""Modules by which others start programs and reach native code, and this one, which announces it."""
_OURS = frozenset({"d2k_agent", "contextlib", "ctypes"})
"""Packages of whose code alone the stack is made where the evaluator itself acts."""


def broken_rule(name: str) -> CandidateFault:
    """The fault of a candidate that did this."""
    if name in _WORKERS:
        check, did = "runtime.workers", f"solution.py started a thread or a process ({name}), whose work nobody meters"
        instead = "launch Triton kernels from run() itself"
    elif name in _NATIVE:
        check, did = "runtime.native", f"solution.py reached for native code or memory ({name})"
        instead = "the work belongs into Triton kernels"
    elif name in HOST_READS or name == _TO_DLPACK:
        check, did = "runtime.operators", f"run() read values of a tensor on the host ({name})"
        instead = "leave them on the GPU and load them in a kernel; sizes, shapes and strides may be asked for"
    else:
        check, did = "runtime.operators", f"run() computed with PyTorch ({name})"
        instead = (
            "PyTorch may allocate, reshape and copy within one dtype; arithmetic and casts belong into Triton kernels"
        )
    message = f"{did}: {instead}"
    return CandidateFault(VerdictStatus.RULE_VIOLATION, message, (Violation(check, message),))


def watch_acts(folder: str, compiler: str = "cc") -> list[str]:
    """From now on, for the life of this process: every act of a candidate whose files lie in `folder`, as it happens.

    A meter belongs to one thread, and sees no process and no native code. Python announces acts that lead there to
    hooks that nothing can take out again. An act is the candidate's, whoever did it for the candidate, but where
    Triton runs a compiler (`compiler` is the one of C), where PyTorch counts GPUs, and where no other code than the
    evaluator's is at work. Call it from the function that will import the candidate, before it does.
    """
    seen: list[str] = []
    known = KnownCode("triton", "torch.cuda", *_MEANS, *_OURS)
    below = set(_frames(sys._getframe(1)))  # noqa: SLF001 - told no more
    compilers = _COMPILERS | {os.path.basename(compiler)}

    def forgiven(event: str, arguments: tuple[Any, ...], frame: FrameType) -> bool:
        modules = [known.module_of(item) for item in _frames(frame) if item not in below]
        module = next((name for name in modules if name not in _MEANS), "")
        if event in _PROGRAMS:
            program = os.fsdecode(arguments[0][0] if event == _FORK_EXEC else arguments[0])
            return module.startswith("triton.") and os.path.basename(program) in compilers and not within(program)
        ours = all(name.partition(".")[0] in _OURS for name in modules)
        return event in _NATIVE and (ours or module == "torch.cuda")

    def within(program: str) -> bool:
        path = program if os.sep in program else shutil.which(program) or os.sep
        return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _ACTS and not forgiven(event, arguments, sys._getframe(1)):  # noqa: SLF001
            seen.append(event)

    sys.addaudithook(note)
    _announce()
    return seen


def _frames(frame: FrameType | None) -> list[FrameType]:
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _announce() -> None:
    """Make acts known that Python and PyTorch are silent about: a program by multiprocessing, values by DLPack."""
    _replace(_FORK_EXEC, (_posixsubprocess, "fork_exec"), (subprocess, "_fork_exec"))
    for name in ("_to_dlpack", "_to_dlpack_versioned"):
        _replace(_TO_DLPACK, (torch._C, name), (torch, "to_dlpack"), (torch.utils.dlpack, "to_dlpack"))  # noqa: SLF001
    if sys.version_info < (3, 12):
        names = ("start_new_thread", "start_new", "_start_new_thread")
        _replace("_thread.start_new_thread", *((module, name) for module in (_thread, threading) for name in names))


def _replace(event: str, *places: tuple[Any, str]) -> None:
    """Put in place of one function, named by its first place, what announces it; it may be missing elsewhere."""
    function: Callable[..., Any] | None = getattr(*places[0], None)
    if function is None:
        return

    def announced(*args: Any, **kwargs: Any) -> Any:
        sys.audit(event, *args)
        return function(*args, **kwargs)

    for module, name in places:
        if getattr(module, name, None) is function:
            setattr(module, name, announced)
