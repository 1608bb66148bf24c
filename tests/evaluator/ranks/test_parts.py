"""The parts of a job for several ranks, one by one: draws, answers in a row, the end of a batch, bytes over links."""

from __future__ import annotations

import dataclasses
import json
import mmap
import threading
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch")

from d2k_agent.contract import Limits, Measurement, TaskBundle  # noqa: E402 - torch may be missing
from d2k_agent.evaluator.devices import CpuDevice  # noqa: E402
from d2k_agent.evaluator.faults import CandidateFault, TaskFault  # noqa: E402
from d2k_agent.evaluator.layout import AnswerHeader, TensorHeader, pack_answer, unpack_answer  # noqa: E402
from d2k_agent.evaluator.process import CandidateProcess  # noqa: E402
from d2k_agent.evaluator.ranks.checking import CallsOfRanks, watched  # noqa: E402
from d2k_agent.evaluator.ranks.choosing import device_for, load_task, possible, timer_of  # noqa: E402
from d2k_agent.evaluator.ranks.device import RankedDevice  # noqa: E402
from d2k_agent.evaluator.ranks.gathering import together  # noqa: E402
from d2k_agent.evaluator.ranks.group import RankGroup  # noqa: E402
from d2k_agent.evaluator.ranks.merging import merged  # noqa: E402
from d2k_agent.evaluator.ranks.timer import too_little, uncounted  # noqa: E402
from d2k_agent.evaluator.task import derive  # noqa: E402
from d2k_agent.evaluator.timing.page import BEGUN, BYTES, LAST, STOP, Page  # noqa: E402
from d2k_agent.evaluator.timing.session import together as of_two_rounds  # noqa: E402
from d2k_agent.evaluator.timing.timed import CLAIM  # noqa: E402
from tests.evaluator.ranks import shifting  # noqa: E402
from tests.evaluator.timed_cpu import TimedCpu  # noqa: E402

SEED = "5e" * 32


def answer(**changes: Any) -> bytes:
    given = AnswerHeader((TensorHeader(torch.float32, (2,)),), 10, 20, 30)
    return pack_answer(dataclasses.replace(given, **changes))


def test_each_rank_draws_inputs_of_its_own_and_the_reference_sees_all() -> None:
    task = load_task(shifting.task(), 3)
    size, *inputs = task.arguments(task.smoke[0], SEED)
    assert size == 8 * 64
    assert len({float(x[0]) for x in inputs}) == 3
    expected = task.expected([size, *inputs])
    assert all(torch.equal(expected.outputs[rank], 2 * inputs[rank - 1]) for rank in range(3))


def test_a_wrong_rank_is_named() -> None:
    task = load_task(shifting.task(), None)
    arguments = task.arguments(task.smoke[0], SEED)
    expected = task.expected(arguments)
    wrong = [expected.outputs[0], expected.outputs[1] + 1]
    checks = task.compare(arguments, wrong, [], expected)
    assert [check.passed for check in checks] == [True, False]
    assert checks[1].message.startswith("rank 1: ")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ranks": []}, "must list numbers of ranks"),
        ({"ranks": [1]}, "must list numbers of ranks"),
        ({"ranks": [16]}, "must list numbers of ranks"),
        ({"ranks": "two"}, "must list numbers of ranks"),
    ],
)
def test_numbers_of_ranks_that_cannot_be_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(TaskFault, match=told):
        load_task(shifting.task(**changes), None)


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("get_inputs.py", "def workspace_bytes", "def bytes_of", "defines no workspace_bytes"),
        ("reference.py", "def run(x, comm)", "def run(comm, x)", "last argument of run"),
    ],
)
def test_what_a_task_for_several_ranks_lacks_is_said(name: str, old: str, new: str, told: str) -> None:
    bundle = shifting.task()
    public = {**bundle.public, name: bundle.public[name].replace(old, new)}
    with pytest.raises(TaskFault, match=told):
        load_task(TaskBundle("shifting", public, bundle.hidden), None)


def test_a_reference_that_fails_on_one_rank_leaves_no_other_waiting() -> None:
    def work(comm: Any) -> Any:
        if comm.rank == 1:
            raise ValueError("rank 1 fails")
        return comm.all_gather(torch.ones(1))

    with pytest.raises(ValueError, match="rank 1 fails"):
        together(3, work)


