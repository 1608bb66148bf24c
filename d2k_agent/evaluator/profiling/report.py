"""How far the profiled process came, and what that amounts to: a profile to read, or whose fault there is none."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from d2k_agent.contract import VerdictStatus
from d2k_agent.contract.frames import FrameError, read_frame
from d2k_agent.evaluator.faults import CandidateFault, TaskFault
from d2k_agent.evaluator.process import IsolationRefused, raised
from d2k_agent.evaluator.profiling import target
from d2k_agent.evaluator.profiling.ncu import MAX_OUTPUT_BYTES, Finished
from d2k_agent.evaluator.profiling.unavailable import PERMISSION, ProfileUnavailable

_MOST_FRAMES = 64
_MAX_FRAME_BYTES = 1 << 16
_QUOTED = re.compile(r'"[^"]*"')
UNKNOWN_METRIC = "Failed to find metric"
_EXIT_STATUS = "The application returned an error code"


@dataclass(frozen=True)
class Progress:
    """What the target told of itself: the last stage it began, and the kind and payload of its last frame.

    The candidate's code shares the process: all of it is a claim, and bounded.
    """

    stage: str | None = None
    kind: bytes = b""
    payload: bytes = b""


def read_progress(descriptor: int) -> Progress:
    """The frames in a report, from its beginning. One out of protocol ends it."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    progress = Progress()
    for _ in range(_MOST_FRAMES):
        try:
            frame = read_frame(descriptor, _MAX_FRAME_BYTES)
        except FrameError:
            break
        if frame is None:
            break
        kind, payload = frame
        stage = payload.decode("utf-8", "replace")[:100] if kind == target.STAGE else progress.stage
        progress = Progress(stage, kind, payload)
    return progress


def require_done(progress: Progress, finished: Finished, limit_s: float) -> None:
    """Return when the profiled call came to its end.

    Raises ProfileUnavailable where the machine or the profiler is the reason, CandidateFault where the candidate is,
    TaskFault where get_inputs.py is, and IsolationRefused.
    """
    # What stands in quotes is a kernel's name, which is the candidate's to choose.
    if any("ERR_NVGPUCTRPERM" in _QUOTED.sub("", words) for words in finished.errors()):
        raise ProfileUnavailable(PERMISSION)
    text = progress.payload.decode("utf-8", "replace")
    if progress.kind == target.UNABLE:
        raise ProfileUnavailable("; ".join([text, *finished.errors()[:3]]))
    if progress.kind == target.REFUSED:
        raise IsolationRefused(text)
    if progress.kind == target.BROKEN_TASK:
        raise TaskFault(text)
    under_profiler = progress.stage == target.PROFILING
    if progress.kind == target.RAISED:
        fault = raised(progress.payload, progress.stage or "the candidate")
        if under_profiler and finished.errors():
            raise ProfileUnavailable(
                f"run() failed under the profiler only, which said: {finished.last_words()}; {fault.brief}"
            )
        raise fault
    if finished.timed_out:
        raise _late(progress, finished, limit_s)
    if progress.kind == target.DONE:
        return
    if progress.stage is None or (under_profiler and finished.errors()):
        raise ProfileUnavailable(f"the profiler did not carry its target through: {finished.last_words()}")
    raise CandidateFault(VerdictStatus.ENDED_EARLY, f"the candidate's process ended during {progress.stage}")


def missing(finished: Finished) -> list[str]:
    """Why launches or counters may be missing from the output of a call that came to its end, a sentence each.

    The target's exit status is left out: it is the candidate's to choose, and nothing is missing for it.
    """
    failed = [words for words in finished.errors() if UNKNOWN_METRIC not in words and _EXIT_STATUS not in words]
    found = (
        [f"the profiler failed on a part of the call, which is missing: {' / '.join(failed)[:300]}"] if failed else []
    )
    if finished.cut:
        found.append(f"the profiler printed more than {MAX_OUTPUT_BYTES >> 20} MiB: what stood behind is missing")
    return found


def _late(progress: Progress, finished: Finished, limit_s: float) -> Exception:
    ended = "everything it started was ended"
    if progress.kind == target.DONE:
        return ProfileUnavailable(
            f"run() was done, but the profiler did not finish within {limit_s:.0f} s; {ended}; allow more time, "
            "and start no thread that outlives run()"
        )
    if progress.stage == target.PROFILING:
        return ProfileUnavailable(
            f"profiling one call of run() did not finish within {limit_s:.0f} s, as every kernel is replayed several "
            f"times; {ended}; profile a smaller workload, or launch fewer kernels"
        )
    if progress.stage is not None:
        return CandidateFault(
            VerdictStatus.TIMED_OUT, f"{progress.stage} did not finish within {limit_s:.0f} s; {ended}"
        )
    return ProfileUnavailable(
        f"the profiler did not finish within {limit_s:.0f} s, before the candidate began; {ended}; it said: "
        f"{finished.last_words()}; end other profilers on this GPU, then try again"
    )
