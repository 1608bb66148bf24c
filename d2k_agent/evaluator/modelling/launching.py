"""The launches of one call of run(): each is interpreted in part, and becomes counts of the whole of it.

Stands where Triton's interpreter would run a grid. Launches that are alike (same kernel, grid, arguments but for the
contents of tensors that have none) are interpreted once.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import triton
from triton.runtime import autotuner, interpreter

from d2k_agent.contract.modelled import ModelledLaunch
from d2k_agent.evaluator.metering import unmetered
from d2k_agent.evaluator.modelling.builder import marked_regions
from d2k_agent.evaluator.modelling.counting import Meter, Region, Regions, Tally
from d2k_agent.evaluator.modelling.lazy import LazyFloats, NotModelled
from d2k_agent.evaluator.modelling.roofline import Machine, model_launch, program_ms
from d2k_agent.evaluator.modelling.sampling import UNEVEN, Choice, Program, choose_programs, widened

MOST_CONFIGURATIONS = 16
MOST_GRID = (2**31 - 1, 65535, 65535)
_CUT = f"only the first {MOST_CONFIGURATIONS} of its tuner's configurations were tried"
_REASON_CHARS = 300
_WARPS = 4
"""Of a program that names none: Triton's default."""
SAMPLED = "a kernel before wrote it, of which only a sample of programs was interpreted"


