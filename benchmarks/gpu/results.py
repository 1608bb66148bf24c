"""What benchmarks on a GPU share: a file of results that outlives a killed process, the machine that results are of,
and an end that frees the GPU."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from pathlib import Path
from threading import Lock
from typing import Any

import d2k_agent
from d2k_agent.contract.archive import build_archive


class ResultsFile:
    """JSON objects with a key, one a line, appended as they are measured; without a path they are in memory alone.

    The last object of a key counts. A last line that a killed process left unfinished is dropped.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._writing = path, Lock()
        text = path.read_text(encoding="utf-8") if path is not None and path.exists() else ""
        whole, _, rest = text.rpartition("\n")
        if path is not None and rest:
            path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
        self._items: dict[str, dict[str, Any]] = {item["key"]: item for item in map(json.loads, whole.splitlines())}

    def get(self, key: str) -> dict[str, Any] | None:
        """The object of that key, None where there is none."""
        return self._items.get(key)

    def add(self, key: str, **values: Any) -> dict[str, Any]:
        """Append an object with that key, and with the time."""
        item = {"key": key, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **values}
        with self._writing:  # two GPUs judge at a time
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(item) + "\n")
            self._items[key] = item
        return item

    def every(self) -> list[dict[str, Any]]:
        """All of them, in the order of their first lines."""
        return list(self._items.values())


def machine_here() -> str:
    """Name and driver of the first GPU that this process sees, and the digest of the evaluator that judges on it."""
    import torch

    from d2k_agent.evaluator.devices.nvml import Gpu

    properties = torch.cuda.get_device_properties(0)
    driver = Gpu(str(properties.uuid)).driver() or "unknown"
    evaluator = hashlib.sha256(build_archive(Path(d2k_agent.__file__).parent)).hexdigest()
    return f"{properties.name}, driver {driver}, evaluator {evaluator}"


def end_when_terminated() -> None:
    """From now on SIGTERM raises KeyboardInterrupt, as SIGINT does: evaluators are closed, and leases given back.

    The first one counts: `timeout` sends two, and the second must not disturb the closing.
    """

    def end(*_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
