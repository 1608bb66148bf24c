"""Memory that calls return: what overlaps an earlier result that somebody holds, and what does not."""

from __future__ import annotations

import torch

from d2k_agent.evaluator.attached import AttachedSet, Returned

BLOCK = torch.zeros(64, dtype=torch.uint8)
GIVEN = AttachedSet([BLOCK[:32].view(torch.float32), 3], BLOCK, torch.zeros(64, dtype=torch.uint8))


def test_memory_that_is_given_up_in_between_is_new() -> None:
    returned = Returned()
    for _ in range(3):
        assert not returned.again((torch.zeros(8),), GIVEN)


def test_memory_that_somebody_holds_is_not_whatever_view_it_comes_as() -> None:
    returned, kept = Returned(), torch.zeros(4, 8)
    assert not returned.again((kept,), GIVEN)
    assert returned.again((torch.zeros(8), kept[1].view(2, 4)), GIVEN)
    assert returned.again((kept.t(),), GIVEN)


def test_places_of_one_allocation_that_were_never_returned_are_new() -> None:
    returned, slab = Returned(), torch.zeros(64)
    assert not any(returned.again((slab[at : at + 8],), GIVEN) for at in range(0, 64, 8))
    assert returned.again((slab[12:20],), GIVEN)
    assert not returned.again((slab[8:8],), GIVEN)


def test_what_lies_in_arguments_is_nobodys_own() -> None:
    returned = Returned()
    assert not returned.again((GIVEN.arguments[0],), GIVEN) and not returned.again((GIVEN.arguments[0],), GIVEN)


def test_what_pytorch_writes_to_an_argument_is_counted_of_that_argument_alone() -> None:
    block = torch.zeros(768, dtype=torch.uint8)
    read, state, other = (block[first : first + 64].view(torch.float32) for first in (0, 256, 512))
    given = AttachedSet([read, state, 3, other], block, torch.zeros(64, dtype=torch.uint8), (1,))
    before = given.writes()
    given.arguments[1].zero_()
    torch.empty(16).copy_(given.arguments[0])
    assert given.writes() == before and before.keys() == {0, 3}
    given.arguments[0].view(4, 4)[1].zero_()
    assert given.writes() == {0: before[0] + 1, 3: before[3]}
    assert block.data_ptr() == given.arguments[0].data_ptr()
