"""The evaluator's process: forks the zygotes, then reads jobs from stdin and writes verdicts to stdout, as frames.

Frames in:  b"J" a job. Frames out: b"P" progress in words, b"V" a verdict, b"T" a broken task or request,
b"M" a broken machine.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import tempfile
import threading
from typing import Any

from d2k_agent.contract import EvaluatorJob
from d2k_agent.contract.frames import read_frame, write_frame
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.evaluator import scratch
from d2k_agent.evaluator.scratch import ScratchRoot
from d2k_agent.isolation import become_subreaper, end_descendants, gpu_devices, hide_process


def main(evaluator_digest: str) -> None:
    """Serve until stdin closes."""
    jobs, verdicts = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    become_subreaper()
    # An interpreted kernel multiplies small tiles: a second thread costs NumPy more than it brings (31 s of processor
    # time against 15 for Muon at M 512, two cores). PyTorch, which computes the references, has threads of its own.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import torch  # once, before the forks: every zygote shares it

    from d2k_agent.evaluator import zygote

    interpreting = zygote.start(_prepare_interpreter)
    compiling = zygote.start(_prepare_compiler)
    running = zygote.start(_prepare_runner) if gpu_devices() and torch.version.cuda else None
    hide_process()
    torch.set_num_threads(max(1, (os.cpu_count() or 2)))
    scratch.sweep(tempfile.gettempdir())
    root = scratch.ScratchRoot(tempfile.gettempdir())
    tempfile.tempdir = root.path  # after the forks: candidates have folders of their own
    _watch(jobs, root)
    from d2k_agent.evaluator.bench import Bench

    bench = Bench(
        interpreting,
        compiling,
        running,
        evaluator_digest,
        lambda text: write_frame(verdicts, b"P", text.encode()),
    )
    while frame := read_frame(jobs):
        (kind, payload), usable = _answer(bench, frame[1])
        write_frame(verdicts, kind, payload)
        if not usable:
            break
    _leave(root)


def _answer(bench: Any, payload: bytes) -> tuple[tuple[bytes, bytes], bool]:
    """The frame that answers a job, and whether this evaluator can take another."""
    from d2k_agent.evaluator.faults import TaskFault
    from d2k_agent.evaluator.judge import judge
    from d2k_agent.evaluator.process import IsolationRefused
    from d2k_agent.evaluator.task import out_of_memory
    from d2k_agent.evaluator.zygote import ZygoteEnded

    try:
        job = from_data(EvaluatorJob, json.loads(payload))
        return (b"V", json.dumps(to_data(judge(bench, job)), allow_nan=False).encode()), True
    except TaskFault as problem:
        return (b"T", str(problem).encode()), True
    except ZygoteEnded as problem:
        return (b"M", str(problem).encode()), False
    except (IsolationRefused, OSError) as problem:
        return (b"M", str(problem).encode()), True
    except (MemoryError, RuntimeError) as problem:
        if not out_of_memory(problem):
            raise
        return (b"M", _told(problem).encode()), True


def _told(problem: BaseException) -> str:
    """What a full memory means for the operator. PyTorch's words on the GPU's are long and say nothing to do."""
    import torch

    if isinstance(problem, torch.OutOfMemoryError):
        return "the GPU has too little free memory for this task: end what else uses it, or use a GPU with more"
    return str(problem) or "the evaluator ran out of memory; free some"


def _prepare_interpreter() -> Any:
    """Imports of the interpreting zygote; kernels are interpreted because of the variable set before the import."""
    os.environ["TRITON_INTERPRET"] = "1"
    import triton  # noqa: F401

    from d2k_agent.evaluator import candidate, interpreting, numerics
    from d2k_agent.evaluator.modelling import serving

    numerics.install()
    interpreting.prepare()

    def body(channel: socket.socket, order: dict[str, Any]) -> None:
        if order["device"] == serving.MODELLED:
            serving.serve_modelling(channel, order, candidate.receive)
        else:
            candidate.serve_calls(channel, order)

    return body


def _prepare_runner() -> Any:
    """Imports of the zygote whose candidates run on a GPU. It must not touch CUDA: a forked context is of no use."""
    os.environ.pop("TRITON_INTERPRET", None)
    import triton  # noqa: F401

    from d2k_agent.evaluator import candidate

    return candidate.serve_calls


def _prepare_compiler() -> Any:
    """Imports of the compiling zygote."""
    os.environ.pop("TRITON_INTERPRET", None)
    import torch._dynamo.config  # noqa: F401 - fake tensors want it, for two seconds that are better spent here
    import triton  # noqa: F401

    from d2k_agent.evaluator import candidate, compilation
    from d2k_agent.evaluator.checks import compiling

    compilation.prepare()

    def body(channel: socket.socket, order: dict[str, Any]) -> None:
        compiling.serve_compile(channel, order, candidate.receive)

    return body


def _watch(jobs: int, root: ScratchRoot) -> None:
    """End everything at once when the controller is gone, even in the middle of a job."""

    def wait() -> None:
        poll = select.poll()
        poll.register(jobs, 0)  # hang-up and error are always reported; data is not asked for
        while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
            continue
        _leave(root)

    threading.Thread(target=wait, daemon=True).start()


def _leave(root: ScratchRoot) -> None:
    end_descendants(os.getpid())
    root.remove()
    sys.stderr.flush()
    os._exit(0)
