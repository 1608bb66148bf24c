"""A model from its name: a script, a recorded run, or a provider's."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import RunConfig, Settings
from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread

    from d2k_agent.models import Model, ModelNames, PriceFile, PriceRow, Quirks, QuirksFile, Usage
    from d2k_agent.records import Trace

SCRIPTED, REPLAY = "scripted/", "replay/"
SCRIPT_FILE = "script.json"
MODEL_OPTIONS = (
    "api_base",
    "temperature",
    "max_tokens",
    "reasoning_effort",
    "timeout",
    "price_file",
    "models_file",
    "budget_usd",
    "budget_tokens",
)
"""Settings that say how a model is asked, and what it may cost."""


@dataclass(frozen=True)
class ChosenModel:
    """A model by the name that run.json gives it, and the replies of a scripted one. `named`: the user did name it."""

    name: str
    script: Sequence[dict[str, Any]] | None = None
    named: bool = True


def choose_model(around: Surroundings, settings: Settings, slug: str) -> ChosenModel:
    """What the settings say, else a replay of the task's sample run.

    A script goes by its own name and is kept in the run's folder, a recording by its full path or its sample's name:
    both are found again from another folder. Raises UsageError that lists what is configured where nothing is named,
    and for a script that cannot be read.
    """
    from d2k_agent.catalog import sample_trace
    from d2k_agent.models import load_script, script_name

    name = settings.model
    if name is None:
        sample = sample_trace(slug)
        if sample is None:
            raise UsageError(_nothing_to_ask(around, slug))
        return ChosenModel(f"{REPLAY}{sample.name}", named=False)
    if name.startswith(SCRIPTED):
        path = around.folder / name.removeprefix(SCRIPTED)
        return ChosenModel(f"{SCRIPTED}{script_name(path).removeprefix(SCRIPTED)}", load_script(path))
    recorded = around.folder / name.removeprefix(REPLAY)
    if name.startswith(REPLAY) and recorded.exists():
        return ChosenModel(f"{REPLAY}{recorded.resolve()}")
    return ChosenModel(name)


def refuse_unused(given: Settings, chosen: ChosenModel) -> None:
    """Raise UsageError for options of a model in `given`, the command line, where nobody is asked.

    What a settings file says of models holds for those that are asked, and is no mistake.
    """
    if not chosen.name.startswith((SCRIPTED, REPLAY)):
        return
    unused = [f"--{name.replace('_', '-')}" for name in MODEL_OPTIONS if getattr(given, name) not in (None, "")]
    if not unused:
        return
    options = " and ".join(unused)
    if not chosen.named:
        raise UsageError(f"{options} needs --model; leave it out to replay the sample run")
    raise UsageError(f"{options} means nothing to {chosen.name}, whose replies are written down; leave it out")


def notes_on(chosen: ChosenModel, config: RunConfig, slug: str) -> list[str]:
    """What to know of the model before a new run of the task `slug` begins: whose it is, and what it was recorded with.

    Raises UsageError for a recording that cannot be read.
    """
    if not chosen.name.startswith(REPLAY):
        return []
    notes = []
    if not chosen.named:
        notes.append(f"no model was named, so the sample run {chosen.name.removeprefix(REPLAY)} is replayed")
    record = recording(chosen.name).run
    then, now = _circumstances(record.config, record.task_slug), _circumstances(config, slug)
    differ = [at for at, pair in enumerate(zip(then, now, strict=True)) if pair[0] != pair[1]]
    if differ:
        before, here = (", ".join(words[at] for at in differ) for words in (then, now))
        notes.append(f"the recording was made with {before}; this run has {here}: results will differ")
    return notes


def _circumstances(config: RunConfig, slug: str) -> tuple[str, ...]:
    """What decides which files and tools an agent finds."""
    levels = f"levels {','.join(config.levels)}" if config.levels else "no levels"
    return f"the task {slug}", levels, f"the protocol {config.protocol}"


def worded_as_recorded(config: RunConfig) -> RunConfig:
    """The configuration; where a recording is replayed, with its wording: then what the tools answer is the same text.

    Raises UsageError when there is no such recording.
    """
    if not config.model.startswith(REPLAY):
        return config
    return dataclasses.replace(config, wording=recording(config.model).run.config.wording)


def files_to_keep(chosen: ChosenModel) -> dict[str, bytes]:
    """What a new run's folder holds of its model: a script's replies, so that the run resumes with the same ones."""
    if chosen.script is None:
        return {}
    data = {"name": chosen.name, "replies": list(chosen.script)}
    return {SCRIPT_FILE: json.dumps(data, ensure_ascii=True, indent=1).encode()}


def kept_model(config: RunConfig, folder: Path) -> ChosenModel:
    """The model of a run that was begun before."""
    from d2k_agent.models import load_script

    scripted = config.model.startswith(SCRIPTED)
    return ChosenModel(config.model, load_script(folder / SCRIPT_FILE) if scripted else None)


def _nothing_to_ask(around: Surroundings, slug: str) -> str:
    from d2k_agent.catalog import list_tasks, sample_trace

    keys = ", ".join(around.provider_keys()) or "none"
    sampled = ", ".join(task.slug for task in list_tasks() if sample_trace(task.slug) is not None) or "no task"
    return (
        f"no model was named and {slug} has no sample run to replay, as {sampled} has; give --model NAME or "
        "set model in d2k-agent.toml "
        f"(keys in the environment: {keys}; settings file: {around.settings_file() or 'none'})"
    )


def refuse_early(around: Surroundings, config: RunConfig, settings: Settings | None = None) -> None:
    """Raise UsageError for what is wrong with a model, as far as that shows without the providers' library.

    That takes seconds to load, and finds the rest. `settings` are those of a new run, which name files of prices and of
    models; a run that was begun before has recorded its rows.
    """
    if config.model.startswith((SCRIPTED, REPLAY)):
        return
    from d2k_agent.models.litellm_data import is_no_model, known_names, no_provider
    from d2k_agent.models.redirects import refuse_proxy

    refuse_proxy(around.environ)
    prices = None
    if settings is not None:
        _models_file(around, settings)
        prices = price_file(around, settings)
    names = known_names(config.model)
    if is_no_model(config.model):
        raise no_provider(config.model)
    refuse_other_server(around, config, config.model.partition("/")[0] if names is None else names.provider)
    _require_key(around, config, names)
    priced_here = names is not None or (prices is None and config.model_options.api_base)
    if settings is not None and priced_here:
        price_of(around, settings, config)


def refuse_other_server(around: Surroundings, config: RunConfig, provider: str | None) -> None:
    """Raise UsageError where a variable, and no option, says which server is asked instead of the provider's."""
    from d2k_agent.models.redirects import refuse_redirects

    if not config.model_options.api_base:
        refuse_redirects(config.model, provider, around.environ)


