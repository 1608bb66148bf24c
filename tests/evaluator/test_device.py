"""One contract for every device: inputs at fixed addresses, answers read back, changes noticed."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from d2k_agent.evaluator import layout  # noqa: E402 - torch may be missing
from d2k_agent.evaluator.devices import CpuDevice  # noqa: E402

DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))


def arguments(device: str) -> list[Any]:
    return [torch.arange(6.0, device=device).reshape(2, 3), 7, torch.ones(5, device=device).half()]


@pytest.fixture(params=DEVICES)
def lent(request: Any) -> Iterator[Any]:
    from d2k_agent.evaluator.devices.cuda import CudaDevice

    device = CpuDevice() if request.param == "cpu" else CudaDevice()
    assert device.name == request.param
    assert device.times == (request.param == "cuda")
    assert device.describe()
    block = device.lend(arguments(device.name), [layout.TensorHeader(torch.float32, (2, 3))])
    yield block
    block.close()


def attached(lent: Any) -> tuple[list[Any], Any]:
    """What a candidate sees of the same memory: a mapping of its own; on a GPU that takes a second process."""
    shared, descriptors = lent.share()
    if not descriptors:
        return layout.attach_arguments(lent._inputs.contents, shared["arguments"]), lent._answers.contents
    inputs, answers = (torch.frombuffer(mmap.mmap(number, 0), dtype=torch.uint8) for number in descriptors)
    return layout.attach_arguments(inputs, shared["arguments"]), answers


def test_a_candidate_sees_the_arguments(lent: Any) -> None:
    (first, scalar, second), _ = attached(lent)
    assert torch.equal(first.cpu(), torch.arange(6.0).reshape(2, 3))
    assert scalar == 7
    assert torch.equal(second.cpu(), torch.ones(5).half())


def test_new_contents_come_to_the_same_addresses(lent: Any) -> None:
    (first, _, _), _ = attached(lent)
    address = first.data_ptr()
    lent.refresh([torch.full((2, 3), 9.0, device=first.device), 7, torch.ones(5, device=first.device).half()])
    assert first.data_ptr() == address
    assert torch.equal(first.cpu(), torch.full((2, 3), 9.0))


def test_what_was_withdrawn_cannot_be_read_any_more(lent: Any) -> None:
    (first, _, _), _ = attached(lent)
    lent.withdraw()
    assert bool(torch.isnan(first).all())
    lent.refresh(lent.arguments)
    assert torch.equal(first.cpu(), torch.arange(6.0).reshape(2, 3))


def test_a_changed_argument_is_noticed_by_position(lent: Any) -> None:
    (_, _, second), _ = attached(lent)
    assert lent.changed() == []
    second[3] = 2
    assert lent.changed() == [2]


def test_negative_zero_is_a_change(lent: Any) -> None:
    (first, _, _), _ = attached(lent)
    first[0, 0] = -0.0
    assert lent.changed() == [0]


def test_answers_are_poisoned_until_written_and_then_read_as_a_copy(lent: Any) -> None:
    header = layout.TensorHeader(torch.float32, (2, 3))
    _, answers = attached(lent)
    assert bool(torch.isnan(lent.read([header])[0]).all())
    layout.view(answers, header, 0).fill_(1.0)
    (output,) = lent.read([header])
    layout.view(answers, header, 0).zero_()
    assert torch.equal(output.cpu(), torch.ones(2, 3))


def test_outputs_larger_than_expected_are_refused(lent: Any) -> None:
    with pytest.raises(ValueError, match="larger"):
        lent.read([layout.TensorHeader(torch.float32, (1000,))])


def test_the_lent_memory_cannot_be_resized(lent: Any) -> None:
    import os

    for descriptor in lent.share()[1]:
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)


def test_state_is_read_restored_and_left_where_inputs_are_withdrawn() -> None:
    lent = CpuDevice().lend(arguments("cpu"), [], mutated=[2])
    first, _, state = layout.attach_arguments(lent._inputs.contents, lent.share()[0]["arguments"])
    state += 1
    assert lent.changed() == [], "it may be changed"
    lent.withdraw()
    assert bool(torch.isnan(first).all())
    assert torch.equal(lent.state()[0], torch.full((5,), 2.0).half())
    lent.restore()
    assert torch.equal(state, torch.ones(5).half())
    lent.close()
