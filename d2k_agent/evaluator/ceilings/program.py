"""The program: what is missing is said in a sentence, what it does on stderr, what it found as JSON on stdout."""

from __future__ import annotations

import importlib.util
import json
import sys

from d2k_agent.contract.ceilings import NOT_MEASURED
from d2k_agent.contract.wire import to_data
from d2k_agent.isolation import lease


def main() -> None:
    """Measure the first GPU that this process sees, and its link to the second where there is one."""
    print(json.dumps(_answer()), flush=True)  # noqa: T201 - it is a program


def _answer() -> dict[str, object]:
    if importlib.util.find_spec("torch") is None:
        return {
            NOT_MEASURED: f"the Python that was to measure, {sys.executable}, has no torch; name one with torch instead"
        }
    import torch

    if not torch.cuda.is_available():
        return {
            NOT_MEASURED: f"torch {torch.__version__} of {sys.executable} sees no GPU; `d2k-agent doctor` says more"
        }
    from d2k_agent.evaluator.ceilings.measuring import measured

    uuids = [
        f"GPU-{torch.cuda.get_device_properties(index).uuid}" for index in range(min(2, torch.cuda.device_count()))
    ]
    try:
        with lease.hold(uuids, _say):
            found: dict[str, object] = to_data(measured(_say))
            return found
    except lease.LeaseRefused as refusal:
        return {NOT_MEASURED: str(refusal)}
    except torch.OutOfMemoryError:
        return {NOT_MEASURED: "the GPU has not enough free memory; measure again when nothing else uses it"}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - it is a program
