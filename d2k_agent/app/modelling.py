"""A model from its name: a script, a recorded run, or a provider's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from d2k_agent.app.surroundings import Surroundings
from d2k_agent.config import RunConfig, Settings
from d2k_agent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from d2k_agent.models import Model, RecordedTurn
    from d2k_agent.records import Trace

SCRIPTED, REPLAY = "scripted/", "replay/"


def model_name(around: Surroundings, settings: Settings, slug: str) -> str:
    """The name under which the run's model is found again, also from another folder.

    What the settings say, else a replay of the task's sample run. Raises UsageError that lists what is configured.
    """
    from d2k_agent.catalog import sample_trace

    name = settings.model
    if name is None:
        sample = sample_trace(slug)
        if sample is None:
            raise UsageError(_nothing_to_ask(around, slug))
        return f"{REPLAY}{sample.name}"
    for prefix in (SCRIPTED, REPLAY):
        path = around.folder / name.removeprefix(prefix)
        if name.startswith(prefix) and path.exists():
            return f"{prefix}{path.resolve()}"
    return name


def _nothing_to_ask(around: Surroundings, slug: str) -> str:
    keys = ", ".join(around.provider_keys()) or "none"
    return (
        f"no model was named and {slug} has no sample run to replay; give --model NAME or set model in d2k-agent.toml "
        f"(keys in the environment: {keys}; settings file: {around.settings_file() or 'none'})"
    )


def open_model(around: Surroundings, config: RunConfig, notice: Callable[[str], None]) -> Model:
    """The model of a run. `notice` is given a line before each wait for a provider.

    Raises UsageError for a name that is no model's, a missing key, a script or a recording that cannot be read.
    """
    from d2k_agent.models import ReplayModel, ScriptedModel, load_script, script_name

    if config.model.startswith(SCRIPTED):
        path = Path(config.model.removeprefix(SCRIPTED))
        return ScriptedModel(load_script(path), script_name(path))
    if config.model.startswith(REPLAY):
        return ReplayModel(recorded_turns(recording(config.model)), config.model)
    return _provider_model(around, config, notice)


def _provider_model(around: Surroundings, config: RunConfig, notice: Callable[[str], None]) -> Model:
    from d2k_agent.models.litellm_client import LiteLLMModel

    return LiteLLMModel(config.model, config.model_options, around.provider_keys(), notice=notice)


def recording(name: str) -> Trace:
    """The recorded run that the model `name` (replay/...) replays. Raises UsageError when there is none."""
    from d2k_agent.catalog import samples_dir
    from d2k_agent.records import RunFolder, read_trace

    wanted = name.removeprefix(REPLAY)
    for folder in (Path(wanted), samples_dir() / wanted):
        if RunFolder(folder).exists:
            return read_trace(folder)
    raise UsageError(f"there is no recorded run {wanted!r}; give replay/FOLDER or a name in {samples_dir()}")


def recorded_turns(trace: Trace) -> tuple[RecordedTurn, ...]:
    """A run's replies with the results that followed each, in order."""
    from d2k_agent.models import RecordedTurn
    from d2k_agent.records import ModelReplied, ToolFinished

    turns: list[tuple[ModelReplied, list[str]]] = []
    for event in trace.events:
        if isinstance(event, ModelReplied):
            turns.append((event, []))
        elif isinstance(event, ToolFinished) and turns:
            turns[-1][1].append(event.text)
    return tuple(RecordedTurn(reply.message, tuple(texts), reply.finish_reason) for reply, texts in turns)
