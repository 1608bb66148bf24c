"""A confined candidate and an unconfined supervisor that share a tensor on the GPU; prints what happened as JSON.

Run by test_cuda.py in a process of its own, because it forks before CUDA is touched.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from d2k_agent.isolation import Policy, confine, gpu_devices, skip_unreadable_packages, toolchain_paths


@triton.jit
def double(x, y, n, B: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < n) * 2, mask=offsets < n)


def send(channel: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    channel.sendall(struct.pack("<q", len(data)) + data)


def receive(channel: socket.socket) -> Any:
    (size,) = struct.unpack("<q", channel.recv(8, socket.MSG_WAITALL))
    return pickle.loads(channel.recv(size, socket.MSG_WAITALL))  # noqa: S301 - a demonstration between two halves of a test


def export(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage()._share_cuda_(), tuple(tensor.shape), tensor.dtype


def attach(handle: Any) -> torch.Tensor:
    storage = torch.UntypedStorage._new_shared_cuda(*handle[0])
    return torch.empty(0, dtype=handle[2], device="cuda").set_(storage, 0, handle[1])


def refused(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return True
    return False


def candidate(channel: socket.socket) -> None:
    scratch = tempfile.mkdtemp(prefix="candidate-")
    os.setsid()
    os.environ.update(TMPDIR=scratch, HOME=scratch, TRITON_CACHE_DIR=f"{scratch}/triton")
    tempfile.tempdir = scratch
    read, listed = toolchain_paths()
    devices = (*Policy.devices, *gpu_devices())
    measures = confine(Policy(read, (scratch, "/dev/shm"), listed, devices, proc=True))
    skip_unreadable_packages()
    parent = f"/proc/{os.getppid()}"
    walls = {
        "environ": refused(lambda: os.close(os.open(f"{parent}/environ", os.O_RDONLY))),
        "mem": refused(lambda: os.close(os.open(f"{parent}/mem", os.O_RDONLY))),
        "signal": refused(lambda: os.kill(os.getppid(), 0)),
        "core pattern": refused(lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))),
        "mode of a file": refused(lambda: os.chmod(__file__, 0o600)),
    }
    torch.zeros(1, device="cuda")  # attaching does not start CUDA by itself
    x = attach(receive(channel))
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024)
    torch.cuda.synchronize()
    send(channel, {"measures": measures, "walls": walls, "answer": export(y)})
    receive(channel)


def supervisor(channel: socket.socket) -> None:
    x = torch.randn(1 << 20, device="cuda")
    send(channel, export(x))
    told = receive(channel)
    right = bool((attach(told.pop("answer")) == x * 2).all())
    print(json.dumps({**told, "right": right}), flush=True)
    send(channel, "done")


if __name__ == "__main__":
    ours, theirs = socket.socketpair()
    first = os.fork()
    if first == 0:
        candidate(theirs)
        os._exit(0)
    second = os.fork()
    if second == 0:
        theirs.close()
        supervisor(ours)
        os._exit(0)
    ours.close()
    theirs.close()
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (second, first)]
    sys.exit(max(codes))
