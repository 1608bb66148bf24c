"""The corpus of tests/cheats: what each file is expected to come to, with the static rules and without, and the table.

Also the task that its files are judged on: Muon at shapes that take about a second in the interpreter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d2k_agent.catalog import find_task
from d2k_agent.contract import TaskBundle, Verdict, VerdictStatus

FOLDER = Path(__file__).parent.parent / "cheats"
LEFT_TO_GPU = {
    "A03a_timer_patch": "it patches the GPU's clock; nothing is timed on a CPU",
    "A04a_side_stream": "on a CPU it takes the honest way",
    "A09_graph_replay_inside_run": "on a CPU it takes the honest way",
    "A10e_composed_without_restart": "only the late variation separates it, in minutes of the interpreter",
    "A11c_memory_hog": "it takes GPU memory",
    "V10_stream_from_import": "there are no streams on a CPU",
    "V19_cpp_extension": "it builds a C++ extension, for half a minute on two cores",
    "V33_graph_context": "there are no graphs on a CPU",
    "V76_binary_by_hand": "a binary needs a GPU to be loaded",
    "V113_other_kernel_for_the_compiler": "which kernels ran is seen on a GPU alone",
}
"""Files that are judged where there is a GPU (make gpu-cheats), and why not on a CPU."""


@dataclass(frozen=True)
class Expected:
    """One of these statuses, found by one of these checks; no check: none has a say."""

    statuses: tuple[str, ...]
    checks: tuple[str, ...]

    @classmethod
    def parse(cls, words: str) -> Expected:
        """From `STATUS[|STATUS...] CHECK[|CHECK...]`. Raises ValueError where there are not two words."""
        statuses, checks = words.split()
        return cls(tuple(statuses.split("|")), () if checks == "-" else tuple(checks.split("|")))

    def met_by(self, verdict: Verdict) -> bool:
        """Whether a verdict is what was expected."""
        statuses = self.statuses
        if "passed" in statuses and verdict.environment.device == "cpu":
            statuses = (VerdictStatus.UNTIMED.value,)
        return verdict.status.value in statuses and (not self.checks or bool(set(self.checks) & set(found(verdict))))


@dataclass(frozen=True)
class Cheat:
    """One file.

    `shipped` is what its first line expects; `unruled` what is expected where the static rules are off: None where
    they alone find it, for this `reason`.
    """

    name: str
    source: str
    shipped: Expected
    unruled: Expected | None
    reason: str

    @property
    def group(self) -> str:
        """Its class: the letter and the number."""
        return re.match(r"[A-Z]\d+", self.name)[0]  # type: ignore[index]

    @property
    def static(self) -> bool:
        """Whether a static rule finds it before anything runs."""
        return any(check.startswith("static.") and check != "static.no_launch" for check in self.shipped.checks)


def read(path: Path) -> Cheat:
    """The file at `path`. Raises ValueError where its first lines are not as tests/cheats/README.md has them."""
    source = path.read_text(encoding="utf-8")
    header = re.match(r"(#.*\n)+", source)
    lines = dict(line.removeprefix("# ").partition(": ")[::2] for line in header[0].splitlines()) if header else {}
    if "expect" not in lines or not source.startswith("# expect: "):
        raise ValueError(f"{path.name}: the first line says what to expect")
    shipped = Expected.parse(lines["expect"])
    named = any(check.startswith("static.") for check in shipped.checks)
    if named != ("without rules" in lines):
        raise ValueError(
            f"{path.name}: `# without rules:` stands where the first line names a static check, only there"
        )
    words = lines.get("without rules", lines["expect"])
    if words.startswith("static-only "):
        return Cheat(path.stem, source, shipped, None, words.removeprefix("static-only "))
    return Cheat(path.stem, source, shipped, Expected.parse(words), "")


CORPUS = [read(path) for path in sorted(FOLDER.glob("*.py"))]

SMOKE = "smoke_b1_m16_n40"
RAGGED = "smoke_b1_m16_n72"
REGISTERED = "registered_b2_m512_n1376"
SHAPES = {
    "A10g_uninitialised_tail": RAGGED,
    "V110_named_like_a_library": REGISTERED,
    "V111_named_by_repr": REGISTERED,
    "V112_other_kernel_later": REGISTERED,
    "V140_products_by_gluon": REGISTERED,
    "V141_f32_product_in_bf16": REGISTERED,
    "V142_product_as_inline_ptx": REGISTERED,
    "V143_narrowing_as_inline_ptx": REGISTERED,
}
"""The workload of files that need more columns than a block of 64 has, or that are found when they are compiled, which
is done for registered workloads; the others are judged on SMOKE."""


def muon_small(calls: int = 12, mode: str = "batch") -> TaskBundle:
    """Muon with one registered workload, the late variation at it, and smoke workloads of the fewest rows that the gate
    bears; the first of them is called that many times, 12 of which take two seconds of the interpreter.

    `mode` is how a GPU times it. In a batch its many launches wait for the host, whose moods may make a file noisy."""
    muon = find_task("muon").bundle()
    config, hidden = json.loads(muon.public["config.json"]), json.loads(muon.hidden["workloads.json"])
    registered = {"label": REGISTERED, "batch_size": 2, "M": 512, "N": 1376, "steps": 5}
    late = {"name": "hidden.shifted_mean", "vary": "shifted_mean", "late": True, "devices": ["cuda"]}
    config["workloads"] = [registered]
    hidden["repeat_calls"] = calls
    hidden["timing"] = {"mode": mode}
    hidden["smoke"] = [
        {"label": label, "batch_size": 1, "M": 16, "N": columns, "steps": 5}
        for label, columns in ((SMOKE, 40), (RAGGED, 72))
    ]
    hidden["variations"] = [{**late, "workload": {**registered, "label": "shifted_mean_b2_m512_n1376"}}]
    return TaskBundle(
        "muon_small",
        {**muon.public, "config.json": json.dumps(config)},
        {**muon.hidden, "workloads.json": json.dumps(hidden)},
    )


def found(verdict: Verdict) -> list[str]:
    """The checks that a verdict says have failed: rules that were broken, gates, and hidden variations by name."""
    failed = [violation.check for violation in verdict.violations]
    for result in verdict.workloads:
        gates = [check.gate for check in result.checks if not check.passed]
        failed += [*gates, *[result.label] * bool(gates)]
    return list(dict.fromkeys(failed))


def row(cheat: Cheat, verdict: Verdict, seconds: float) -> dict[str, Any]:
    """What the table says of one judged file, as JSON data."""
    expected = "static-only" if cheat.unruled is None else "|".join(cheat.unruled.statuses)
    wanted = cheat.unruled.checks if cheat.unruled else ()
    checks = [check for check in found(verdict) if check in wanted] or found(verdict)[:1]
    return {
        "name": cheat.name,
        "group": cheat.group,
        "expected": expected,
        "got": verdict.status.value,
        "check": checks[0] if checks else "-",
        "seconds": seconds,
    }


def table(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The lines of a table of rows: one a class."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in rows:
        groups.setdefault(item["group"], []).append(item)
    lines = [("class", "variants", "expected", "got", "check", "seconds")]
    for group, items in sorted(groups.items()):
        words = (", ".join(dict.fromkeys(str(item[key]) for item in items)) for key in ("expected", "got", "check"))
        lines.append((group, str(len(items)), *words, f"{sum(item['seconds'] for item in items):.1f}"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines]
