"""The loader of hidden/sol.py: typed counts, or a sentence with task, file and line; and floors under rotation."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2k_agent.catalog import Counts, Task, Workload, rotated_floor, speed_of_light
from d2k_agent.contract.ceilings import Ceiling, Ceilings, Provenance, Work
from d2k_agent.errors import UsageError

GOOD = '''"""Counts."""


def reference_flops(workload):
    return {"fp16": 4 * workload["n"]}


def reference_bytes(workload):
    return 2 * workload["n"]


def best_flops(workload):
    return {"fp16": 3 * workload["n"]}


def best_bytes(workload):
    return min(2, len(range(2))) * workload["n"]
'''


def task(folder: Path, text: str | None) -> Task:
    (folder / "hidden").mkdir(exist_ok=True)
    if text is not None:
        (folder / "hidden" / "sol.py").write_text(text)
    return Task("double", "Double", "elementwise", folder, (Workload("n8", {"n": 8}),))


def test_counts_are_functions_of_the_workload(tmp_path: Path) -> None:
    assert counted(task(tmp_path, GOOD)) == Counts(Work({"fp16": 32.0}, 16.0), Work({"fp16": 24.0}, 16.0))


LINKS = """

def reference_link_bytes(workload):
    return 2 * workload["n"]


def best_link_bytes(workload):
    return workload["n"]
"""


def test_bytes_over_links_are_counted_where_the_file_counts_them(tmp_path: Path) -> None:
    found = counted(task(tmp_path, GOOD + LINKS))
    assert found is not None and (found.reference.link_bytes, found.best.link_bytes) == (16.0, 8.0)
    with pytest.raises(UsageError, match=r"defines no best_link_bytes\(workload\)"):
        counted(task(tmp_path, GOOD + LINKS.replace("best_link", "best")))
    with pytest.raises(
        UsageError, match=r"best_link_bytes\(workload\) must return a finite number of bytes of at least 0"
    ):
        counted(task(tmp_path, GOOD + LINKS.replace('    return workload["n"]', "    return None")))


def test_a_task_need_not_have_counts(tmp_path: Path) -> None:
    assert counted(task(tmp_path, None)) is None


def counted(task: Task) -> Counts | None:
    sol = speed_of_light(task)
    return None if sol is None else sol.counts({"n": 8})


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("def best_bytes", "def best_byte", 1, r"defines no best_bytes\(workload\)"),
        ("return 2 *", "return 2 * *", 9, "invalid syntax"),
        ('"""Counts."""', "import math", 1, "an import is no arithmetic"),
        ("3 * workload", "3 * workload.__class__", 13, r"the attribute \.__class__ is no arithmetic"),
        ("return 2 *", "return __builtins__ or 2 *", 9, "__builtins__ is no arithmetic"),
        ("return 2 *", "return open(workload) or 2 *", 9, "NameError: name 'open'"),
        ('"""Counts."""', "1 // 0", 1, "ZeroDivisionError"),
        ("2 * workload", "2 / 0 * workload", 9, "ZeroDivisionError"),
        ('2 * workload["n"]', '2 * workload["m"]', 9, "KeyError: 'm'"),
        ('{"fp16": 3', '{"fp64": 3', 12, r"best_flops\(workload\) must return counts of operations by class \(fp16"),
        ('{"fp16": 3', '{"fp16": -3', 12, "finite and at least 0"),
        ('{"fp16": 3 * workload["n"]}', "5", 12, "not 5"),
        ("return 2 *", "return 0 *", 8, "must return a finite number of bytes above 0, not 0"),
        ('2 * workload["n"]', '"many"', 8, "not 'many'"),
        ('2 * workload["n"]', "10 ** 400", 8, "must return a finite number of bytes above 0, not 1000"),
        ('2 * workload["n"]', "10 ** 5000", 8, "not something of type int"),
        ('{"fp16": 3 * workload["n"]}', '{"fp16": {}}', 12, r"best_flops\(workload\) must .*not \{'fp16': \{\}\}"),
        ('{"fp16": 3 * workload["n"]}', "{n: n for n in range(101)}", 12, r"not \{0: 0, 1: 1"),
        ('"""Counts."""', "X = 0 * [0] * 10 ** 12 or [0] * 10 ** 12", 1, "MemoryError"),
    ],
)
def test_a_wrong_file_is_named_with_task_and_line(tmp_path: Path, old: str, new: str, line: int, told: str) -> None:
    assert old in GOOD
    wrong = task(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(UsageError, match=rf"task double: .*sol\.py, line {line}: .*{told}.*; correct the file"):
        counted(wrong)


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("return 2 *", "while True: pass\n    return 2 *", 9, "TimeoutError: it computes for more than 2 s"),
        ('"""Counts."""', "X = 10 ** 10 ** 9", 1, "it computes for more than 2 s|MemoryError"),
        ('"""Counts."""', "X = sum(range(10 ** 12))", 1, "it computes for more than 2 s"),
    ],
)
def test_a_file_that_does_not_end_is_ended_and_named(tmp_path: Path, old: str, new: str, line: int, told: str) -> None:
    """Also where the interpreter looks at no signal, as within a sum."""
    endless = task(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(UsageError, match=rf"task double: .*sol\.py, line {line}: .*({told}).*; correct the file"):
        counted(endless)


def test_what_the_cache_keeps_between_calls_is_in_no_floor() -> None:
    copies = Ceiling(1000.0, Provenance("data sheet", "a page"))
    gpu = Ceilings("a GPU", copy_gb_s=copies, l2_bytes=48_000_000)

    def floor_us(size: float, **rotation: int) -> float | None:
        floor = rotated_floor(Work(memory_bytes=size), gpu, size, **rotation)
        return None if floor is None else round(1e3 * floor.ms, 6)

    # 24 sets and twice the cache: a 24th of the cache stays for each call.
    assert floor_us(10e6) == 10 - 2
    # Ninety-six sets of 1 MB are twice the cache, of which one half can have stayed.
    assert floor_us(1e6) == 0.5
    # Of a large set next to nothing stays.
    assert floor_us(4.8e9) == 4800 - 48
    assert floor_us(10e6, sets=48) == 10 - 1
    assert floor_us(10e6, sets=24, l2_bytes=96_000_000) == 10 - 4
    # All sets fit: nothing passes memory.
    assert floor_us(1e6, sets=24) is None
    assert rotated_floor(Work(memory_bytes=1e6), Ceilings("a GPU", copy_gb_s=copies), 1e6) is not None
