"""Which GPUs the evaluator of a test sees: of those that the test may use, so that lanes and workers do not meet."""

from __future__ import annotations

import os
from collections.abc import Mapping


def evaluator_environment(gpus: int = 1, given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment of an evaluator: programs, a home, what `given` says of CUDA, and so many GPUs.

    They are the first ones of CUDA_VISIBLE_DEVICES, or of the machine where that is not set; worker N of pytest-xdist
    begins with the Nth. Where all are hidden, they stay so.
    """
    cuda = {name: value for name, value in given.items() if name.startswith("CUDA_")}
    visible = cuda.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))
    names = [name for name in visible.split(",") if name]
    first = int(given.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % max(1, len(names))
    cuda["CUDA_VISIBLE_DEVICES"] = ",".join((names[first:] + names[:first])[:gpus])
    return {"PATH": given["PATH"], "HOME": "/tmp", **cuda}
