"""Over how many sets of inputs and outputs timed calls rotate, and how much of them stays in the L2 cache meanwhile."""

from __future__ import annotations

import math

LEAST_SETS, MOST_SETS = 24, 4096
MOST_SET_BYTES = 4 << 30


def sets_for(footprint_bytes: int, l2_bytes: int, most: int, reserved_bytes: int) -> int:
    """How many sets of inputs and outputs calls rotate over, given one set's bytes, the L2 cache's, and the most.

    `reserved_bytes` are those that one set takes, with what the device adds.

    Twice the cache is touched between two visits of a set, and at least 24 allocations average out where memory lies;
    large sets are as many as fit into 4 GiB, at least one.
    """
    wanted = max(LEAST_SETS, math.ceil(2 * l2_bytes / max(1, footprint_bytes)))
    return max(1, min(wanted, most, MOST_SET_BYTES // max(1, reserved_bytes)))


def staying_bytes(l2_bytes: int, sets: int, *, in_place: bool = False) -> float:
    """Bytes of one call that need not pass device memory, on average, where calls rotate over so many sets.

    In a round each set is visited once, and no more than the cache holds can have stayed since the round before: its
    size over the sets. Where all sets fit into the cache, that is all of a set. `in_place`: what stays may be both read
    and written by a call, and then saves both.
    """
    return (2 if in_place else 1) * l2_bytes / max(1, sets)