def test_answers_come_in_a_row_with_the_most_of_each_count() -> None:
    foreign = answer(peak_bytes=50, copied_bytes=5, foreign="aten.add")
    one = unpack_answer(merged(b"D", [answer(), foreign], "run()"))
    assert len(one.outputs) == 2
    assert (one.peak_bytes, one.copied_bytes, one.foreign) == (50, 20, "aten.add")


def test_captures_that_differ_by_rank_have_one_digest() -> None:
    def merge(*told: dict[str, Any]) -> Any:
        return json.loads(merged(b"A", [json.dumps(item).encode() for item in told], "capturing"))

    first = {"single": 2, "captured": 20, "repeated": True, "digest": "a", "names": {"x": 20}}
    one = merge(first, {**first, "digest": "b"})
    assert one == merge(first, {**first, "digest": "b"})
    assert (one["single"], one["captured"], one["repeated"]) == (4, 40, True)
    assert one["names"] == {"x": 20}
    assert merge(first, {**first, "digest": "c"})["digest"] != one["digest"]
    named = {**first, "names": {"x": 10, "z": 10}}
    assert merge(named, {**named, "names": {"z": 10, "x": 10}}) == merge(named, named), "in whatever order"
    silent = merge(first, {**first, "single": 0, "captured": 0, "repeated": False})
    assert (silent["single"], silent["repeated"]) == (0, False), "a rank that launches nothing is irregular"


def test_a_claim_is_that_of_the_slowest_rank() -> None:
    assert CLAIM.unpack(merged(b"B", [CLAIM.pack(7, 1.5), CLAIM.pack(7, 2.5)], "run()")) == (7, 2.5)


@pytest.mark.parametrize(
    ("kind", "payloads"),
    [
        (b"B", [CLAIM.pack(7, 1.5), CLAIM.pack(8, 1.5)]),
        (b"B", [CLAIM.pack(7, 1.5), b"short"]),
        (b"D", [answer(), answer(outputs=())]),
        (b"A", [b"[1]", b"{}"]),
    ],
)
def test_ranks_that_contradict_each_other_are_no_answer(kind: bytes, payloads: list[bytes]) -> None:
    with pytest.raises(CandidateFault, match="contradict"):
        merged(kind, payloads, "run()")


def test_what_any_rank_launches_is_seen() -> None:
    told = [
        {"kernels": {"push": 1}, "foreign": "", "peak_bytes": 8, "copied_bytes": 4},
        {"kernels": {"push": 2, "take": 1}, "foreign": "aten.add", "peak_bytes": 16, "copied_bytes": 2},
    ]
    one = json.loads(merged(b"A", [json.dumps(item).encode() for item in told], "run()"))
    counts = {"peak_bytes": 16, "copied_bytes": 4}
    assert one == {"kernels": {"push": 2, "take": 1}, "foreign": "aten.add", **counts}
    told[0]["kernels"] = None
    assert json.loads(merged(b"A", [json.dumps(item).encode() for item in told], "run()"))["kernels"] is None


def test_a_batch_ends_on_all_ranks_with_the_same_call() -> None:
    page, ended = Page(mmap.mmap(-1, BYTES), 2), [0, 0]
    page.begin()

    def calls(rank: int, pause: threading.Event) -> None:
        number = 0
        while not (page[STOP] and number >= page.last()):
            page[BEGUN + rank] = number + 1
            number += 1
            pause.wait(0.001 * (rank + 1))
        ended[rank] = number

    ranks = [threading.Thread(target=calls, args=(rank, threading.Event())) for rank in range(2)]
    for item in ranks:
        item.start()
    threading.Event().wait(0.05)
    page.stop()
    for item in ranks:
        item.join(20)
    assert ended[0] == ended[1] == page[LAST] > 1


def test_a_batch_of_one_rank_ends_at_once() -> None:
    page = Page(mmap.mmap(-1, BYTES))
    page.begin()
    page.stop()
    assert page[STOP] == 1
    assert page[LAST] == 0


