"""Task folders for tests: a small one of our own making, complete and correct, to be broken one thing at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {
    "benchmark_id": "double",
    "workloads": [{"label": "n8", "n": 8}],
    "input_rules": {"static_inputs": [], "dynamic_inputs": ["x"]},
    "tolerance": {"rel_norm_rtol": 0.001},
}
HIDDEN: dict[str, Any] = {
    "category": "elementwise",
    "smoke": [{"label": "smoke_n4", "n": 4}],
    "gates": [{"output": "y", "gate": "rel_norm", "limit": 0.001}],
    "variations": [
        {"name": "hidden.negative", "vary": "negative", "workload": {"label": "negative_n4", "n": 4}, "late": False}
    ],
    "repeat_calls": 3,
    "outputs": ["y"],
    "mutated_inputs": [],
}
CHAIN = {
    "bottleneck": "Bottleneck of the doubling task, told for the tests.",
    "level_1_high_level_algorithmic_insights": "Chain text of the first level, about shifts.",
    "level_2_dataflow_design": "Chain text of the second level, about registers.",
    "level_3_low_level_optimization_tricks": "Chain text of the third level, about lanes.",
    "cost_reduction": "Cost that no longer exists in the doubling task.",
    "conditions": "Conditions under which the doubling chain is complete.",
}
GUIDANCE: dict[str, Any] = {
    "cross_level_rationale": [CHAIN],
    "level_1_high_level_algorithmic_insights": [
        {
            "name": "Shift instead of multiplying",
            "algorithmic_change": "A doubling is a shift of the exponent by one.",
            "correctness_basis": "Exact for all normal numbers.",
            "performance_mechanism": "An addition costs less energy.",
            "dataflow_consequences": "One value in, one value out.",
            "constraints": "The block size is free.",
        }
    ],
    "level_2_dataflow_design": {
        "overview": "Each value is read once, doubled in a register and written once; no other tensor exists at all.",
        "parallelism_strategies": [
            {
                "name": "elements",
                "description": "All elements are independent.",
                "available_parallelism": "n elements",
            }
        ],
        "stages": [
            {
                "stage_id": "doubling_stage",
                "operation": "Doubles each element it reads.",
                "outputs": "y, complete",
                "data_layout": "Contiguous, as given.",
                "owner_and_residency": "Registers of a program.",
                "consumers_and_lifetime": "The store alone, at once.",
                "performance_condition": "Vector loads of sixteen bytes.",
            }
        ],
        "edges": [
            {
                "from": "input",
                "to": "doubling_stage",
                "value": "x",
                "storage_and_lifetime": "Global memory, the call.",
                "readiness": "Ready when the call begins.",
            }
        ],
        "restrictions": ["A copy of x in global memory."],
        "adoption_criteria": ["There is one kernel and one launch."],
    },
    "level_3_low_level_optimization_tricks": [
        {
            "name": "Wide loads",
            "supports": ["Shift instead of multiplying", "doubling_stage"],
            "challenge": "Narrow loads leave bandwidth unused.",
            "strategy": "Let every thread load sixteen bytes at once.",
            "pitfall": "One element a thread issues eight times the loads.",
            "constraints": "The number of warps is free.",
        }
    ],
}
FILES = {
    "task_description.md": "# Doubling\n\nReturn twice the input.\n",
    "get_inputs.py": "def get_inputs(config=None):\n    return []\n",
    "reference.py": "def run(x):\n    return x + x\n",
    "implementation_requirements.yaml": "requirements:\n  - Use Triton.\n",
    "solution.py": "def run(x):\n    raise NotImplementedError\n",
    "hidden/check.py": "def negative(x, generator):\n    return x\n\ndef memory_cap_bytes(w):\n    return 0\n",
    "hidden/rules.toml": "",
    "guidance/expert.py": "def secret_doubling_kernel(pointer):\n    return pointer\n\n\ndef run(x):\n    return x\n",
    "guidance/baseline.py": "def run(x):\n    return x\n",
    "guidance/wrong.toml": """[[wrong]]
name = "nothing_returned"
source = "baseline.py"
fails = "* outputs"
replace = [["return x", "return None"]]
""",
}


def write_task(
    folder: Path,
    config: Any = CONFIG,
    hidden: Any = HIDDEN,
    guidance: Any = GUIDANCE,
    files: dict[str, str | None] | None = None,
) -> Path:
    """Write a task to `folder`; `files` replaces texts, or leaves a file out where the text is None."""
    texts: dict[str, str | None] = {
        **FILES,
        "config.json": json.dumps(config),
        "hidden/workloads.json": json.dumps(hidden),
        "guidance/guidance.json": json.dumps(guidance),
        **(files or {}),
    }
    for name, text in texts.items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return folder
