"""What recorded runs cost: at the prices that they recorded, and at others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from d2k_agent.app.choosing_model import REPLAY, SCRIPTED, price_file
from d2k_agent.app.inventory import find_run
from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import Settings
from d2k_agent.errors import MachineError, UsageError

if TYPE_CHECKING:
    from d2k_agent.models import PriceFile, PriceRow
    from d2k_agent.records import RunFolder, RunRecord, Trace
    from d2k_agent.reports.cost_text import RunCost


def costs_of_runs(
    around: Surroundings, names: Sequence[str], command_line: Settings, notice: Callable[[str], None]
) -> list[RunCost]:
    """Each run priced anew from its recorded tokens: by the price file that the command line names, else by its own.

    A run that recorded no prices is priced by the lists that ship. `notice` is given a line before a wait. Raises
    UsageError for a run that is not there, is named twice or cannot be read, and for a price file that is wrong or has
    no row for a run's model.
    """
    from d2k_agent.records import cache_record, cost_at, recorded_cost
    from d2k_agent.reports.cost_text import RunCost

    settings = around.settings(command_line)
    file = price_file(around, settings)
    found = []
    for run in _runs(around, settings, names):
        trace = _read(run)
        record, events = trace.run, trace.events
        new = _new_price(record, file, notice)
        found.append(
            RunCost(
                run=run.path.name,
                folder=str(run.path),
                model=record.config.model,
                origin=record.origin,
                price=record.price,
                recorded=recorded_cost(events, record.price),
                new_price=new,
                new=None if new is None else cost_at(events, new),
                cache=cache_record(events, record.price or new),
            )
        )
    return found


def _runs(around: Surroundings, settings: Settings, names: Sequence[str]) -> list[RunFolder]:
    found: dict[str, RunFolder] = {}
    for name in names:
        run = find_run(around, settings, name)
        if found.setdefault(str(run.path.resolve()), run) is not run:
            raise UsageError(f"{name} is a run that is named already, and would be counted twice; name it once")
    return list(found.values())


def _read(run: RunFolder) -> Trace:
    from d2k_agent.records import read_trace

    try:
        return read_trace(run.path)
    except MachineError as error:  # a record to be read is what was given, and no broken machine
        raise UsageError(str(error)) from error


def _new_price(record: RunRecord, file: PriceFile | None, notice: Callable[[str], None]) -> PriceRow | None:
    """The prices to compare the recorded ones with; None where those that were recorded stand alone."""
    from d2k_agent.models import ModelNames

    config = record.config
    if file is not None:
        listed = ModelNames.of(config.model if record.price is None else record.price.model)
        return file.row(ModelNames(config.model, listed.provider, listed.bare))
    if record.price is not None or config.model.startswith((SCRIPTED, REPLAY)):
        return None
    from d2k_agent.models.litellm_client import find_price
    from d2k_agent.models.litellm_data import known_names

    if known_names(config.model) is None and not config.model_options.api_base:
        notice(f"loading LiteLLM, which takes some seconds, for the prices of {config.model}")
    return find_price(config.model, config.model_options)