def test_the_workspace_is_lent_once_for_all_sets_and_given_back_with_the_last() -> None:
    task = load_task(shifting.task(), None)
    device = device_for(task, CpuDevice())
    sets = [task.arguments(task.smoke[0], derive(SEED, number)) for number in range(2)]
    lent = [device.lend(values, task.expected(values).headers) for values in sets]
    memory = device.memory  # type: ignore[attr-defined]
    assert memory.overrun() == []
    memory._blocks[1].contents[-1] = 0
    assert memory.overrun() == [1]
    lent[0].refresh(sets[1])
    assert memory.overrun() == []
    assert all(torch.equal(now, new) for now, new in zip(lent[0].arguments[1:], sets[1][1:], strict=True))
    memory._blocks[1].contents[-1] = 0
    lent[0].rewrite()
    assert memory.overrun() == [1], "nothing is poisoned where nothing is new"
    lent[0].close()
    assert device.memory is memory  # type: ignore[attr-defined]
    lent[1].close()
    assert device.memory is None  # type: ignore[attr-defined]


def test_steps_for_a_single_process_are_left_out_and_it_is_said() -> None:
    notes: list[str] = []
    steps = [("correctness", len), ("profile", len)]
    assert [name for name, _ in possible(load_task(shifting.task(), None), steps, notes)] == ["correctness"]
    assert notes == ["no profile: not of a task for several ranks"]


def test_two_measurements_keep_the_bytes_over_links() -> None:
    one = Measurement(1.0, 10, 2, 1.0, "events_batch", link_bytes=(100.0, 200.0))
    assert of_two_rounds(one, dataclasses.replace(one, link_bytes=(300.0, 200.0))).link_bytes == (200.0, 200.0)
    assert of_two_rounds(one, dataclasses.replace(one, link_bytes=None)).link_bytes == (100.0, 200.0)
    assert of_two_rounds(*[dataclasses.replace(one, link_bytes=None)] * 2).link_bytes is None


def test_it_is_said_where_nobody_counts_what_has_to_cross() -> None:
    (told,) = uncounted("large", 100.0, apart=True)
    assert told.startswith("large: nobody counts")
    assert uncounted("large", None, apart=True) == uncounted("large", 100.0, apart=False) == []


def test_ranks_that_wait_for_ever_are_ended_soon() -> None:
    task = load_task(shifting.task(), None)
    timing, idle = (device_for(task, device) for device in (TimedCpu(), CpuDevice()))
    assert isinstance(timing, RankedDevice) and isinstance(idle, RankedDevice)
    asked = Limits(call_s=300.0, compile_s=240.0, gpu_call_s=60.0)
    assert watched(asked, idle) == dataclasses.replace(asked, call_s=60.0), "an interpreter takes its time"
    soon = watched(asked, timing)
    assert (soon.call_s, soon.late_call_s, soon.gpu_call_s, soon.compile_s) == (20.0, 20.0, 20.0, 240.0)


@pytest.mark.parametrize(("ranks", "call_s"), [(2, 60.0), (3, 90.0)])
def test_more_ranks_may_take_longer_in_an_interpreter(ranks: int, call_s: float) -> None:
    idle = device_for(load_task(shifting.task(), ranks), CpuDevice())
    assert isinstance(idle, RankedDevice)
    assert watched(Limits(), idle).call_s == call_s


def test_timed_calls_are_bounded_as_well() -> None:
    task = load_task(shifting.task(), None)
    device = device_for(task, TimedCpu())
    assert isinstance(device, RankedDevice)
    group = RankGroup(lambda _place: cast(CandidateProcess, object()), device, gathers=False)
    timer = timer_of(task, device, group, task.registered[0], SEED, Limits(gpu_call_s=60.0), lambda _: None)
    timer._pieces.close()
    assert timer._limits.gpu_call_s == timer._pieces._limits.gpu_call_s == 20.0


def test_first_calls_are_bounded_by_whether_their_process_was_called_before() -> None:
    task = load_task(shifting.task(), None)
    device = device_for(task, TimedCpu())
    assert isinstance(device, RankedDevice)
    group = RankGroup(lambda _place: cast(CandidateProcess, object()), device, gathers=False)
    calls = CallsOfRanks(task, device, group, Limits(compile_s=240.0))
    bounds = [calls._first_call_s()]
    group.warm = True
    assert [*bounds, calls._first_call_s()] == [240.0, 90.0]


@pytest.mark.parametrize(
    ("sent", "required", "told"),
    [((100.0, 100.0), 100.0, ""), ((100.0, 91.0), 100.0, ""), ((0.0, 0.0), None, ""), ((100.0, 80.0), 100.0, "rank 1")],
)
def test_bytes_that_have_to_cross_a_link(sent: tuple[float, ...], required: float | None, told: str) -> None:
    found = too_little(sent, required)
    assert (told in found) if told else found == ""