class Launches:
    """Takes over the launches of this process. `until` is when time is up, by time.process_time()."""

    def __init__(self, meter: Meter, floats: LazyFloats, machine: Machine, seed: int = 0) -> None:
        self.until = math.inf
        self._meter, self._floats, self._machine, self._seed = meter, floats, machine, seed
        self._known: dict[str, ModelledLaunch] = {}
        self._stored: dict[str, tuple[str, ...]] = {}
        self._times: Counter[str] = Counter()
        self._cut: set[str] = set()
        """Kernels of whose configurations some were not tried."""
        self._tried: list[float] | None = None
        """Milliseconds of what a tuner launches to try a configuration; None outside of that."""

    def install(self) -> None:
        """Have every launch, and every configuration that a tuner tries, come here."""
        launches = self

        def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
            if not warmup:
                launches.launch(function, args, grid, kwargs)

        def bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
            return [launches.tried(tuner, args, config, meta)] * 3

        interpreter.InterpretedFunction.run = run
        autotuner.Autotuner._bench = bench  # noqa: SLF001

    def begin(self) -> None:
        """Forget the launches of the call before; what is known of launches like them is kept."""
        self._times.clear()

    @property
    def found(self) -> tuple[ModelledLaunch, ...]:
        """The launches since begin(), those that are alike as one, in the order in which they came first."""
        launches = (dataclasses.replace(self._known[key], times=times) for key, times in self._times.items())
        return tuple(
            dataclasses.replace(launch, notes=(*launch.notes, _CUT)) if launch.kernel in self._cut else launch
            for launch in launches
        )

    def tried(self, tuner: Any, args: tuple[Any, ...], config: Any, meta: Mapping[str, Any]) -> float:
        """Modelled milliseconds of a tuner's configuration: the model chooses, as nothing is timed. inf for none."""
        round_of = getattr(tuner, "_d2k_round", (None, 0))
        number = round_of[1] + 1 if round_of[0] is tuner.nargs else 1
        tuner._d2k_round = (tuner.nargs, number)  # noqa: SLF001 - ours
        if number > MOST_CONFIGURATIONS:
            self._cut.add(str(tuner.base_fn.__name__))
            return math.inf
        current = {**meta, **config.all_kwargs()}
        if config.pre_hook:
            config.pre_hook({**tuner.nargs, **current})
        tried: list[float] = []
        self._tried = tried
        try:
            tuner.fn.run(*args, **current)
        finally:
            self._tried = None
        return min(tried, default=math.inf)

    def launch(self, function: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> None:
        """Count one launch. What cannot be interpreted is a launch that is not modelled, and the call goes on."""
        names = [name for name in kwargs if name in function.arg_names]
        bound = inspect.getcallargs(function.fn, *args, **{name: kwargs[name] for name in names})
        sizes = tuple(int(size) for size in (grid(dict(bound)) if callable(grid) else grid))
        whole: Program = (*sizes, *(1,) * (3 - len(sizes)))  # type: ignore[assignment]
        if any(not 0 <= size <= most for size, most in zip(whole, MOST_GRID, strict=True)):
            raise NotModelled(f"grid {sizes} is outside what a GPU accepts")
        self._meter.warps = int(kwargs.get("num_warps") or _WARPS)
        if math.prod(whole):
            with unmetered():  # what follows is the interpreter's doing, not run()'s
                try:
                    self._take(function, bound, whole, sizes)
                except Exception as problem:  # neither are its faults: no candidate catches or is blamed for them
                    raise NotModelled(
                        f"the model itself failed: {type(problem).__name__}: {_short(problem)}"
                    ) from problem

    def _take(self, function: Any, bound: dict[str, Any], whole: Program, sizes: tuple[int, ...]) -> None:
        regions = self._regions(bound)
        key = self._key(function, bound, sizes, regions)
        if key not in self._known:
            self._known[key] = self._interpreted(function, bound, whole, sizes, regions, key)
        known = self._known[key]
        if self._tried is None:
            self._times[key] += 1
        elif known.ms is not None:
            self._tried.append(known.ms)
        for name in self._stored.get(key, ()):
            self._floats.forget(_tensors(bound)[name], SAMPLED)

    def _interpreted(
        self,
        function: Any,
        bound: dict[str, Any],
        grid: Program,
        sizes: tuple[int, ...],
        regions: Regions,
        key: str,
    ) -> ModelledLaunch:
        name = str(function.fn.__name__)
        generator = random.Random(f"{self._seed} {name} {grid}")
        choice = choose_programs(grid, generator)
        self._meter.notes.clear()
        try:
            tallies = list(self._programs(function, bound, grid, choice.programs, regions))
            if not choice.whole and (self._unevenness(choice, tallies) or 0.0) > UNEVEN:
                known, choice = len(tallies), widened(choice, grid, generator)
                tallies += self._programs(function, bound, grid, choice.programs[known:], regions)
        except NotModelled as problem:
            return ModelledLaunch(name, sizes, 1, why_not=_short(problem))
        except Exception as problem:  # noqa: BLE001 - whatever the interpreter raises is why there is no model
            return ModelledLaunch(name, sizes, 1, why_not=f"it cannot be interpreted: {_short(problem)}")
        finally:
            spoilt = [item.name for item in regions.all if item.stored and not (choice.whole and not item.absent)]
            self._stored[key] = tuple(spoilt)
        nbytes = {region.name: region.nbytes for region in regions.all}
        warps, notes = self._meter.warps, tuple(self._meter.notes)
        return model_launch(name, sizes, warps, choice, tallies, nbytes, self._machine, notes)

    def _unevenness(self, choice: Choice, tallies: Sequence[Tally]) -> float | None:
        return choice.spread([program_ms(tally, self._machine) for tally in tallies])

    def _programs(
        self, function: Any, bound: dict[str, Any], grid: Program, places: Sequence[Program], regions: Regions
    ) -> Iterator[Tally]:
        rewritten = function.rewrite()
        scope = interpreter._patch_lang(rewritten)  # noqa: SLF001
        builder = interpreter.interpreter_builder
        try:
            with marked_regions(self._meter, regions):
                constants = interpreter.GridExecutor(rewritten, function.arg_names, grid).constexprs
                given = {
                    name: value if name in constants else _converted(value, regions) for name, value in bound.items()
                }
                builder.set_grid_dim(*grid)
                for number, place in enumerate(places):
                    if time.process_time() > self.until:
                        raise NotModelled("there was no time left for it")
                    self._meter.begin_program(random.Random(f"{self._seed} {number}"))
                    builder.set_grid_idx(*place)
                    rewritten(**given)
                    yield self._meter.tally
        finally:
            scope.restore()

    def _regions(self, bound: Mapping[str, Any]) -> Regions:
        found: dict[int, Region] = {}
        for name, tensor in _tensors(bound).items():
            storage = tensor.untyped_storage()
            if storage.nbytes():
                region = Region(
                    name,
                    storage.data_ptr(),
                    storage.nbytes(),
                    self._floats.is_lazy(tensor),
                    self._floats.why_absent(tensor),
                )
                found.setdefault(region.first, region)
        return Regions(list(found.values()))

    def _key(self, function: Any, bound: Mapping[str, Any], sizes: tuple[int, ...], regions: Regions) -> str:
        parts = [f"{function.fn.__module__}.{function.fn.__qualname__}", str(sizes), str(self._meter.warps)]
        for name, value in bound.items():
            tensor = _tensor_of(value)
            if tensor is None:
                # Numbers that scale results decide nothing that is counted.
                parts.append(f"{name}={'float' if isinstance(value, float) else value}")
                continue
            region = regions.of(tensor.untyped_storage().data_ptr())
            contents = tensor.data_ptr() if region is not None and not region.absent else "absent"
            block = getattr(value, "block_shape", None)
            parts.append(
                f"{name}={tensor.dtype} {tuple(tensor.shape)} {tensor.stride()} {tensor.storage_offset() % 16} {block} "
                f"{region.name if region else ''} {contents}"
            )
        return "|".join(parts)


def _tensors(bound: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors among arguments, by name; those inside of tuples by name and place."""
    found: dict[str, torch.Tensor] = {}
    for name, value in bound.items():
        for place, item in enumerate(value) if isinstance(value, tuple) else ((None, value),):
            tensor = _tensor_of(item)
            if tensor is not None:
                found[name if place is None else f"{name}[{place}]"] = tensor
    return found


def _tensor_of(value: Any) -> torch.Tensor | None:
    value = getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value
    return value if isinstance(value, torch.Tensor) else None


def _converted(value: Any, regions: Regions) -> Any:
    """An argument as the interpreter wants it, with what the compiler would not know of it."""
    converted = interpreter._implicit_cvt(value)  # noqa: SLF001
    handle = getattr(converted, "handle", None)
    if not isinstance(handle, interpreter.TensorHandle):
        return converted
    if isinstance(value, int) and not isinstance(value, bool):
        handle.odd = value % 16 != 0 and value != 1
    elif isinstance(value, torch.Tensor):
        handle.odd = value.data_ptr() % 16 != 0
    if isinstance(value, (bool, float)) and not isinstance(converted, triton.language.tensor):
        return converted
    handle.data = np.asarray(handle.data)
    return converted


def _short(problem: BaseException) -> str:
    while isinstance(problem.__cause__, Exception):
        problem = problem.__cause__
    text = " ".join((str(problem) or type(problem).__name__).split())
    return text[:_REASON_CHARS]
