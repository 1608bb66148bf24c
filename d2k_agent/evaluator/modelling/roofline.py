"""From the counts of a launch to modelled milliseconds: a roofline with the rates that a GPU was seen to sustain.

A launch takes what an empty one does, and as long as the slowest of what programs share (products, other instructions,
values that threads exchange, traffic between L2 cache and multiprocessors and of device memory) or as one program takes
to issue its own instructions; on top of it comes what one program waits for its operands. The last two are of every
round of resident programs. It is the upper bound of a closed queue: others work meanwhile, but not all of them all the
time. Work that a multiprocessor does is bounded by the one that has most of it: programs are handed out evenly, whole
ones. As many are resident as its warps allow for; registers and shared memory, which allow for fewer, do not enter, nor
do spills, bank conflicts and power.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from d2k_agent.contract.ceilings import PRODUCTS, Ceiling, Ceilings
from d2k_agent.contract.data_sheets import CLOCKS_MHZ, ceilings_of, data_sheet, shipped_measurement
from d2k_agent.contract.gpu import device_name
from d2k_agent.contract.modelled import ModelledLaunch
from d2k_agent.evaluator.compilation.targets import Target
from d2k_agent.evaluator.modelling.counting import FLOATS, INTEGERS, MEMORY_CLOCKS, SPECIAL, Tally, hull
from d2k_agent.evaluator.modelling.sampling import Choice

POINTER_FED = 505 / 665
"""Share of the rate of products where operands come through pointers: measured on an H200 with fp16 (505 TFLOP/s, with
descriptors 665), taken for other targets."""
CACHE_BYTES_PER_CLOCK = 42.0
"""What one multiprocessor reads from the L2 cache, at least: an H200 sustained 610 TFLOP/s of fp16 on tiles of 128 by
128, which is 9.5 TB/s, at about 1.7 GHz."""
COMMON_PART = 0.5
"""Programs of which each reaches over so much of what all reach over read the same, and do not share it out."""
MEMORY_LANES = 32
"""Elements a clock of one multiprocessor, where each is accessed by itself."""
MOST_WARPS, MOST_PROGRAMS = 64, 32
"""That are resident on one multiprocessor."""
_SEEN, _SHEET = shipped_measurement(device_name("h200")), data_sheet(device_name("h200"))
assert _SEEN is not None and _SHEET is not None and _SEEN.launch_us is not None
_LAUNCH = _SEEN.launch_us
"""Of targets on which launches were not timed."""
_SUSTAINED = {
    name: getattr(_SEEN, name).value / getattr(_SHEET, name).value
    for name in ("copy_gb_s", *(f"{kind}_tflops" for kind in PRODUCTS))
}
"""What an H200 sustained of its data sheet. Targets of which only a data sheet is known are taken to sustain as much:
at their peaks they would be faster than the one that was measured only because they were not."""
_REPEATS = "each touched byte passes it once a launch, and repeats come from the L2 cache"
_SHORT = "Kernels of less than 0.2 ms took 0.8 to 2.7 times their model on an H200"
_TARGETS = ("b200", "h100", "h200")


@dataclass(frozen=True)
class Machine:
    """Rates of one multiprocessor in work a millisecond, those of the whole GPU, and where they come from.

    `products` are floating-point operations by the kind of operands; a kind that is missing has no known rate.
    """

    multiprocessors: int
    products: Mapping[str, float]
    clocks: float
    operations: float
    single_accesses: float
    cache_bytes: float
    memory_bytes: float
    """Of the whole GPU."""
    launch_ms: float
    basis: tuple[str, ...]


@dataclass(frozen=True)
class _Rate:
    """In the unit of the ceiling that it comes from, and how it does."""

    value: float
    basis: str


def _sustained(known: Ceilings, name: str) -> _Rate | None:
    """What a GPU is taken to sustain of the ceiling in that field; None where it has none."""
    ceiling: Ceiling | None = getattr(known, name)
    if ceiling is None:
        return None
    if ceiling.provenance.basis == "measured":
        return _Rate(ceiling.value, "measured")
    share = _SUSTAINED[name]
    return _Rate(share * ceiling.value, f"{share:.0%} of the data sheet's {ceiling.value:.4g}, as an H200 sustained")


def machine_of(target: Target) -> Machine:
    """The machine that the model takes `target` for. Raises ValueError for one of which too little is known."""
    known = ceilings_of(device_name(target.name)) if target.name in _TARGETS else None
    memory = None if known is None else _sustained(known, "copy_gb_s")
    if known is None or memory is None or known.fp16_tflops is None or known.bf16_tflops is None:
        raise ValueError(f"no ceilings are known of {target.product}; choose from {', '.join(_TARGETS)}")
    launch, where = (known.launch_us, "") if known.launch_us is not None else (_LAUNCH, " on an H200")
    boost_mhz, _ = CLOCKS_MHZ[device_name(target.name)]
    count, clocks = target.multiprocessors, boost_mhz * 1e3
    operations = FLOATS.rate * clocks
    tflops = {kind: _sustained(known, f"{kind}_tflops") for kind in PRODUCTS}
    products = {kind: found.value * 1e9 / count for kind, found in tflops.items() if found is not None}
    products |= {"tf32": products["fp16"] / 2, "tf32x3": products["fp16"] / 6, "fp32": 2 * operations}
    if "fp8" in products:
        products["int8"] = products["fp8"]
    rates = ", ".join(
        f"{kind} {found.value:.4g} TFLOP/s ({found.basis})" for kind, found in tflops.items() if found is not None
    )
    return Machine(
        multiprocessors=count,
        products=products,
        clocks=clocks,
        operations=operations,
        single_accesses=MEMORY_LANES * clocks,
        cache_bytes=CACHE_BYTES_PER_CLOCK * clocks,
        memory_bytes=memory.value * 1e6,
        launch_ms=launch.value / 1e3,
        basis=(
            f"products: {rates}; {POINTER_FED:.0%} of it where operands come through pointers",
            f"device memory: {memory.value:.4g} GB/s ({memory.basis}); {_REPEATS}",
            f"L2 cache: {CACHE_BYTES_PER_CLOCK * clocks * count / 1e9:.3g} TB/s (inferred from a product on an H200)",
            f"launch: {launch.value:.3g} us ({launch.provenance.basis}{where})",
            f"one program alone: {MEMORY_CLOCKS} clocks from a load to its value (an H100, published), others assumed",
            f"not in it: registers, spills, bank conflicts, power, additions that wait for one address. {_SHORT}",
        ),
    )


def program_ms(tally: Tally, machine: Machine) -> float:
    """How long one program keeps its multiprocessor busy, by the resource that it uses longest."""
    return max(_program_ms(tally, machine).values())


def model_launch(
    name: str,
    grid: tuple[int, ...],
    warps: int,
    choice: Choice,
    tallies: Sequence[Tally],
    nbytes: Mapping[str, int],
    machine: Machine,
    notes: tuple[str, ...] = (),
) -> ModelledLaunch:
    """The launch that these programs, of `warps` each, are a sample of. `nbytes`: sizes of its tensors by name."""
    kinds = {kind for tally in tallies for kind in tally.product_flops}
    unknown = sorted(kinds - set(machine.products))
    if unknown:
        return ModelledLaunch(
            name, grid, 1, len(tallies), why_not=f"no rate is known of products of {', '.join(unknown)}"
        )
    work = [_program_ms(tally, machine) for tally in tallies]
    count = choice.inner_total + len(choice.corners)
    rounds = -(-count // machine.multiprocessors)
    resident = max(1, min(MOST_PROGRAMS, MOST_WARPS // warps))
    times = {}
    for resource in work[0]:
        values = [item[resource] for item in work]
        times[resource] = max(choice.total(values) / count * rounds, *values)
    issuing, waiting = (
        max(choice.total(clocks) / count * -(-rounds // resident), *clocks) / machine.clocks
        for clocks in ([tally.issue_clocks for tally in tallies], [tally.waiting_clocks for tally in tallies])
    )
    compulsory = _compulsory(choice, tallies, nbytes)
    times["memory"] = compulsory / machine.memory_bytes
    ms = machine.launch_ms + max(issuing, *times.values()) + waiting
    times |= {"latency": issuing + waiting, "launch": machine.launch_ms}
    bound = max(times, key=lambda resource: times[resource])
    singles = choice.total([tally.single_accesses for tally in tallies])
    if singles and kinds:
        notes = (*notes, "an argument that is no multiple of 16 makes it access elements one by one")
    return ModelledLaunch(
        kernel=name,
        grid=grid,
        times=1,
        sampled=len(tallies),
        ms=ms,
        bound=bound,
        product_flops=_summed(choice, [tally.product_flops for tally in tallies]),
        loaded_bytes=sum(_summed(choice, [tally.loaded for tally in tallies]).values()),
        stored_bytes=sum(_summed(choice, [tally.stored for tally in tallies]).values()),
        moved_bytes=sum(_summed(choice, [tally.moved for tally in tallies]).values()),
        compulsory_bytes=compulsory,
        arithmetic=choice.total([tally.arithmetic for tally in tallies]),
        integers=choice.total([tally.integers for tally in tallies]),
        atomics=choice.total([tally.atomics for tally in tallies]),
        spread=choice.spread([program_ms(tally, machine) for tally in tallies]),
        notes=notes,
    )


def _program_ms(tally: Tally, machine: Machine) -> dict[str, float]:
    """What one program keeps each part of a multiprocessor busy for, in milliseconds."""
    products = 0.0
    for kind, flops in tally.product_flops.items():
        fed = tally.pointer_fed_flops.get(kind, 0.0)
        products += (flops - fed + fed / POINTER_FED) / machine.products[kind]
    accesses = tally.single_accesses / machine.single_accesses
    if products:
        # To registers, to shared memory, and not under way while products are.
        products += 2 * accesses
    return {
        "products": products,
        "instructions": (
            tally.arithmetic + (FLOATS.rate / SPECIAL.rate - 1) * tally.special + tally.integers + tally.exchanged
        )
        / machine.operations,
        "integers": tally.integers / (INTEGERS.rate * machine.clocks),
        "exchange": tally.exchange_clocks / machine.clocks,
        "L2 cache": sum(tally.moved.values()) / machine.cache_bytes,
        "single accesses": accesses,
    }


def _compulsory(choice: Choice, tallies: Sequence[Tally], nbytes: Mapping[str, int]) -> float:
    """Bytes of device memory where each touched one passes it once for loads and once for stores: at most those of the
    tensor, or of the part of it that all programs have in common.
    """
    loaded = _summed(choice, [tally.loaded for tally in tallies])
    stored = _summed(choice, [tally.stored for tally in tallies])
    moved = _summed(choice, [tally.moved for tally in tallies])
    total = 0.0
    for name, sectors in moved.items():
        loads, stores = loaded.get(name, 0.0), stored.get(name, 0.0)
        wasted = sectors / (loads + stores)
        most = min(float(nbytes.get(name, float("inf"))), _in_common(name, tallies))
        total += min(loads * wasted, most) + min(stores * wasted, most)
    return total


def _in_common(name: str, tallies: Sequence[Tally]) -> float:
    """How many bytes the programs touch again and again, where each touches most of what all of them do; else inf."""
    reached = [tally.reached[name] for tally in tallies if name in tally.reached]
    if not reached:
        return float("inf")
    first, last = hull(reached)
    least = min(end - begin for begin, end in reached)
    return float(last - first + 1) if least >= COMMON_PART * (last - first) else float("inf")


def _summed(choice: Choice, counted: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = sorted({name for counts in counted for name in counts})
    return {name: choice.total([counts.get(name, 0.0) for counts in counted]) for name in names}
