"""What a candidate may not do while it runs, by name: the rule that it breaks, and how acts outside PyTorch are seen.

An operator of PyTorch is named as the dispatcher names it (metering.py sees those), an act as Python's audit event.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from types import FrameType
from typing import Any

from d2k_agent.contract import VerdictStatus, Violation
from d2k_agent.evaluator.faults import CandidateFault

_WORKERS = frozenset(
    {
        *("_thread.start_new_thread", "_thread.start_joinable_thread"),
        *("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"),
    }
)
_NATIVE = frozenset(
    {
        *("ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function"),
        *("ctypes.cdata", "ctypes.cdata/buffer", "ctypes.string_at", "ctypes.wstring_at"),
    }
)


def broken_rule(name: str) -> CandidateFault:
    """The fault of a candidate that did this."""
    if name in _WORKERS:
        check, did = "runtime.workers", f"solution.py started a thread or a process ({name}), whose work nobody meters"
        instead = "launch Triton kernels from run() itself"
    elif name in _NATIVE:
        check, did = "runtime.native", f"solution.py reached for native code or memory ({name})"
        instead = "the work belongs into Triton kernels"
    else:
        check, did = "runtime.operators", f"run() computed with PyTorch ({name})"
        instead = (
            "PyTorch may allocate, reshape and copy within one dtype; arithmetic and casts belong into Triton kernels"
        )
    message = f"{did}: {instead}"
    return CandidateFault(VerdictStatus.RULE_VIOLATION, message, (Violation(check, message),))


def watch_acts(folder: str) -> list[str]:
    """From now on, for the life of this process: every act of code from a file below `folder`, as it happens.

    A meter belongs to one thread, and sees no process and no native code. Python announces acts that lead there to
    hooks that nothing can take out again. What torch and triton do on a candidate's behalf is theirs: Triton starts
    compilers.
    """
    seen: list[str] = []
    within = folder + os.sep
    toolchain = tuple(
        os.path.dirname(sys.modules[name].__file__ or "") + os.sep
        for name in ("torch", "triton")
        if name in sys.modules
    )

    def caused(frame: FrameType | None) -> bool:
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(within) or file.startswith(toolchain):
                return file.startswith(within)
            frame = frame.f_back
        return False

    def note(event: str, _: tuple[Any, ...]) -> None:
        if (event in _WORKERS or event in _NATIVE) and caused(sys._getframe(1)):  # noqa: SLF001 - told no more
            seen.append(event)

    sys.addaudithook(note)
    if sys.version_info < (3, 12):
        _announce_threads()
    return seen


def _announce_threads() -> None:
    """What Python does by itself from 3.12 on."""
    start = _thread.start_new_thread

    def announced(function: Any, args: Any, *rest: Any) -> int:
        sys.audit("_thread.start_new_thread", function, args, *rest)
        return start(function, args, *rest)

    for module in (_thread, threading):
        for name in ("start_new_thread", "start_new", "_start_new_thread"):
            if hasattr(module, name):
                setattr(module, name, announced)
