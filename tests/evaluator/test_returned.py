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