def _require_key(around: Surroundings, config: RunConfig, names: ModelNames | None) -> None:
    """Raise UsageError where the provider is known to want a key, and none is in the environment."""
    from d2k_agent.models.keys import no_key, variables_of_key

    variables = variables_of_key(None if names is None else names.provider)
    if variables and not config.model_options.api_base and not set(variables) & around.provider_keys().keys():
        raise no_key(config.model, " or ".join(variables))


def load_library(config: RunConfig) -> Thread | None:
    """Begin to load the providers' library, which takes seconds; None where the model needs none.

    Whoever needs it meanwhile waits for it. Until the thread ends, let nothing else import large packages.
    """
    if config.model.startswith((SCRIPTED, REPLAY)):
        return None
    from threading import Thread

    from d2k_agent.models.litellm_client import load

    thread = Thread(target=load, name="load litellm", daemon=True)
    thread.start()
    return thread


def quirks_for(around: Surroundings, settings: Settings, name: str) -> Quirks | None:
    """How the model is asked: as the table that ships says, and over it the user's file. None for written replies.

    Raises UsageError for a file that is wrong, such as one that holds a key, and for a name that is no model's.
    """
    if name.startswith((SCRIPTED, REPLAY)):
        return None
    from d2k_agent.models.litellm_client import quirks_of

    return quirks_of(name, _models_file(around, settings))


def _models_file(around: Surroundings, settings: Settings) -> QuirksFile | None:
    """The table that the command names, else the user's own, None where there is neither."""
    from d2k_agent.models import QuirksFile
    from d2k_agent.models.faults import Mask

    own, mask = around.models_file(), Mask(around.provider_keys())
    if settings.models_file is not None:
        return QuirksFile(around.folder / settings.models_file, settings.models_file, mask)
    return None if own is None else QuirksFile(own, str(own), mask)


def note_on_quirks(quirks: Quirks | None) -> str | None:
    """What to know of how a model is asked; None where nothing is out of the ordinary."""
    if quirks is None or quirks.calls == "native":
        return None
    form = "under a schema" if quirks.calls == "json_schema" else "in a form that nobody enforces"
    return f"tools are called by JSON actions {form}, as the table of models says ({quirks.calls_row})"


def price_of(around: Surroundings, settings: Settings, config: RunConfig) -> PriceRow | None:
    """What the replies of a new run cost: by the price file that is named, else by the lists that ship.

    None where no price is known, and for replies that are written down. Raises UsageError for a file that is wrong, or
    has no row for the model, for a name that is no model's, and where a limit in dollars would be blind.
    """
    if config.model.startswith((SCRIPTED, REPLAY)):
        return None
    from d2k_agent.models.litellm_client import find_price

    price = find_price(config.model, config.model_options, price_file(around, settings))
    if price is None and config.budget_usd is not None:
        raise UsageError(
            f"no price is known for {config.model}, so --budget-usd could not be kept; give one with --price-file, or "
            "leave the limit out"
        )
    return price


def price_file(around: Surroundings, settings: Settings) -> PriceFile | None:
    """The price file that the command names, None where it names none. Raises UsageError for one that is wrong."""
    from d2k_agent.models import PriceFile
    from d2k_agent.models.faults import Mask

    named = settings.price_file
    return None if named is None else PriceFile(around.folder / named, named, Mask(around.provider_keys()))


def note_on_price(config: RunConfig, price: PriceRow | None) -> str | None:
    """What to know of a model's price before it is asked; None where nobody is."""
    if config.model.startswith((SCRIPTED, REPLAY)):
        return None
    if price is None:
        return f"no price is known for {config.model}, so its cost stays unknown; --price-file gives one"
    told = f"prices of {price.model}: {price.source}" + (f", {price.date}" if price.date else "")
    return told if config.budget_usd is None else told + _blind_spots(price)


def _blind_spots(price: PriceRow) -> str:
    """Which rates of cached input a row lacks, and what that means to a limit in dollars; nothing where it has both."""
    from d2k_agent.models import FIELD_OF_RATE

    missing = [FIELD_OF_RATE[name] for name in ("cache_read", "cache_write") if getattr(price.rates, name) is None]
    if not missing:
        return ""
    return (
        f"; it has no {' and no '.join(missing)}, so the first reply with such tokens has no known cost and ends the "
        "run, since --budget-usd can no longer be kept; a file for --price-file can name them"
    )


def open_model(
    around: Surroundings,
    config: RunConfig,
    chosen: ChosenModel,
    price: PriceRow | None,
    quirks: Quirks | None,
    notice: Callable[[str], None],
    gaps_s: Sequence[float] = (),
    usages: Sequence[Usage] = (),
) -> Model:
    """The model of a run, asked as `quirks` say (None: as the table that ships does).

    `notice` is given a line before each wait for a provider, and for an option that is not sent as it was given.
    `gaps_s` are the seconds between the requests that were made before a resume, `usages` what the answered ones took.

    Raises UsageError for a name that is no model's, a missing key, another server than the provider's that no option
    names, a recording that cannot be read.
    """
    from d2k_agent.models import ReplayModel, ScriptedModel
    from d2k_agent.records import recorded_turns

    if chosen.script is not None:
        return ScriptedModel(chosen.script, chosen.name)
    if chosen.name.startswith(REPLAY):
        return ReplayModel(recorded_turns(recording(chosen.name)), chosen.name)
    from d2k_agent.models.litellm_client import LiteLLMModel, provider_of

    refuse_other_server(around, config, provider_of(config.model))
    return LiteLLMModel(
        config.model,
        config.model_options,
        around.provider_keys(),
        price=price,
        quirks=quirks,
        gaps_s=gaps_s,
        usages=usages,
        notice=notice,
    )


def recording(name: str) -> Trace:
    """The recorded run that the model `name` (replay/...) replays. Raises UsageError when there is none."""
    from d2k_agent.catalog import samples_dir
    from d2k_agent.records import RunFolder, read_trace

    wanted = name.removeprefix(REPLAY)
    for folder in (Path(wanted), samples_dir() / wanted):
        if RunFolder(folder).exists:
            return read_trace(folder)
    raise UsageError(f"there is no recorded run {wanted!r}; give replay/FOLDER or a name in {samples_dir()}")
